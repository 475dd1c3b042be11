package flight

import (
	"container/list"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// unidentified holds the connections without an identified call so far. Anybody
// can open them, so their number is limited, and they must identify themselves
// soon. Beyond the limit, the oldest connection of the origin with the most
// connections is closed: a client that does identify itself needs only moments,
// and cannot be shut out by those that only hold connections. Each listener has
// its own list, so that those of a network do not affect local users.
//
// It is safe for concurrent use.
type unidentified struct {
	most   int           // maximum number
	within time.Duration // time to identify, after which they are closed

	mu    sync.Mutex
	all   *list.List     // of *unidentifiedConn, oldest first
	holds map[string]int // number of connections, by origin
}

// maxUnidentified is the maximum number of unidentified connections of a
// listener.
const maxUnidentified = 256

func newUnidentified(most int, within time.Duration) *unidentified {
	return &unidentified{most: most, within: within, all: list.New(), holds: map[string]int{}}
}

// unidentifiedConn is a connection whose address lets a gRPC call find it.
type unidentifiedConn struct {
	net.Conn
	of    *unidentified
	from  string        // see origin
	at    *list.Element // nil: it is identified; guarded by of.mu
	timer *time.Timer
}

// unidentifiedAddr is the address of an unidentified connection's peer.
type unidentifiedAddr struct {
	net.Addr
	conn *unidentifiedConn
}

func (c *unidentifiedConn) RemoteAddr() net.Addr { return unidentifiedAddr{c.Conn.RemoteAddr(), c} }

// NetConn returns the underlying connection, for queries to the kernel.
func (c *unidentifiedConn) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *unidentifiedConn) Close() error {
	c.identified()
	return c.Conn.Close()
}

// identified removes the connection from the list: a caller was identified, or the
// connection ends.
func (c *unidentifiedConn) identified() {
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

// add adds a connection.
func (s *unidentified) add(c net.Conn) *unidentifiedConn {
	x := &unidentifiedConn{Conn: c, of: s, from: origin(c)}
	s.mu.Lock()
	x.at = s.all.PushBack(x)
	s.holds[x.from]++
	x.timer = time.AfterFunc(s.within, func() { _ = x.Close() })
	var excess *unidentifiedConn
	if s.all.Len() > s.most {
		excess = s.oldestOfLargest()
	}
	s.mu.Unlock()
	if excess != nil {
		_ = excess.Close()
	}
	return x
}

// oldestOfLargest returns the oldest connection of the origin with the most. The caller
// holds s.mu, and there is at least one.
func (s *unidentified) oldestOfLargest() *unidentifiedConn {
	var found *unidentifiedConn
	for e := s.all.Front(); e != nil; e = e.Next() {
		if x := e.Value.(*unidentifiedConn); found == nil || s.holds[x.from] > s.holds[found.from] {
			found = x
		}
	}
	return found
}

// origin returns where a connection comes from, without the parts that its peer
// can choose: the address without the port and, for IPv6, without the last 64
// bits; for a Unix socket, the user.
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

// peerUID returns the user who connected to a Unix socket; "" if the connection
// is gone.
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

// unidentifiedListener is a listener whose connections start unidentified.
type unidentifiedListener struct {
	net.Listener
	s *unidentified
}

func (l unidentifiedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		unacknowledged(tcp, l.s.within/2)
	}
	return l.s.add(c), nil
}

// unacknowledged has the kernel close a connection whose peer acknowledges
// nothing for so long. gRPC does that itself for connections that it recognizes
// as TCP.
func unacknowledged(c *net.TCPConn, most time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // the connection is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(most.Milliseconds())) // pings notice it, too
	})
}
