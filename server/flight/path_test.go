package flight

import (
	"io"
	"net"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// The capacity of a path is the observed rate while there was more to send;
// before that it is what TCP would try, which is much on one machine, however
// little was sent.
func TestLinks(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	p := &path{tcp: here.(*net.TCPConn)}
	for range 3 { // the client delays its acknowledgements, as for small amounts
		if _, err := here.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(there, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	info, link := p.info(), p.Link()
	if info == nil || info.Min_rtt == 0 {
		testenv.Skip(t, "the kernel does not say what the round trip is")
	}
	testenv.Until(t, "no acknowledgement arrives between two looks", func() bool {
		before := *info
		link, info = p.Link(), p.info()
		return before.Min_rtt == info.Min_rtt && before.Snd_cwnd == info.Snd_cwnd
	})
	if link.Limited || link.Rate < float64(info.Snd_cwnd)*float64(info.Snd_mss)*1e6/float64(info.Min_rtt) || link.RTT != time.Duration(info.Min_rtt)*time.Microsecond {
		t.Errorf("of a path that was never full: %+v, as the kernel says %+v", link, info)
	}
	p.began = time.Now().Add(-time.Second)
	p.sent(1000, 400*time.Millisecond) // most of the time there was nothing more to send
	if l := p.Link(); l.Limited {
		t.Errorf("less than it would carry was sent: %+v", l)
	}
	p.began = time.Now().Add(-time.Second)
	p.sent(1_000_000, 900*time.Millisecond)
	if l := p.Link(); !l.Limited || l.Rate > 1_000_000 {
		t.Errorf("1 MB in a second or more: %+v", l)
	}
	p.limited = time.Now().Add(-2 * remembered)
	if l := p.Link(); l.Limited {
		t.Errorf("what was seen long ago: %+v", l)
	}
}

// A path that is not a TCP connection has only observed limits.
func TestLinksOfSockets(t *testing.T) {
	p := &path{}
	if l := p.Link(); l.Rate != 0 || l.RTT != 0 || l.Limited || l.Send != 0 {
		t.Errorf("nothing is known: %+v", l)
	}
	// Only records of many rows determine the cost of a byte.
	for range 2 * measured {
		if err := p.measure(func() error { p.sent(100, 0); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if l := p.Link(); l.Send != 0 {
		t.Errorf("of some bytes: %+v", l)
	}
	for range 2 * measured {
		if err := p.measure(func() error {
			for began := threadTime(); threadTime()-began < 10*time.Microsecond; {
			}
			p.sent(10_000, 0)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if l := p.Link(); l.Send <= transport {
		t.Errorf("of records: %+v", l)
	}
}
