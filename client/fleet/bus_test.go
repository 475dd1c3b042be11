package fleet_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"endoscope/client/fleet/root"
	"endoscope/probes/testenv"
	agent "endoscope/server/fleet"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// fleetBus is a NATS server in this process, and a root.
type fleetBus struct {
	*natsd.Server
	at bus.Address
}

func startBus(t testing.TB) *fleetBus {
	t.Helper()
	s, err := natsd.NewServer(&natsd.Options{ServerName: "test", DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	b := &fleetBus{s, bus.Address{Server: s}}
	testenv.Until(t, "the bus runs", func() bool { return s.ReadyForConnections(time.Second) })
	nc := b.connect(t)
	defer nc.Close()
	if err := bus.Prepare(t.Context(), nc, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *fleetBus) connect(t testing.TB) *nats.Conn {
	t.Helper()
	nc, err := b.at.Connect("test", false)
	if err != nil {
		t.Fatal(err)
	}
	return nc
}

// join starts an agent, and returns what ends it.
func (b *fleetBus) join(t testing.TB, h bus.Host, e wire.Engine) (leave func()) {
	t.Helper()
	a, err := agent.New(agent.Options{Host: h, Bus: b.at, Engine: local{e}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return background(t, a.Run)
}

// background runs something until stop is called, or the test ends.
func background(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		_ = run(ctx)
		close(ended)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(stop)
	return stop
}

// local is an engine whose sessions are of the user of the tests.
type local struct{ wire.Engine }

func (l local) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	o.User = nil
	return l.Engine.NewSession(ctx, o)
}

// dial returns a session of a root, when so many hosts have joined.
func (b *fleetBus) dial(t testing.TB, hosts int) wire.Session {
	t.Helper()
	e, err := root.Dial(t.Context(), root.Options{Bus: b.at})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	testenv.UntilNil(t, "the hosts join", func() error { return e.Await(t.Context(), hosts, 0) })
	s, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// disturb makes the bus lose, repeat and delay a share of what hosts and roots send.
func (b *fleetBus) disturb(t *testing.T) {
	t.Helper()
	for of, n := range map[string]int{"endoscope.result.": 2, "endoscope.part.": 3, "endoscope.host.": 1, "endoscope.lease.": 1} {
		tokens, subject := "{{wildcard(1)}}", of+"*"
		for i := 2; i <= n; i++ {
			tokens, subject = fmt.Sprintf("%s.{{wildcard(%d)}}", tokens, i), subject+".*"
		}
		err := b.GlobalAccount().AddWeightedMappings(subject,
			natsd.NewMapDest(of+tokens, 60), natsd.NewMapDest("relayed."+of+tokens, 20), natsd.NewMapDest("lost."+of+tokens, 20))
		if err != nil {
			t.Fatal(err)
		}
	}
	nc := b.connect(t)
	var relays sync.WaitGroup
	var mu sync.Mutex // protects ended
	ended := false
	t.Cleanup(func() {
		mu.Lock()
		ended = true
		mu.Unlock()
		relays.Wait()
		nc.Close()
	})
	_, err := nc.Subscribe("relayed.>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return
		}
		for range 1 + rand.IntN(2) {
			relays.Add(1)
			time.AfterFunc(time.Duration(rand.IntN(int(800*time.Millisecond))), func() {
				defer relays.Done()
				_ = nc.Publish(strings.TrimPrefix(m.Subject, "relayed."), m.Data)
			})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// overBus returns a divided stream whose hosts are reached over a bus.
func overBus(t *testing.T, b *fleetBus, hosts int) *divided {
	d := &divided{dir: t.TempDir(), one: open(t, engine(t))}
	for i := range hosts {
		e := engine(t)
		t.Cleanup(func() { _ = e.Close() })
		s, err := e.NewSession(t.Context(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		d.each = append(d.each, s)
		b.join(t, bus.Host{Name: string(rune('a' + i)), Labels: map[string]string{"rack": fmt.Sprint("r", i%2)}}, e)
	}
	d.all = b.dial(t, hosts)
	return d
}

// randomRows divides random rows over hosts, each of which has at least one.
func (d *divided) randomRows(t *testing.T, r *rand.Rand) (rows []string, hosts []int) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 60 {
		now = now.Add(time.Duration([]int{1, 10, 400, 999, 1000, 1499, 2000}[r.IntN(7)]) * time.Millisecond)
		x := fmt.Sprint(math.Ldexp(float64(r.IntN(1<<21)-1<<20), r.IntN(60)-40))
		if r.IntN(5) == 0 {
			x = ""
		}
		rows = append(rows, fmt.Sprintf("%s,%d,%s,%c", now.Format("2006-01-02T15:04:05.000Z"), r.IntN(109)-9, x, 'a'+rune(r.IntN(5))))
		host := i
		if i >= len(d.each) {
			host = r.IntN(len(d.each))
		}
		hosts = append(hosts, host)
	}
	d.divide(t, "timestamp,n,x,s", rows, func(row int) int { return hosts[row] })
	return rows, hosts
}

// The fleet's answer equals that of one engine with all rows, for random queries, while
// the bus loses, repeats and delays messages.
func TestFleetOverABadBusGivesTheSame(t *testing.T) {
	b := startBus(t)
	d := overBus(t, b, 3)
	b.disturb(t)
	rows, hosts := d.randomRows(t, rand.New(rand.NewPCG(1, 2)))
	queries := testenv.Times(48)
	d.sameRandomly(t, queries, rows, hosts)
}

// sameRandomly compares the results of random statements, eight at a time.
func (d *divided) sameRandomly(t *testing.T, queries int, rows []string, hosts []int) {
	at := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i := range queries {
		var statement string
		gen := rapid.Custom(func(rt *rapid.T) string { return draw(rt) })
		if statement = gen.Example(i); strings.Contains(statement, "LIMIT 20") {
			continue // rows at one time are in no order
		}
		at <- struct{}{}
		all.Go(func() {
			defer func() { <-at }()
			t.Run(fmt.Sprint(i), func(t *testing.T) { d.same(t, statement, rows, hosts) })
		})
	}
	all.Wait()
}

// same compares the result of a statement over the parts with that over all rows.
func (d *divided) same(t *testing.T, statement string, rows []string, hosts []int) {
	t.Helper()
	var notes []string
	want, got := cells(t, d.one, statement), noted(t, d.all, statement, &notes)
	if a, b := sorted(want, statement), sorted(got, statement); a != b {
		t.Errorf("%s\n%q\nof one\n%s\nof the fleet\n%s\nrows\n%s\nhosts %v", statement, notes, a, b, strings.Join(rows, "\n"), hosts)
	}
}
