package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// When the reducer of a shard is lost, another one takes over. Meanwhile the footer says which
// hosts are silent. No host counts twice, also when the lost one comes back, and the last
// answer has all.
func TestReducerTakesOver(t *testing.T) {
	testenv.Long(t)
	b := startBus(t)
	const hosts, shards = 6, 2
	w := b.witnesses(t, hosts)
	cables := map[string]*cable{}
	for _, name := range []string{"r0", "r1", "r2"} {
		cables[name] = &cable{bus: b}
		b.reduceAt(t, name, shards, bus.Address{Server: cables[name]})
	}
	s, owners := b.dialReduced(t, hosts, 3, shards)
	r, answers := w.execute(t, s)
	last := totals{}
	next := func() {
		t.Helper()
		select {
		case a, ok := <-answers:
			if !ok {
				t.Fatal("the result has ended")
			}
			w.check(last, a, false)
			last = a
		case <-time.After(3 * time.Minute):
			t.Fatal("no answer")
		}
	}
	for len(last) < hosts {
		next()
	}
	if notes := r.Summary().Notes; !slices.Contains(notes, "6 of 6 hosts") {
		t.Errorf("the footer is %q", notes)
	}
	var lost []string
	for i := range hosts {
		if name := fmt.Sprint("h", i); bus.ShardOf(name, shards) == 0 {
			lost = append(lost, name)
		}
	}
	cables[owners[0]].set(true)
	testenv.Until(t, "the footer says which hosts are silent", func() bool {
		line := r.Summary().Notes[0]
		for _, name := range lost {
			if !strings.Contains(line, name+" (") {
				return false
			}
		}
		return strings.HasPrefix(line, fmt.Sprintf("%d of 6 hosts, %d silent: ", hosts-len(lost), len(lost)))
	})
	stale := last
	testenv.Until(t, "another reducer takes over", func() bool {
		next()
		for i := range hosts {
			if last[int64(i)] <= stale[int64(i)] {
				return false
			}
		}
		return slices.Contains(r.Summary().Notes, "6 of 6 hosts")
	})
	if now := awaitShards(t, &b.at, shards); now[0] == owners[0] || now[1] != owners[1] {
		t.Errorf("the shards of %q are owned by %q", owners, now)
	}
	cables[owners[0]].set(false)
	for range 10 {
		next()
	}
	w.end(r, answers, last)
}

// A reducer that has more than its part keeps a shard while only it has the results of a host that
// was restarted. When it leaves, these are missing, and a notice says so. Until then its states
// count, and nothing counts twice. One that the query does not name changes nothing.
func TestReducerThatLacksResults(t *testing.T) {
	testenv.Long(t)
	b := startBus(t)
	const hosts, shards = 6, 2
	w := b.witnesses(t, hosts)
	leaveFirst := b.reduce(t, "r0", shards)
	leave := b.reduce(t, "r1", shards)
	s, _ := b.dialReduced(t, hosts, 2, shards)
	r, err := s.Execute(t.Context(), witnessedQuery)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	last, lacking := totals{}, false
	next := func() {
		t.Helper()
		for now := (totals{}); ; {
			ev, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lacking = lacking || strings.HasSuffix(ev.Text, "is merged by another reducer, which lacks newer results of 1 hosts")
			for _, row := range rowsOf(ev) {
				now[row[0].I] += row[1].I
			}
			if ev.Kind == wire.Flush {
				if !lacking {
					w.check(last, now, false)
				}
				last = now
				return
			}
		}
	}
	for len(last) < hosts {
		next()
	}
	leave()
	b.awaitOwners(t, "r0", "r0")
	leave = b.reduce(t, "r2", shards) // after the query was sent
	awaitShards(t, &b.at, shards)
	for range 20 { // of which there are five in a second
		next()
	}
	leave()
	b.awaitOwners(t, "r0", "r0")
	restarted := map[int]bool{} // shards
	for i := range hosts {
		name := fmt.Sprint("h", i)
		if k := bus.ShardOf(name, shards); !restarted[k] {
			restarted[k] = true
			w.leave[i]()
			b.join(t, bus.Host{Name: name}, w.engine(hosts+i))
		}
	}
	for len(last) < hosts+shards {
		next()
	}
	b.reduce(t, "r1", shards)
	for range 20 {
		next()
	}
	b.awaitOwners(t, "r0", "r0")
	leaveFirst()
	for !lacking {
		next()
	}
	for len(last) > hosts+shards-1 { // the answer that was under way
		next()
	}
	w.check(totals{}, last, false)
	gaps := map[string]int{}
	for _, note := range r.Summary().Notes {
		if host, _, ok := strings.Cut(note, ": it was restarted, and nothing is known from "); ok {
			gaps[host]++
		}
	}
	// One from its last total until it began again, and one of all that only r0 had.
	if len(gaps) != shards || !slices.Contains(slices.Collect(maps.Values(gaps)), 2) {
		t.Errorf("gaps %v in %q", gaps, r.Summary().Notes)
	}
}

// awaitOwners waits until shards have these owners.
func (b *fleetBus) awaitOwners(t testing.TB, owners ...string) {
	t.Helper()
	nc := b.connect(t)
	defer nc.Close()
	testenv.Until(t, fmt.Sprint("the owners of shards are ", owners), func() bool {
		for k, name := range owners {
			if keeper, _, err := bus.KeeperOf(t.Context(), nc, bus.ShardLease(k, len(owners))); err != nil || keeper.Name != name {
				return false
			}
		}
		return true
	})
}

// held is an engine whose shares of queries give nothing until it is released.
type held struct {
	wire.Engine
	released chan struct{}
}

func (h *held) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	s, err := h.Engine.NewSession(ctx, o)
	return heldSession{s, h}, err
}

type heldSession struct {
	wire.Session
	h *held
}

func (s heldSession) ExecuteShare(ctx context.Context, host, text string, args ...types.Value) (wire.Result, error) {
	r, err := s.Session.(wire.Sharer).ExecuteShare(ctx, host, text, args...)
	return heldResult{r, s.h}, err
}

type heldResult struct {
	wire.Result
	h *held
}

func (r heldResult) Next(ctx context.Context) (wire.Event, error) {
	select {
	case <-r.h.released:
		return r.Result.Next(ctx)
	case <-ctx.Done():
		return wire.Event{}, ctx.Err()
	}
}

// reducedRows is a fleet with reducers, whose hosts have rows.
type reducedRows struct {
	*fleetBus
	*divided
	cables map[string]*cable
	owners []string
}

// newReducedRows starts two reducers and one more for two shards, and hosts with the engines
// that wrap makes.
func newReducedRows(t *testing.T, wrap func(wire.Engine) wire.Engine) *reducedRows {
	f := &reducedRows{fleetBus: startBus(t), divided: &divided{dir: t.TempDir(), one: open(t, engine(t))}, cables: map[string]*cable{}}
	for i := range 4 {
		e := engine(t)
		t.Cleanup(func() { _ = e.Close() })
		s, err := e.NewSession(t.Context(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		f.each = append(f.each, s)
		f.join(t, bus.Host{Name: nameOf(i)}, wrap(e))
	}
	f.randomRows(t, rand.New(rand.NewPCG(5, 6)))
	for _, name := range []string{"r0", "r1", "r2"} {
		f.cables[name] = &cable{bus: f.fleetBus}
		f.reduceAt(t, name, 2, bus.Address{Server: f.cables[name]})
	}
	f.all, f.owners = f.dialReduced(t, 4, 3, 2)
	return f
}

// rowsOf returns the rows of an event, and releases it.
func rowsOf(ev wire.Event) (rows [][]types.Value) {
	if ev.Batch == nil {
		return nil
	}
	for i := range ev.Batch.Len() {
		row := make([]types.Value, len(ev.Batch.Cols))
		for c := range row {
			row[c] = ev.Batch.Cols[c].Value(ev.Batch.Row(i))
		}
		rows = append(rows, row)
	}
	ev.Batch.Release()
	return rows
}

// lastRows reads a result to its end, and returns its rows, or those of the last total.
func lastRows(t *testing.T, r wire.Result, total bool) (rows [][]types.Value, err error) {
	for flushed := false; ; {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		if ev.Batch != nil && flushed && total {
			rows, flushed = nil, false
		}
		rows = append(rows, rowsOf(ev)...)
		flushed = flushed || ev.Kind == wire.Flush
	}
}

// Whatever kind of result a query has, it is exact if a reducer is lost meanwhile; or if all
// are, since the root then merges what the hosts of their shards send.
func TestReducersAreLost(t *testing.T) {
	testenv.Long(t)
	const of = "SELECT s, COUNT(*) AS a, SUM(x) AS b, QUANTILE(x, 0.9) AS d, COUNT(DISTINCT n) AS f"
	statements := []string{of + " FROM rows GROUP BY s", of + " FROM rows GROUP BY s EMIT EVERY 1s", of + ", window_end FROM TUMBLE(rows, 3s) GROUP BY s, window_start, window_end"}
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprint("all=", all), func(t *testing.T) {
			t.Parallel()
			released := make(chan struct{})
			f := newReducedRows(t, func(e wire.Engine) wire.Engine { return &held{e, released} })
			var ready, ended sync.WaitGroup
			for _, text := range statements {
				want := sorted(cells(t, f.one, text), text)
				ready.Add(1)
				ended.Go(func() {
					r, err := f.all.Execute(t.Context(), text)
					ready.Done()
					if err != nil {
						t.Error(err)
						return
					}
					defer r.Close()
					rows, err := lastRows(t, r, strings.Contains(text, "EVERY"))
					if got := sorted(rows, text); err != nil || got != want {
						t.Errorf("%s: %v\nwant\n%s\ngot\n%s", text, err, want, got)
					}
					if sum := r.Summary(); !slices.Contains(sum.Notes, "4 of 4 hosts") || len(sum.Losses) > 0 {
						t.Errorf("%s: the footer is %q, %v", text, sum.Notes, sum.Losses)
					}
				})
			}
			ready.Wait()
			for name, c := range f.cables {
				if all || name == f.owners[0] {
					c.set(true)
				}
			}
			close(released)
			ended.Wait()
		})
	}
}

// Windows are given once, also those that the reducer of a shard had merged when it was lost.
func TestWindowsOfLostReducer(t *testing.T) {
	testenv.Long(t)
	var hosts []*paced
	f := newReducedRows(t, func(e wire.Engine) wire.Engine {
		hosts = append(hosts, newPaced(e))
		return hosts[len(hosts)-1]
	})
	const text = "SELECT s, COUNT(*) AS a, SUM(x) AS b, window_end FROM TUMBLE(rows, 3s) GROUP BY s, window_start, window_end"
	want := cells(t, f.one, text)
	r, err := f.all.Execute(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got [][]types.Value
	waited := false
	for windows := 0; len(got) < len(want); {
		if windows == 2 {
			f.cables[f.owners[1]].set(true)
		}
		if windows <= 6 {
			windows++
		} else {
			windows = allWindows
		}
		for _, h := range hosts {
			h.allow(windows)
		}
		for more := true; more && len(got) < len(want); {
			ev, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rowsOf(ev)...)
			waited = waited || strings.HasSuffix(ev.Text, "windows wait for another reducer") && strings.Contains(r.Summary().Notes[0], " silent: ")
			more = ev.Kind != wire.Flush
		}
	}
	if a, b := sorted(want, text), sorted(got, text); a != b {
		t.Errorf("want\n%s\ngot\n%s", a, b)
	}
	if losses := r.Summary().Losses; len(losses) > 0 || !waited {
		t.Errorf("losses: %v; the footer has said which hosts are silent: %v", losses, waited)
	}
}
