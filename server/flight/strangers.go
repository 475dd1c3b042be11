package flight

import (
	"container/list"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// strangers are the connections over which nobody has called yet who was
// identified. Anybody can open them: they are few, and have to say soon who they
// are. Beyond their number one goes of those who hold the most of them, their oldest:
// who has something to say needs moments for it, and cannot be shut out by those who
// only hold connections. Each listener has its own, so that those of a network do not
// concern who is at the machine.
//
// It is safe for concurrent use.
type strangers struct {
	most   int           // at a time
	within time.Duration // they are identified, or closed

	mu    sync.Mutex
	all   *list.List     // of *stranger, the oldest first
	holds map[string]int // of them, by where they come from
}

// mostStrangers is how many connections of a listener may be unidentified at a time.
const mostStrangers = 256

func newStrangers(most int, within time.Duration) *strangers {
	return &strangers{most: most, within: within, all: list.New(), holds: map[string]int{}}
}

// stranger is a connection. Its address is one by which gRPC hands it back.
type stranger struct {
	net.Conn
	of    *strangers
	from  string        // see origin
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
		if c.of.holds[c.from]--; c.of.holds[c.from] == 0 {
			delete(c.of.holds, c.from)
		}
		c.timer.Stop()
	}
}

// add has a connection be one of them.
func (s *strangers) add(c net.Conn) *stranger {
	x := &stranger{Conn: c, of: s, from: origin(c)}
	s.mu.Lock()
	x.at = s.all.PushBack(x)
	s.holds[x.from]++
	x.timer = time.AfterFunc(s.within, func() { _ = x.Close() })
	var goes *stranger
	if s.all.Len() > s.most {
		goes = s.crowd()
	}
	s.mu.Unlock()
	if goes != nil {
		_ = goes.Close()
	}
	return x
}

// crowd is the oldest one of those that come from where the most do. The caller holds
// s.mu, and there are some.
func (s *strangers) crowd() *stranger {
	var found *stranger
	for e := s.all.Front(); e != nil; e = e.Next() {
		if x := e.Value.(*stranger); found == nil || s.holds[x.from] > s.holds[found.from] {
			found = x
		}
	}
	return found
}

// origin is where a connection comes from, as far as its peer cannot choose that: the
// address without the port, of which IPv6 gives everybody the last 64 bits; of a Unix
// socket the user.
func origin(c net.Conn) string {
	switch c := c.(type) {
	case *net.TCPConn:
		if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			addr := a.AddrPort().Addr().Unmap()
			if addr.Is6() {
				if p, err := addr.WithZone("").Prefix(64); err == nil {
					return p.String()
				}
			}
			return addr.String()
		}
	case *net.UnixConn:
		return "uid " + peerUID(c)
	}
	return c.RemoteAddr().String()
}

// peerUID is the user who connected to a Unix socket; "": it is gone.
func peerUID(c *net.UnixConn) (uid string) {
	raw, err := c.SyscallConn()
	if err != nil {
		return ""
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = strconv.FormatUint(uint64(cred.Uid), 10)
		}
	})
	return uid
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
