package flight

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"golang.org/x/sys/unix"

	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// executeFor executes a statement of this project's client, which executes a
// part of it if it can. The statement of a client that merges the rows of
// several servers by time is not divided: the client needs the marks that stand
// between the rows of the whole result.
func (x *session) executeFor(ctx context.Context, st *wire.Statement, args []types.Value) (wire.Result, error) {
	if st.Host != "" {
		share, ok := x.Session.(wire.Sharer)
		if !ok || st.Shares != wire.ShareVersion {
			return nil, &parser.Error{Msg: fmt.Sprintf("this server executes version %d of queries over several hosts, not version %d", wire.ShareVersion, st.Shares),
				Hint: "have all hosts and the client be of one version", Pos: parser.Span{Start: -1}}
		}
		return share.ExecuteShare(ctx, st.Host, st.Text, args...)
	}
	split, ok := x.Session.(wire.Splitter)
	if p := pathOf(ctx); ok && p != nil && !x.marks && st.Fragments == wire.FragmentVersion {
		return split.ExecuteSplit(ctx, p, st.Text, args...)
	}
	return x.Execute(ctx, st.Text, args...)
}

// path is the way to a client, with the measured capacity of its connection.
type path struct {
	tcp *net.TCPConn // nil: not a TCP connection

	mu      sync.Mutex
	began   time.Time     // start of the interval
	bytes   float64       // bytes sent in the interval
	sending time.Duration // time spent sending in the interval, mostly waiting
	limit   float64       // bytes per second when the network was the limit
	limited time.Time     // when it was
	records atomic.Uint64
	cost    float64 // ns of processor time per byte
}

const (
	// interval is the time over which it is decided whether the network is the
	// limit.
	interval = 500 * time.Millisecond
	// remembered is how long a limit remains valid.
	remembered = time.Minute
	// transport is the transport's cost of sending a byte, in ns, in addition
	// to making the records: gRPC and TCP over loopback.
	transport = 0.3
)

func pathOf(ctx context.Context) *path {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		return c.path
	}
	return nil
}

// Link implements wire.Path. A network that was not saturated lately is assumed
// to carry what TCP would try, a window per round trip, or the observed rate,
// if that is more. The minimum round trip counts: others include the time that
// the client's machine waits before it acknowledges small amounts.
func (p *path) Link() wire.Link {
	l := wire.Link{}
	if info := p.info(); info != nil {
		l.RTT = time.Duration(info.Min_rtt) * time.Microsecond
		if info.Min_rtt > 0 {
			l.Rate = max(float64(info.Snd_cwnd)*float64(info.Snd_mss)*1e6/float64(info.Min_rtt), float64(info.Delivery_rate))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit > 0 && time.Since(p.limited) < remembered {
		l.Rate, l.Limited = p.limit, true
	}
	if p.cost > 0 {
		l.Send = p.cost + transport
	}
	return l
}

// info returns the kernel's information on the connection (tcp(7)).
func (p *path) info() (info *unix.TCPInfo) {
	if p.tcp == nil {
		return nil
	}
	raw, err := p.tcp.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil {
		return nil
	}
	return info
}

// sent records that sending n bytes took d.
func (p *path) sent(n int, d time.Duration) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		p.began = now.Add(-d)
	}
	p.bytes += float64(n)
	p.sending += d
	passed := now.Sub(p.began)
	if passed < interval {
		return
	}
	if p.sending > passed/2 {
		p.limit, p.limited = p.bytes/passed.Seconds(), now
	}
	p.began, p.bytes, p.sending = now, 0, 0
}

// measured is the number of records of which one is measured.
const measured = 16

// measure measures now and then the cost of making and sending a record of
// rows.
func (p *path) measure(write func() error) error {
	if p.records.Add(1)%measured != 1 {
		return write()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.mu.Lock()
	before := p.bytes
	p.mu.Unlock()
	began := threadTime()
	err := write()
	took := threadTime() - began
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.bytes - before; n > 4096 { // a small record's cost is mostly not per byte
		const share = 0.2
		per := float64(took) / n
		if p.cost == 0 {
			p.cost = per
		}
		p.cost += share * (per - p.cost)
	}
	return err
}

func threadTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// metered is a stream that reports to the path what is sent.
type metered struct {
	flight.DataStreamWriter
	p *path
}

func (m metered) Send(d *flight.FlightData) error {
	began := time.Now()
	err := m.DataStreamWriter.Send(d)
	m.p.sent(len(d.GetDataHeader())+len(d.GetDataBody())+len(d.GetAppMetadata()), time.Since(began))
	return err
}
