package flight

import (
	"container/list"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// strangers are the connections over which nobody has called yet who was
// identified. Anybody can open them: they are few, and have to say soon who they
// are. Beyond their number the oldest one goes: who has something to say needs
// moments for it, and cannot be shut out by those who only hold connections.
//
// It is safe for concurrent use.
type strangers struct {
	most   int           // at a time
	within time.Duration // they are identified, or closed

	mu  sync.Mutex
	all *list.List // of *stranger, the oldest first
}

// mostStrangers is how many connections may be unidentified at a time.
const mostStrangers = 256

func newStrangers(most int, within time.Duration) *strangers {
	return &strangers{most: most, within: within, all: list.New()}
}

// stranger is a connection. Its address is one by which gRPC hands it back.
type stranger struct {
	net.Conn
	of    *strangers
	at    *list.Element // nil: it is none any more; guarded by of.mu
	timer *time.Timer
}

// strangerAddr is the address of a stranger's peer.
type strangerAddr struct {
	net.Addr
	conn *stranger
}

func (c *stranger) RemoteAddr() net.Addr { return strangerAddr{c.Conn.RemoteAddr(), c} }

// NetConn is the connection itself, for those who ask the kernel about it.
func (c *stranger) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *stranger) Close() error {
	c.known()
	return c.Conn.Close()
}

// known takes the connection off the list: somebody was identified, or it ends.
func (c *stranger) known() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.at != nil {
		c.of.all.Remove(c.at)
		c.at = nil
		c.timer.Stop()
	}
}

// add has a connection be one of them.
func (s *strangers) add(c net.Conn) *stranger {
	x := &stranger{Conn: c, of: s}
	s.mu.Lock()
	x.at = s.all.PushBack(x)
	x.timer = time.AfterFunc(s.within, func() { _ = x.Close() })
	var oldest *stranger
	if s.all.Len() > s.most {
		oldest = s.all.Front().Value.(*stranger)
	}
	s.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return x
}

// meet is a listener whose connections are strangers at first.
type meet struct {
	net.Listener
	s *strangers
}

func (l meet) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		unacknowledged(tcp, l.s.within/2)
	}
	return l.s.add(c), nil
}

// unacknowledged has the kernel end a connection whose peer acknowledges nothing for
// so long: what gRPC does itself with connections that it sees to be TCP's.
func unacknowledged(c *net.TCPConn, most time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(most.Milliseconds())) // pings notice it, too
	})
}
