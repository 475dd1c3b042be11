package remote_test

import (
	"net"
	"sync"
	"testing"
)

// proxy forwards connections to a server until it is cut or frozen.
type proxy struct {
	addr   string
	mu     sync.Mutex
	conns  []net.Conn
	frozen chan struct{}
	once   sync.Once
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), frozen: make(chan struct{})}
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
			p.mu.Lock()
			p.conns = append(p.conns, c, s)
			p.mu.Unlock()
			all.Go(func() { p.pass(s, c) })
			all.Go(func() { p.pass(c, s) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		all.Wait()
	})
	return p
}

func (p *proxy) pass(to, from net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		select {
		case <-p.frozen:
			return
		default:
		}
		if err != nil {
			_ = to.Close()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut closes all connections, as the kernel does for a killed process.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
}

// freeze stops forwarding.
func (p *proxy) freeze() { p.once.Do(func() { close(p.frozen) }) }
