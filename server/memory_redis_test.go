package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// ask sends a command and returns the bulk string that it answers.
func (r *redis) ask(t *testing.T, c net.Conn, in *bufio.Reader, command string) string {
	t.Helper()
	fmt.Fprint(c, command, "\r\n")
	header, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	size, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(header, "$")))
	if err != nil {
		return strings.TrimSpace(header)
	}
	body := make([]byte, size+2)
	if _, err := io.ReadFull(in, body); err != nil {
		t.Fatal(err)
	}
	return string(body[:size])
}

// What redis allocates for its keys and does not release is what its own account
// (used_memory, of jemalloc's usable sizes) has grown by: values of a size that
// jemalloc has are counted to the byte.
func TestAllocationsOfRedis(t *testing.T) {
	testenv.NeedUprobes(t)
	r := startRedis(t)
	s := newSession(t, wire.Options{PID: r.pid})
	const keys, class = 500, 10240 // a size class of jemalloc
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	r.ask(t, c, in, "SET warm up")
	before := field(t, r.ask(t, c, in, "INFO memory"), "used_memory")
	q := start(t, s, fmt.Sprintf(`SELECT COUNT(*), SUM(a.size) FROM allocation a LEFT WINDOW JOIN deallocation d WINDOW 1h a FOLLOWED BY d ON a.address = d.address
		WHERE d.address IS NULL AND a.size BETWEEN %d AND %d`, class-64, class+64))
	// A string of redis' (SDS) takes a header of five bytes and a zero beside.
	value := strings.Repeat("x", class-6)
	for i := range keys {
		if got := r.ask(t, c, in, fmt.Sprintf("SET key:%d %s", i, value)); got != "+OK" {
			t.Fatal(got)
		}
	}
	grown := field(t, r.ask(t, c, in, "INFO memory"), "used_memory") - before
	q.Stop()
	a := read(t, q)
	complete(t, a)
	n, sum := number(t, a, 0, 0), number(t, a, 0, 1)
	if n != keys || sum != keys*class {
		t.Errorf("%d allocations of %d bytes are left, want %d: %v", n, sum, keys, a.rows)
	}
	// Beside the values there are keys, and the table of them.
	if grown < keys*class || grown > keys*(class+512) {
		t.Errorf("redis has grown by %d bytes, its values are %d", grown, keys*class)
	}
}

// field is a number of redis' INFO.
func field(t *testing.T, info, name string) int64 {
	t.Helper()
	for _, line := range strings.Split(info, "\n") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("INFO says nothing of %s", name)
	return 0
}
