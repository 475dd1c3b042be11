package remote_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// relay forwards connections to a server and delays the data from it.
type relay struct {
	addr  string
	delay atomic.Int64 // ns, for each relayed piece
}

// relayed is the size of a delayed piece.
const relayed = 64 << 10

func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			// Limit the receive buffer: data waiting there would not be held back.
			_ = s.(*net.TCPConn).SetReadBuffer(relayed)
			all.Go(func() { r.pass(c, s, &r.delay) })
			all.Go(func() { r.pass(s, c, nil) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return r
}

func (r *relay) pass(to, from net.Conn, delay *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	piece := make([]byte, relayed)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			if delay != nil {
				time.Sleep(time.Duration(delay.Load())) // simulates a slow network
			}
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
