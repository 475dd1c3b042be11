package flight

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// open connects and sends nothing.
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
	_ = c.SetReadDeadline(time.Now().Add(3 * time.Minute))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection is open after three minutes")
	}
}

// A client that connects and does not identify itself is disconnected; an
// identified one stays, however long it is silent.
func TestUnidentifiedConnectionsAreClosed(t *testing.T) {
	testenv.Long(t)
	// An identified client is disconnected that does not answer within half of it.
	addr := serve(t, engine(t), Options{ClientTimeout: 20 * time.Second})
	identified := foreign(t, addr)
	setting := func() string {
		info, err := identified.Execute(t.Context(), "SHOW SETTINGS LIKE 'lateness'")
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := records(t, identified, info)
		return rows[0]
	}
	if _, err := identified.ExecuteUpdate(t.Context(), "SET lateness = 3s"); err != nil {
		t.Fatal(err)
	}
	said := setting()
	silent, half := open(t, addr), open(t, addr)
	if _, err := io.WriteString(half, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	closed(t, silent)
	closed(t, half) // it speaks HTTP/2, but makes no call
	if got := setting(); got != said {
		t.Errorf("the session of a client that was identified is another one: %s, %s", said, got)
	}
}

// A peer that only holds connections does not shut out others: of the
// connections from one origin, the oldest are closed.
func TestOldestUnidentifiedIsClosed(t *testing.T) {
	s := newUnidentified(3, time.Hour)
	var ends []net.Conn
	var all []*unidentifiedConn
	for range 3 {
		end, c := net.Pipe()
		ends, all = append(ends, end), append(all, s.add(c))
	}
	all[0].identified()
	end, c := net.Pipe()
	all = append(all, s.add(c)) // the third: none is closed
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
	if s.all.Len() != 0 || len(s.holds) != 0 {
		t.Errorf("%d are left, of %v", s.all.Len(), s.holds)
	}
}

// from is a connection with a given origin.
type from struct {
	net.Conn
	where string
}

func (f from) RemoteAddr() net.Addr { return &net.UnixAddr{Name: f.where, Net: "unix"} }

// An origin with many connections loses them; one with few, however old, does
// not.
func TestLargestOriginLosesConnections(t *testing.T) {
	s := newUnidentified(4, time.Hour)
	var ends []net.Conn
	for _, where := range []string{"one", "crowd", "crowd", "other", "crowd", "third"} { // the last two exceed the limit
		end, c := net.Pipe()
		ends = append(ends, end)
		defer s.add(from{c, where}).Close()
	}
	for i, want := range []error{os.ErrDeadlineExceeded, io.EOF, io.EOF, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded} {
		_ = ends[i].SetReadDeadline(time.Now())
		if _, err := ends[i].Read(make([]byte, 1)); !errors.Is(err, want) {
			t.Errorf("connection %d: %v, want %v", i, err, want)
		}
	}
}

// Connections from one address, or of one user, have the same origin.
func TestOrigin(t *testing.T) {
	dir := t.TempDir()
	for _, at := range []struct{ network, addr, want string }{
		{"tcp", "127.0.0.1:0", "127.0.0.1"},
		{"tcp", "[::1]:0", "::/64"},
		{"unix", filepath.Join(dir, "socket"), "uid " + strconv.Itoa(os.Getuid())},
	} {
		l, err := net.Listen(at.network, at.addr)
		if err != nil {
			if at.addr == "[::1]:0" {
				continue // a machine without IPv6
			}
			t.Fatal(err)
		}
		defer l.Close()
		peer, err := net.Dial(at.network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := origin(c); got != at.want {
			t.Errorf("%s: %q, want %q", at.addr, got, at.want)
		}
	}
}

// The unidentified connections of one listener do not count at another.
func TestListenersCountUnidentifiedApart(t *testing.T) {
	e := engine(t)
	s := New(e, Options{ClientTimeout: time.Hour})
	var all []net.Conn
	done := make(chan error, 2)
	crowded, other := listener(t), listener(t)
	for _, l := range []net.Listener{crowded, other} {
		go func() { done <- s.Serve(l) }()
	}
	first := open(t, other.Addr().String())
	for range maxUnidentified + 1 {
		all = append(all, open(t, crowded.Addr().String()))
	}
	closed(t, all[0]) // once it is closed, all the others were accepted
	_ = first.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := io.Copy(io.Discard, first); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the one at another listener has ended: %v", err)
	}
	for _, c := range append(all, first) {
		_ = c.Close()
	}
	s.Stop(t.Context())
	for range 2 {
		<-done
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
