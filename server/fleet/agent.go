package fleet

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"golang.org/x/sys/unix"

	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// Options of an agent.
type Options struct {
	Host  bus.Host // this host
	Bus   bus.Address
	Trust bus.Trust // nil: bus.Open
	// Engine executes queries, for the user that the Trust names.
	Engine wire.Engine
	// Target is what queries observe that name no target.
	Target wire.Options
	Log    *slog.Logger
}

// Agent joins one host to a bus.
type Agent struct {
	o           Options
	nc          *nats.Conn
	incarnation string

	seen    uint64            // sequence of the bucket up to which all changes are known
	runs    map[string]*run   // by query
	waiting map[string]*query // read from the bucket; they begin with a lease
	// finished are the queries that have ended here and not yet in the bucket, with the
	// time of their last lease.
	finished map[string]time.Time
	ended    chan *run
	changed  chan struct{}     // the description must be stored again
	reading  bool              // the bucket is being read
	read     chan []bus.Change // its content; nil: it could not be read
	all      sync.WaitGroup

	mu      sync.Mutex // protects o.Host but its Name, too
	running int
	cpu     float64
}

// query is an accepted query.
type query struct {
	bus.Query
	author string
	after  time.Time // it does not begin again before
}

// New connects an agent to its bus. It does not fail while the bus cannot be reached.
func New(o Options) (*Agent, error) {
	if o.Trust == nil {
		o.Trust = bus.Open{}
	}
	if o.Host.Name == "" {
		return nil, errors.New("a host of a fleet needs a name")
	}
	nc, err := o.Bus.Connect(o.Host.Name, true)
	if err != nil {
		return nil, err
	}
	a := &Agent{o: o, nc: nc, incarnation: newIncarnation(), runs: map[string]*run{}, waiting: map[string]*query{}, finished: map[string]time.Time{},
		changed: make(chan struct{}, 1), ended: make(chan *run), read: make(chan []bus.Change)}
	nc.SetReconnectHandler(func(*nats.Conn) { a.describeAgain() }) // perhaps to a bus that has lost it
	return a, nil
}

// Describe replaces the description of the host.
func (a *Agent) Describe(change func(*bus.Host)) {
	a.mu.Lock()
	change(&a.o.Host)
	a.mu.Unlock()
	a.describeAgain()
}

func (a *Agent) describeAgain() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// newIncarnation returns a name that sorts after those of earlier starts.
func newIncarnation() string {
	return fmt.Sprintf("%016x-%s", time.Now().UnixNano(), nuid.Next())
}

// spread returns a delay of up to most that depends on the host's name: what all hosts do
// at one time is spread over it.
func (a *Agent) spread(most time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(a.o.Host.Name))
	return most * time.Duration(h.Sum32()%1024) / 1024
}

// Run executes queries until ctx is done.
func (a *Agent) Run(ctx context.Context) error {
	defer a.nc.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer a.all.Wait()
	defer cancel()
	in := make(chan *nats.Msg, 4096)
	for _, subject := range []string{bus.AllQueries, bus.AllLeases, bus.HostSubject(a.o.Host.Name)} {
		if _, err := a.nc.ChanSubscribe(subject, in); err != nil {
			return fmt.Errorf("the bus: %w", err)
		}
	}
	_ = a.nc.FlushTimeout(time.Second) // the subscriptions exist before the bucket is read; not while the bus is away
	a.all.Go(func() { a.beat(ctx) })
	if _, reducer := bus.Reducer(a.o.Host.Name); !reducer { // it is no host that queries choose
		a.all.Go(func() { a.describe(ctx) })
	}
	a.all.Go(func() { a.o.Trust.Follow(ctx, a.nc, a.follow) })
	a.reread(ctx, 0)
	tick := time.NewTicker(bus.LeaseEvery)
	defer tick.Stop()
	for {
		select {
		case m := <-in:
			a.receive(ctx, m)
		case changes := <-a.read:
			a.reading = false
			if changes == nil {
				a.reread(ctx, time.Second)
			}
			for _, c := range changes {
				a.seen = max(a.seen, c.Seq)
				a.change(ctx, c, false)
			}
		case r := <-a.ended:
			a.over(r)
		case <-tick.C:
			a.expire()
		case <-ctx.Done():
			for range a.runs {
				<-a.ended
			}
			return nil
		}
	}
}

// follow logs what the Trust learns.
func (a *Agent) follow(change string, err error) {
	if err != nil {
		a.o.Log.Warn("a message of the bus is refused", "error", err)
		return
	}
	a.o.Log.Info("fleet", "accepted", change)
}

// describedEvery is the interval at which a description is stored again, though it is the
// same: the bus may have lost it.
const describedEvery = 10 * time.Minute

// describe stores the host's description in the bus, again when it has changed.
func (a *Agent) describe(ctx context.Context) {
	about, said := bus.About{Kind: bus.KindHost, Host: a.o.Host.Name}, false
	for ctx.Err() == nil {
		a.mu.Lock()
		text := bus.Encode(a.o.Host)
		a.mu.Unlock()
		m, err := a.o.Trust.Seal(about, text)
		if err == nil {
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			err = bus.DescribeHost(short, a.nc, about.Host, m)
			cancel()
		}
		again := describedEvery + a.spread(describedEvery/4)
		if err != nil {
			if again = time.Second; !said && ctx.Err() == nil {
				said = true
				a.o.Log.Warn("the bus does not know this host yet", "error", err)
			}
		}
		select {
		case <-a.changed:
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// beat sends heartbeats, and says in the log when the bus is lost and found.
func (a *Agent) beat(ctx context.Context) {
	sleep(ctx, a.spread(bus.LeaseEvery/4))
	tick := time.NewTicker(bus.LeaseEvery)
	defer tick.Stop()
	connected, used, at := false, processorTime(), time.Now()
	for ctx.Err() == nil {
		if now := a.nc.IsConnected(); now != connected {
			connected = now
			a.o.Log.Info("fleet", "connected", now, "host", a.o.Host.Name)
		}
		now, time := processorTime(), time.Now()
		a.mu.Lock()
		if d := time.Sub(at); d > 0 {
			a.cpu = float64(now-used) / float64(d)
		}
		b := bus.Heartbeat{Host: a.o.Host.Name, Incarnation: a.incarnation, Time: time.UnixNano(), Queries: a.running, CPU: a.cpu}
		a.mu.Unlock()
		used, at = now, time
		a.publish(bus.About{Kind: bus.KindHeartbeat, Host: b.Host}, bus.HeartbeatSubject(b.Host), bus.Encode(b))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// processorTime returns the time that this process has used of the processors.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// publish seals and sends a message. The bus may lose it.
func (a *Agent) publish(about bus.About, subject string, message []byte) {
	m, err := a.o.Trust.Seal(about, message)
	if err == nil {
		err = a.nc.Publish(subject, m)
	}
	if err != nil && !errors.Is(err, nats.ErrReconnectBufExceeded) && !errors.Is(err, nats.ErrConnectionClosed) {
		a.o.Log.Warn("a message cannot be sent", "subject", subject, "error", err)
	}
}

// count updates what heartbeats report.
func (a *Agent) count() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = len(a.runs)
}

// Kernel returns the release of this machine's kernel.
func Kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
