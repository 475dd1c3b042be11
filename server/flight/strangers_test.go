package flight

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// open connects and says nothing.
func open(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// closed waits until the server has closed a connection.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection is open after a minute")
	}
}

// Who connects and does not say who they are is sent away; who was identified stays,
// however long they say nothing.
func TestStrangersAreSentAway(t *testing.T) {
	addr := serve(t, engine(t), Options{ClientTimeout: time.Second})
	known := foreign(t, addr)
	setting := func() string {
		info, err := known.Execute(t.Context(), "SHOW SETTINGS LIKE 'lateness'")
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := records(t, known, info)
		return rows[0]
	}
	if _, err := known.ExecuteUpdate(t.Context(), "SET lateness = 3s"); err != nil {
		t.Fatal(err)
	}
	said := setting()
	closed(t, open(t, addr))
	half := open(t, addr)
	if _, err := io.WriteString(half, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	closed(t, half) // it speaks HTTP/2, and still says nothing
	if got := setting(); got != said {
		t.Errorf("the session of a client that was identified is another one: %s, %s", said, got)
	}
}

// A crowd that only holds connections shuts nobody out: the oldest ones go.
func TestTheOldestStrangersGo(t *testing.T) {
	s := newStrangers(3, time.Hour)
	var ends []net.Conn
	var all []*stranger
	for range 3 {
		end, c := net.Pipe()
		ends, all = append(ends, end), append(all, s.add(c))
	}
	all[0].known()
	end, c := net.Pipe()
	all = append(all, s.add(c)) // the third: nobody goes
	ends = append(ends, end)
	_, c = net.Pipe()
	last := s.add(c)
	if _, err := ends[1].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the oldest one is there: %v", err)
	}
	for _, i := range []int{0, 2, 3} {
		_ = ends[i].SetReadDeadline(time.Now())
		if _, err := ends[i].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d has ended: %v", i, err)
		}
	}
	for _, x := range append(all, last) {
		_ = x.Close()
	}
	if s.all.Len() != 0 {
		t.Errorf("%d are left", s.all.Len())
	}
}
