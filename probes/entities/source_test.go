package entities

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/elf"
)

// played is a scripted source for a part.
type played struct {
	probes.Base
	start func(sink probes.Sink) error
	stop  func()
	once  sync.Once
	sink  probes.Sink
}

func (p *played) Info() probes.Info { return probes.Info{} }

func (p *played) Start(_ context.Context, sink probes.Sink, _ probes.Options) error {
	p.sink = sink
	if p.start != nil {
		return p.start(sink)
	}
	return nil
}

func (p *played) Stop() error {
	p.once.Do(func() {
		if p.stop != nil {
			p.stop()
		}
		p.sink.End(nil)
	})
	return nil
}

// noted records what a sink receives.
type noted struct {
	mu     sync.Mutex
	lost   map[string]uint64
	counts map[string]uint64
	ends   int
}

func (n *noted) Push(b *batch.Batch)    { b.Release() }
func (n *noted) Partial(b *batch.Batch) { b.Release() }
func (n *noted) Watermark(int64)        {}
func (n *noted) End(error)              { n.mu.Lock(); n.ends++; n.mu.Unlock() }
func (n *noted) Lost(cause string, c uint64) {
	n.mu.Lock()
	n.lost[cause] += c
	n.mu.Unlock()
}
func (n *noted) Count(cause string, c uint64) {
	n.mu.Lock()
	n.counts[cause] += c
	n.mu.Unlock()
}

// newPlayed returns a source over this process with scripted parts.
func newPlayed(parts ...*played) (*source, *noted) {
	spec := &plan.Acquire{Stream: EntityEvents, Target: plan.Target{PIDs: []int{os.Getpid()}}}
	s, err := newSource(spec, newLibrary(&elf.Cache{}))
	if err != nil {
		panic(err)
	}
	s.world.entities[typeCategory] = true
	s.mapped = func(int) ([]moduleTypes, int, error) { return nil, 0, nil }
	for _, p := range parts {
		s.parts = append(s.parts, &part{owner: s, source: p, decode: decodeLoads})
	}
	return s, &noted{lost: map[string]uint64{}, counts: map[string]uint64{}}
}

// loads returns rows of a part: n notifications of the dynamic linker.
func loads(at int64, n int) *batch.Batch {
	b := batch.New(types.Schema{Fields: decodeLoads.fields}.Types())
	for i := range n {
		b.Cols[0].Append(i, types.Value{Type: types.Timestamp, I: at})
		b.Cols[1].Append(i, types.Int(int64(os.Getpid())))
		b.Cols[2].Append(i, types.Int(int64(os.Getpid())))
	}
	b.N = n
	return b
}

// within fails the test if f hangs.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

// TestReadersDoNotWait: while the modules of a process are read, at the start,
// after a change and after a loss, parts can deliver: their readers serve other
// queries, too.
func TestReadersDoNotWait(t *testing.T) {
	first, second := &played{}, &played{}
	s, sink := newPlayed(first, second)
	reads, goOn := make(chan struct{}), make(chan struct{})
	s.mapped = func(int) ([]moduleTypes, int, error) {
		reads <- struct{}{}
		<-goOn
		return nil, 1, nil
	}
	give := func() {
		within(t, "a part", func() {
			for _, p := range s.parts {
				p.Push(loads(1, 1))
				p.Watermark(2)
				p.Count("noted", 1)
			}
		})
	}
	started := make(chan error)
	go func() { started <- s.Start(t.Context(), sink, probes.Options{}) }()
	<-reads // at the start
	give()
	<-reads // after a change
	goOn <- struct{}{}
	goOn <- struct{}{}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	<-reads // once more, after a change during the look
	goOn <- struct{}{}
	s.parts[0].Lost("ring buffer full", 3)
	<-reads
	s.parts[1].Lost("ring buffer full", 4) // which the next look reports
	within(t, "a part", func() { s.parts[0].Count("noted", 1) })
	goOn <- struct{}{}
	<-reads
	goOn <- struct{}{}
	within(t, "Stop", func() { _ = s.Stop() })
	s.mu.Lock() // the sink is called with it held
	defer s.mu.Unlock()
	if sink.lost["ring buffer full"] != 7 || sink.counts["noted"] != 3 || sink.counts[notReadTypes] != 5 || sink.ends != 1 {
		t.Errorf("lost %v, counted %v, ended %d times", sink.lost, sink.counts, sink.ends)
	}
}

// TestEndsWhileStarting: it is no error that a target ends when only the first
// part has been started; the others are started, and then stopped.
func TestEndsWhileStarting(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, s)
	}
	threads := &played{start: func(sink probes.Sink) error { sink.End(nil); return nil }}
	threads.once.Do(func() {}) // it has ended already
	calls := &played{start: func(probes.Sink) error {
		mu.Lock()
		defer mu.Unlock()
		if len(order) > 0 {
			return fmt.Errorf("a source is started once")
		}
		order = append(order, "started")
		return nil
	}, stop: func() { note("stopped") }}
	s, sink := newPlayed(threads, calls)
	if err := s.Start(t.Context(), sink, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	within(t, "the end", func() { <-s.done })
	s.mu.Lock() // the sink is called with it held
	defer s.mu.Unlock()
	if !slices.Equal(order, []string{"started", "stopped"}) || sink.ends != 1 {
		t.Errorf("%v, ended %d times", order, sink.ends)
	}
}

// TestTooMany: the queue for the slowest part is bounded; what does not fit is
// counted as lost, and live entities are reported again.
func TestTooMany(t *testing.T) {
	fast, slow := &played{}, &played{}
	s, sink := newPlayed(fast, slow)
	if err := s.Start(t.Context(), sink, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	s.parts[0].decode.read = func(c []batch.Column, row int) event { return at(freed, c, row) }
	const more = 3
	for range maxWaiting/batch.MaxRows + more {
		s.parts[0].Push(loads(10, batch.MaxRows))
	}
	if n := len(s.merge.heap); n != maxWaiting {
		t.Errorf("%d wait, at most %d may", n, maxWaiting)
	}
	if len(sink.lost) != 0 {
		t.Errorf("%v is lost before there is room to tell what there is", sink.lost)
	}
	s.parts[0].Watermark(20)
	s.parts[1].Watermark(20)
	within(t, "Stop", func() { _ = s.Stop() })
	s.mu.Lock() // the sink is called with it held
	defer s.mu.Unlock()
	if sink.lost[queueFull] != more*batch.MaxRows {
		t.Errorf("lost %v", sink.lost)
	}
	if cap(s.merge.slots) > minSlots {
		t.Errorf("%d slots are kept for nothing", cap(s.merge.slots))
	}
}

// TestUnreadModules: a module that could not be read is counted once, and tried
// again.
func TestUnreadModules(t *testing.T) {
	l := newLibrary(&elf.Cache{})
	modules, unread, err := l.modulesOf(os.Getpid())
	if err != nil || unread != 0 || len(modules) == 0 {
		t.Fatalf("%d modules, %d of them unread, %v", len(modules), unread, err)
	}
	if !l.recordUnreadable("8:1") || l.recordUnreadable("8:1") {
		t.Error("a file is counted each time that it cannot be read")
	}
}
