package stack

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/debugfiles"
	"endoscope/probes/process"
	"endoscope/probes/rows"
	"endoscope/probes/stack/pacing"
	"endoscope/probes/sysmon"
)

// Causes for counting threads and snapshots that produced no row.
const (
	overrun   = "sampler overrun"
	unsettled = "thread switched between running and waiting while it was sampled"
	in32Bit   = "thread in 32-bit code"
	moving    = "goroutine moved while it was read"
	silent    = "Java machine did not answer"
	leftOut   = "snapshots left out, so that sampling costs no more than stack_overhead"
	cutStack  = "stacks that do not reach their thread's first function: "
)

// idle is how often the watermark advances between samples. Each waking costs the engine as much
// as a sample of a few threads.
const idle = 500 * time.Millisecond

// source samples on its own goroutine from Start until Stop, until the context ends,
// or until every process named by pid has ended. Only that goroutine uses the
// collector and the sink.
type source struct {
	provider *Provider
	spec     *plan.Acquire
	every    time.Duration
	filter   plan.Expr // evaluated by the engine
	target   plan.Target
	found    []process.Process // the processes of the target now
	pinned   []process.Process // the target's processes, if none can be added
	notices  []string
	clock    func() int64
	rows     *rows.Writer[observation]
	follower *Follower    // of the context that the rows tell; nil: they tell none
	spent    atomic.Int64 // CPU time of the snapshots, ns
	interval atomic.Int64 // ns between snapshots that resulted from stack_overhead; 0: as requested

	mu      sync.Mutex // guards the following fields
	loaded  *collector // set by Load, until Start uses it
	started bool
	stopped bool
	stop    chan struct{} // closed by Stop
	between chan func()   // called between two snapshots, after the alarm was rung
	ended   chan struct{} // closed when the goroutine has ended
	alarm   *pacing.Alarm // wakes the goroutine
}

// threadNs is the approximate cost of sampling a thread: most have not run since the
// last sample.
const threadNs = 2000

// Info implements probes.Source.
func (s *source) Info() probes.Info {
	i := probes.Info{Sites: s.sites(), Notices: s.notices, Residual: s.filter, Live: true}
	if s.follower == nil {
		i.Identity = fmt.Sprint("stack ", s.target.Follow, process.Identify(s.pinned))
		return i
	}
	context := s.follower.Info()
	i.Sites, i.Notices, i.Refusal = append(i.Sites, context.Sites...), slices.Concat(i.Notices, context.Notices), context.Refusal
	return i
}

// Stats implements probes.Source.
func (s *source) Stats() probes.Stats {
	spent := time.Duration(s.spent.Load())
	if s.follower != nil {
		spent += s.follower.Stats().Spent
	}
	return probes.Stats{Spent: spent}
}

// sites describes what is sampled.
func (s *source) sites() []probes.Site {
	text := "threads of the target"
	switch share, interval := s.spec.Settings.StackOverhead, time.Duration(s.interval.Load()); {
	case s.every == 0 || share <= 0:
	case interval == 0:
		text += fmt.Sprintf(", every %v if that costs no more than %.3g%% of a CPU", s.every, 100*share)
	default:
		text += fmt.Sprintf(", every %v instead of %v: %.3g%% of a CPU", interval.Round(time.Millisecond/10), s.every, 100*share)
	}
	return []probes.Site{{Provider: "stack", Function: text, Method: "iterator", Kind: "task iterator, interrupts", CostNs: threadNs}}
}

// open returns a collector for the target.
func (s *source) open(ctx context.Context) (*collector, error) {
	var inside map[string]*ebpf.Map
	if s.follower != nil {
		if err := s.follower.Load(ctx, probes.Options{}); err != nil {
			return nil, err
		}
		inside = s.follower.Inside()
	}
	kernel, err := newSampler(inside)
	if err != nil {
		return nil, probes.AtStream(err, s.spec)
	}
	frames := newInterner(s.spec.Lines)
	ms := newModules(s.provider.cache.With(debugfiles.Known(s.spec.Settings)), frames, chosenModules(s.spec.Settings.SystemModules))
	ms.whole = s.spec.Whole
	c := &collector{
		kernel: kernel, modules: ms, frames: frames, unwinder: newUnwinder(ms),
		targets: newTargets(s.target, s.found), spaces: map[int]*space{}, threads: map[uint32]*thread{},
		java: s.spec.Settings.JavaStacks,
	}
	if s.follower != nil {
		c.context, c.noted, c.unwinder.recordSteps = s.spec.Context, map[uint64]noted{}, true
	}
	return c, nil
}

// follow begins to follow the context, if the rows tell one. It returns the sink to use.
func (s *source) follow(ctx context.Context, sink probes.Sink) (probes.Sink, error) {
	if s.follower == nil {
		return sink, nil
	}
	locked := &lockedSink{Sink: sink}
	return locked, s.follower.Start(ctx, locked, probes.Options{})
}

// unfollow undoes follow, and what open loaded for it.
func (s *source) unfollow() error {
	if s.follower == nil {
		return nil
	}
	return s.follower.Stop()
}

func (c *collector) close() {
	for _, sp := range c.spaces {
		if sp.java != nil {
			sp.java.machine.Close()
		}
	}
	c.kernel.close()
	c.modules.close()
}

// Start calls load unless Load has done so, and starts sampling.
func (s *source) Start(ctx context.Context, sink probes.Sink, _ probes.Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		sink.End(nil)
		return nil
	}
	c, err := s.loaded, error(nil)
	if s.loaded = nil; c == nil {
		if c, err = s.load(ctx); err != nil {
			return err
		}
	}
	if sink, err = s.follow(ctx, sink); err != nil {
		c.close()
		return err
	}
	if s.alarm, err = pacing.NewAlarm(); err != nil {
		c.close()
		return err
	}
	c.tally = tally{}
	c.priority = &pacing.Priority{}
	sysmon.Relax()
	s.rows.Push = sink.Push
	s.started = true
	s.stop, s.between, s.ended = make(chan struct{}), make(chan func(), 1), make(chan struct{})
	start := time.Now()
	go func() {
		defer close(s.ended)
		runtime.LockOSThread()
		err := s.run(ctx, c, sink, start)
		if c.priority.Lower() {
			runtime.UnlockOSThread() // else the thread ends with its goroutine
		}
		s.alarm.Close()
		err = errors.Join(err, s.unfollow())
		c.close()
		sink.End(err)
	}()
	return nil
}

// Stop ends the stream.
func (s *source) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started && !s.stopped {
		close(s.stop)
		s.alarm.Ring()
		<-s.ended
	}
	if s.loaded != nil {
		s.loaded.close()
		s.loaded = nil
	}
	s.stopped = true
	return s.unfollow()
}

// Load implements probes.Source: it loads the sampler's programs, and takes the first
// sample, which reads the files that the target executes.
func (s *source) Load(ctx context.Context, _ probes.Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if s.loaded == nil && !s.stopped {
		s.loaded, err = s.load(ctx)
	}
	return err
}

// load returns a collector that has taken a sample, whose rows are dropped.
func (s *source) load(ctx context.Context) (*collector, error) {
	c, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	if err := c.snapshotThreads(func(o *observation) { seen[o.process.PID] = true }); err != nil {
		c.close()
		return nil, err
	}
	if err := s.hidden(seen, c.tally); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// hidden returns an error for running processes of which the kernel shows no thread,
// as happens with processes outside a container that have the same pids.
func (s *source) hidden(seen map[int]bool, t tally) error {
	for _, p := range s.pinned {
		if q, runs := process.Lookup(p.PID); runs && q.StartTime == p.StartTime && !seen[p.PID] && t == (tally{}) {
			return plan.Errorf(s.spec.Start, s.spec.Stop, "the kernel shows no thread of process %d (%s)", p.PID, p.Comm).
				WithHint("SAMPLE(thread_usage, 100ms) shows their CPU time, without stacks")
		}
	}
	return nil
}

// run samples at start + k·every. It skips those k at which earlier snapshots have
// used up the allowed cost.
func (s *source) run(ctx context.Context, c *collector, sink probes.Sink, start time.Time) error {
	defer context.AfterFunc(ctx, s.alarm.Ring)()
	pace := pacing.Governor{Share: s.spec.Settings.StackOverhead, Start: start}
	c.modules.takeOnce() // of the sample that load took
	taken := 0
	defer func() {
		if interval := time.Duration(s.interval.Load()); interval > 0 {
			sink.Count(fmt.Sprintf("snapshots taken, one every %v", interval.Round(time.Millisecond/10)), uint64(taken))
		}
	}()
	for k := int64(1); ; {
		due := start.Add(time.Duration(k) * s.every)
		if allowed := pace.Earliest(); allowed.After(due) {
			later := int64((allowed.Sub(start) + s.every - 1) / s.every)
			sink.Count(leftOut, uint64(later-k))
			k = later
			due = start.Add(time.Duration(k) * s.every)
			if taken > 0 && time.Since(start) > 0 {
				s.interval.Store(int64(time.Since(start)) / int64(taken))
			}
		}
		c.priority.Raise()
		s.alarm.Sleep(min(time.Until(due), idle))
		select {
		case f := <-s.between:
			f()
			continue
		case <-s.stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		passed := time.Since(start)
		if passed < time.Duration(k)*s.every {
			sink.Watermark(s.clock())
			continue
		}
		if now := int64(passed / s.every); now > k {
			sink.Lost(overrun, uint64(now-k))
			k = now
		}
		watch := pacing.StartWatch()
		err := s.snapshot(c, sink)
		cost := watch.Stop() + c.javaTime
		s.spent.Add(int64(cost))
		pace.AddCost(cost, c.modules.takeOnce(), time.Now())
		c.javaTime = 0
		taken++
		if err != nil {
			return err
		}
		sink.Watermark(s.clock())
		if s.pinned != nil && len(c.targets.running) == 0 {
			return nil
		}
		k++
	}
}

// snapshot passes to the sink a row for each thread, and counts of those without a
// row.
func (s *source) snapshot(c *collector, sink probes.Sink) error {
	visit := s.rows.Add
	if v := s.target.Viewer; !v.Everything() {
		// It may have become invisible to the viewer since the targets were checked;
		// its samples must not be shown then.
		visit = func(o *observation) {
			if process.Visible(v, o.process.PID) {
				s.rows.Add(o)
			}
		}
	}
	if err := c.snapshotThreads(visit); err != nil {
		return err
	}
	s.rows.Flush()
	t := c.tally
	c.tally = tally{}
	if t.missed > 0 {
		sink.Lost(unsettled, t.missed)
	}
	if t.compat > 0 {
		sink.Lost(in32Bit, t.compat)
	}
	if t.parked > 0 {
		sink.Lost(moving, t.parked)
	}
	if t.undumped > 0 {
		sink.Lost(silent, t.undumped)
	}
	for notice, n := range c.modules.takeMissing() {
		sink.Count(notice, n)
	}
	for why, n := range t.unfinished {
		if n > 0 {
			sink.Count(cutStack+cause(why).String(), n)
		}
	}
	return nil
}

// Control implements probes.Source. Samples have no duration, so none is unfinished.
func (s *source) Control(_ context.Context, c probes.Command) (r probes.Reply, err error) {
	switch c := c.(type) {
	case probes.Divide:
		s.divide(c.Begin, c.Done)
		return r, nil
	case probes.CountUnfinished:
		return r, nil
	}
	return probes.Unsupported(c)
}

// divide implements probes.Divide. Snapshots are not divided.
func (s *source) divide(begin func(probes.Cut), done func()) {
	divided := make(chan struct{})
	cut := func() {
		defer close(divided)
		begin(probes.Cut{At: s.clock()})
		done()
	}
	s.mu.Lock()
	runs := s.started && !s.stopped
	s.mu.Unlock()
	if !runs {
		return
	}
	select {
	case s.between <- cut:
		s.alarm.Ring()
	case <-s.ended:
		return
	}
	select {
	case <-divided:
	case <-s.ended:
	}
}
