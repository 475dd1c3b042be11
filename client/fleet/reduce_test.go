package fleet_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"endoscope/client/fleet/root"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// reduce starts a reducer, and returns what ends it.
func (b *fleetBus) reduce(t testing.TB, name string, shards int) (leave func()) {
	return b.reduceAt(t, name, shards, b.at)
}

func (b *fleetBus) reduceAt(t testing.TB, name string, shards int, at bus.Address) (leave func()) {
	return background(t, func(ctx context.Context) error {
		return root.Reduce(ctx, root.ReduceOptions{Options: root.Options{Bus: at}, Name: name, Shards: shards, Log: slog.New(slog.DiscardHandler)})
	})
}

// dialReduced returns a session of a root, when hosts and reducers have joined and each shard
// has an owner.
func (b *fleetBus) dialReduced(t testing.TB, hosts, reducers, shards int) (s wire.Session, owners []string) {
	t.Helper()
	e, err := root.Dial(t.Context(), root.Options{Bus: b.at})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	testenv.UntilNil(t, "the hosts join", func() error { return e.Await(t.Context(), hosts, reducers) })
	if s, err = e.NewSession(t.Context(), wire.Options{}); err != nil {
		t.Fatal(err)
	}
	return s, awaitShards(t, &b.at, shards)
}

// runReducerOptions are those of a reducer in a process of its own.
type runReducerOptions struct {
	URL, Name string
	Shards    int
}

// runReducer is a part: a reducer.
func runReducer(options []byte) error {
	var o runReducerOptions
	if err := json.Unmarshal(options, &o); err != nil {
		return err
	}
	debug.SetGCPercent(root.ReducerGC) // as endoscoped does
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- root.Reduce(ctx, root.ReduceOptions{Options: root.Options{Bus: bus.Address{URL: o.URL}}, Name: o.Name, Shards: o.Shards, Log: slog.New(slog.DiscardHandler)})
	}()
	ready("")
	cancel()
	return <-ended
}

// awaitShards waits until each shard has an owner of its own, and returns the owners.
func awaitShards(t testing.TB, at *bus.Address, shards int) (owners []string) {
	t.Helper()
	nc, err := at.Connect("test", false)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	testenv.Until(t, "each shard has an owner", func() bool {
		owners = nil
		for k := range shards {
			keeper, _, err := bus.KeeperOf(t.Context(), nc, bus.ShardLease(k, shards))
			if err != nil || keeper.Name == "" || slices.Contains(owners, keeper.Name) {
				return false
			}
			owners = append(owners, keeper.Name)
		}
		return true
	})
	return owners
}

// countReduced counts the queries whose hosts send to reducers.
func (b *fleetBus) countReduced(t testing.TB) (count func() int) {
	t.Helper()
	nc := b.connect(t)
	t.Cleanup(nc.Close)
	var mu sync.Mutex // protects seen
	seen := map[string]bool{}
	if _, err := nc.Subscribe(bus.AllParts, func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		seen[strings.Split(m.Subject, ".")[2]] = true
	}); err != nil {
		t.Fatal(err)
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
}

// The answer of a fleet is the same with and without reducers, for aggregates of each kind.
func TestReducersChangeNothing(t *testing.T) {
	b := startBus(t)
	d := overBus(t, b, 5)
	d.randomRows(t, rand.New(rand.NewPCG(3, 4)))
	const of = "SELECT s, COUNT(*) AS a, SUM(x) AS b, AVG(x) AS c, QUANTILE(x, 0.9) AS d, TOPK(n, 3) AS e, COUNT(DISTINCT n) AS f, STDDEV(x) AS g FROM "
	statements := []string{of + "rows GROUP BY s ORDER BY s", of + "rows GROUP BY s HAVING COUNT(*) > 10 ORDER BY b DESC LIMIT 2",
		"SELECT window_end, " + of[len("SELECT "):] + "TUMBLE(rows, 10s) GROUP BY s, window_start, window_end", of + "rows GROUP BY s EMIT EVERY 1s"}
	var want []string
	for _, text := range statements {
		want = append(want, sorted(cells(t, d.all, text), text))
	}
	for _, name := range []string{"r0", "r1", "r2"} {
		b.reduce(t, name, 2)
	}
	s, _ := b.dialReduced(t, 5, 3, 2)
	count := b.countReduced(t)
	for i, text := range statements {
		var notes []string
		if got := sorted(noted(t, s, text, &notes), text); got != want[i] || want[i] == "" {
			t.Errorf("%s\nwithout\n%s\nwith\n%s", text, want[i], got)
		}
		if !slices.Contains(notes, "5 of 5 hosts") {
			t.Errorf("%s: the footer is %q", text, notes)
		}
	}
	if n := count(); n != len(statements) {
		t.Errorf("%d of %d queries were reduced", n, len(statements))
	}
}

// A shard whose hosts have no rows, and do not know their types, changes nothing.
func TestShardWithoutRows(t *testing.T) {
	b := startBus(t)
	d := overBus(t, b, 4)
	rows := []string{"2026-01-02T03:04:05.000Z,1,2.5,a", "2026-01-02T03:04:06.000Z,2,1.5,b", "2026-01-02T03:04:07.000Z,3,0.5,a"}
	var of []int // hosts of one shard
	for i := range 4 {
		if bus.ShardOf(nameOf(i), 2) == bus.ShardOf(nameOf(0), 2) {
			of = append(of, i)
		}
	}
	if len(of) == 4 {
		t.Fatal("all hosts are in one shard")
	}
	d.divide(t, "timestamp,n,x,s", rows, func(row int) int { return of[row%len(of)] })
	for _, name := range []string{"r0", "r1"} {
		b.reduce(t, name, 2)
	}
	s, _ := b.dialReduced(t, 4, 2, 2)
	for _, text := range []string{"SELECT s, COUNT(*), SUM(x) FROM rows GROUP BY s", "SELECT s, COUNT(*) FROM rows GROUP BY s EMIT EVERY 1s"} {
		var notes []string
		want, got := sorted(cells(t, d.one, text), text), sorted(noted(t, s, text, &notes), text)
		if got != want || !slices.Contains(notes, "4 of 4 hosts") {
			t.Errorf("%s: %q\nwant\n%s\ngot\n%s", text, notes, want, got)
		}
	}
}

// What reducers have merged equals what one engine gives of all rows, for random queries.
func TestReducersGiveTheSame(t *testing.T) { reducersGiveTheSame(t, testenv.Times(32), false) }

// The same while the bus loses, repeats and delays messages.
func TestReducersOverABadBusGiveTheSame(t *testing.T) {
	reducersGiveTheSame(t, testenv.Times(24), true)
}

func reducersGiveTheSame(t *testing.T, queries int, disturbed bool) {
	b := startBus(t)
	d := overBus(t, b, 5)
	for _, name := range []string{"r0", "r1", "r2"} {
		b.reduce(t, name, 2)
	}
	d.all, _ = b.dialReduced(t, 5, 3, 2)
	count := b.countReduced(t)
	rows, hosts := d.randomRows(t, rand.New(rand.NewPCG(1, 3)))
	if disturbed {
		b.disturb(t)
	}
	d.sameRandomly(t, queries, rows, hosts)
	if n := count(); n < queries/8 {
		t.Errorf("only %d of %d queries were reduced", n, queries)
	}
}
