package uprobe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
)

// source is one query's use of the provider. Its life cycle is Prepare, Start, Stop. The
// engine and the end of the target may call Stop concurrently.
type source struct {
	provider   *Provider
	spec       *plan.Acquire
	links      attach.Kind
	wants      calls.Request
	values     *calls.Values
	filter     *calls.Filter
	resolution *resolve.Resolution
	// receivers is nil where the query uses no objects and methods.
	receivers *decode.Receivers
	// executables are those of the target; a part added later has none of its own.
	executables []executable
	// aggregation is nil where events become rows.
	aggregation *program.Aggregation
	estimate    string         // of the cost, as text; "": none was made
	refusal     *plan.Error    // of the cost; nil: it is allowed
	options     probes.Options // of Load or Start
	identity    func() string
	pricing     pricing
	// extensible: functions of later modules are added to this source, because the
	// nesting of their calls and of the others must be known.
	extensible bool
	// follower follows the context that the rows tell; nil: they tell none, or the first part
	// of the owner has it. contexts is what it writes, and this source reads.
	follower  *source
	contexts  *program.Contexts
	following *calls.Following // not nil: this is a follower, of the source leader
	leader    *source
	stage     stage
	// part is nil, unless this is a part of a source with a budget.
	part       *part
	overwrites uint64     // of its modules, at Prepare
	flip       sync.Mutex // held while probes are detached or attached again; taken before Provider.mu

	listing   sync.Mutex // guards the following; no other lock is taken meanwhile
	listed    []probes.Site
	described int // functions and landmarks in listed: an extensible source adds to them

	// Guarded by Provider.mu.
	sub          *decode.Subscription
	recaller     *decode.Recaller      // nil: events become rows as they happen
	owner        probes.Source         // the source that this one is a part of; nil: none
	relatives    *source               // the first part of owner, if this is a later one and follows children
	loaded       *program.Installation // by Load, until attached
	stopped      bool                  // before or after arming
	percpu       []bpf.FunctionCounters
	activity     probes.Activity // at the last request
	ignoredCalls uint64          // calls ignored on standby, before it began
	suspended    probes.Suspend  // the last command
	remembers    bool            // Provider.history is needed
	atEnd        []executable    // executables at the end

	mu         sync.Mutex // guards the following
	aggregator *program.Aggregator
	failure    error // why it failed
	sink       probes.Sink
	watches    []func()      // cancel watching the target
	state      chan struct{} // closed when nothing is attached any more
	phase      phase
}

type phase uint8

const (
	prepared phase = iota
	started
	stopping
)

// residual returns the part of the filter that is not evaluated in the kernel.
func (s *source) residual() plan.Expr { return s.filter.Program.Residual }

// setup returns what specialises the kernel's programs for this query.
func (s *source) setup() program.Setup {
	options := s.wants.Options | s.resolution.Only
	if s.options.Standby {
		options |= abi.Standby
	}
	return program.Setup{
		Options: options, Links: s.links, Returns: s.resolution.ReturnKinds(), Landmarks: s.resolution.Landmarks, Test: s.filter.Program,
		Members: s.resolution.Members, Functions: len(s.resolution.Functions), Rate: s.spec.Settings.MaxEventRate,
		Prompt: s.spec.Settings.Prompt, StackBytes: s.spec.Settings.StackBytes, Offset: s.provider.offset, Aggregation: s.aggregation, Gates: s.options.Gates, Record: s.options.Record, Recall: s.options.Recall, Cgroups: s.resolution.Cgroups, Slots: s.resolution.Slots,
		Operands: s.resolution.Operands(),
		Reading:  s.wants.Reading,
		Growing:  s.extensible,
		Waits:    s.waits(),
		Contexts: s.contexts, Following: s.following, ContextWords: s.wants.ContextWords,
		Family: s.family(),
		Python: s.resolution.Python, OnlyReturns: s.resolution.OnlyReturns,
		Prices: s.part.pricesOf(s),
	}
}

// waits reports whether the programs wait for memory that is not present.
func (s *source) waits() bool {
	reads := s.wants.Reading.ReadsMemory() || s.wants.Options&abi.SendReceiver != 0 || s.resolution.ReadsMemory()
	return reads && !s.spec.Settings.AbsentNull && !s.resolution.AreReported() && attach.FeatureWait.Has()
}

// family returns what becomes of the children of the target's processes, nil if none have
// children that could be followed. A process of a name or executable is followed or not; the
// children of one that is not are processes of the target too until they execute another
// program, and not counted. The caller holds Provider.mu.
func (s *source) family() *program.Family {
	t := s.spec.Target
	if len(t.PIDs) == 0 && !t.Follow {
		return nil
	}
	f := &program.Family{Follows: t.Follow, StandsBy: s.options.Standby}
	for _, p := range s.resolution.Running {
		if t.Follow || slices.Contains(t.PIDs, p.PID) {
			f.Processes = append(f.Processes, p)
		}
	}
	if s.relatives == nil || s.provider.active[s.relatives] == nil {
		return f
	}
	for _, pid := range s.provider.active[s.relatives].Family() {
		if p, ok := process.Lookup(pid); ok {
			f.Processes = append(f.Processes, p)
		}
	}
	return f
}

// cookie encodes what the programs know of a function: its index among the wants, its
// flags and its facts, and its frame where exits are probed or callers are requested.
func (s *source) cookie(i int) uint64 {
	w := s.resolution.Functions[i]
	c := uint64(i) | uint64(w.Flags|w.Scope.Flags) | s.filter.Facts[i]
	if is := s.options.Required; is != nil && c&abi.GoRegisters == 0 && is(w.Label.Function) {
		c |= abi.Required
	}
	if w.Returns == calls.AtExits || s.wants.Options&(abi.SendCaller|abi.SendStack) != 0 || s.wants.ContextWords > 0 {
		c |= calls.SpOffset(w.Site)
	}
	return c
}

// Start implements probes.Source.
func (s *source) Start(ctx context.Context, sink probes.Sink, o probes.Options) error {
	s.mu.Lock()
	if s.phase != prepared {
		s.mu.Unlock()
		return errors.New("uprobe: a source is started once")
	}
	s.phase = started
	s.sink, s.options = sink, o
	s.mu.Unlock()
	err := ctx.Err()
	if err == nil {
		err = s.refuses()
	}
	if err == nil {
		err = s.arm(sink)
	}
	// Links refer to inodes, not to our file descriptors.
	for _, one := range s.both() {
		if err != nil || !one.keepsFiles() {
			one.resolution.Modules.Close()
		}
	}
	if err != nil {
		s.receivers.Close()
		s.provider.unload(s)
		s.mu.Lock()
		first := s.phase != stopping // else Stop came before arming
		s.phase = stopping
		s.mu.Unlock()
		s.unwatch()
		if first {
			close(s.state)
		}
		return err
	}
	s.watchOverhead()
	return nil
}

// both returns the source, and its follower if it has one.
func (s *source) both() []*source {
	if s.follower == nil {
		return []*source{s}
	}
	return []*source{s, s.follower}
}

// keepsFiles reports whether links may be created after Start.
func (s *source) keepsFiles() bool {
	return s.part != nil || s.options.Gates.Detaches || len(s.restricted()) > 0
}

// arm attaches the probes, and stops the source when its target ends.
func (s *source) arm(sink probes.Sink) error {
	ended, err := s.watch()
	if err != nil {
		return err
	}
	after := s.newUnobservedWatch()
	if err := s.provider.acquire(s, sink); err != nil {
		return err
	}
	if after != nil {
		go after.run()
	}
	if ended != nil {
		go s.stopAfter(ended)
	}
	return nil
}

// stopAfter stops the source when ended is closed and no process that is followed runs.
func (s *source) stopAfter(ended <-chan struct{}) {
	forget := func() {}
	for ended != nil {
		select {
		case <-ended:
			forget()
			ended, forget = s.watchFamily()
		case <-s.state:
			forget()
			return
		}
	}
	s.Stop()
}

// specFor returns the specification with one process in place of those given by pid, if
// children are followed: the one that has this pid, or else, if that has ended, another one
// that is followed.
func (s *source) specFor(pid int) *plan.Acquire {
	spec := *s.spec
	if !spec.Target.Follow {
		return &spec
	}
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	if in := p.active[s]; in != nil && !runs(pid) {
		if family := in.Family(); slices.ContainsFunc(family, runs) {
			pid = family[slices.IndexFunc(family, runs)]
		}
	}
	spec.Target.PIDs = []int{pid}
	return &spec
}

// follows reports whether a process is in the target because it is followed.
func (s *source) follows(pid int) bool {
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	return in != nil && in.HasMember(pid)
}

// watchFamily returns a channel that is closed when the processes end that are followed now,
// nil if there are none, and a function that cancels the watch.
func (s *source) watchFamily() (<-chan struct{}, func()) {
	if !s.spec.Target.Follow {
		return nil, func() {}
	}
	p := s.provider
	p.mu.Lock()
	in := p.active[s]
	var pids []int
	if in != nil {
		pids = in.Family()
	}
	p.mu.Unlock()
	running := false
	ended, forget := process.WatchAll(pids, func(_ int, err error) bool {
		running = running || err == nil
		return err == nil
	})
	if !running {
		forget()
		return nil, func() {}
	}
	return ended, forget
}

// watch returns a channel that is closed when every process of the target has ended; nil
// where later processes may join it.
func (s *source) watch() (<-chan struct{}, error) {
	if s.relatives != nil || s.part != nil {
		return nil, nil // its owner ends it
	}
	ended, forget, err := watchAll(s.spec.Target, s.resolution.Knows)
	s.mu.Lock()
	s.watches = append(s.watches, forget)
	s.mu.Unlock()
	return ended, err
}

// watchAll returns a channel that is closed when every process of the target has ended,
// nil where later processes may join it, and a function that cancels the watch. The
// function is never nil and may be called twice. known reports whether a process is the
// intended one, and not a later one with the same pid.
func watchAll(t plan.Target, known func(process.Process) bool) (<-chan struct{}, func(), error) {
	if len(t.PIDs) == 0 || t.Grows() {
		return nil, func() {}, nil
	}
	var refusal error
	ended, forget := process.WatchAll(t.PIDs, func(pid int, err error) bool {
		switch p, runs := process.Lookup(pid); {
		case refusal != nil:
		case err != nil:
			refusal = selection.RefuseTarget(t, "%v", err)
		case !runs || !known(p):
			refusal = selection.RefuseTarget(t, "process %d has ended", pid)
		}
		return refusal == nil
	})
	return ended, forget, refusal
}

func (s *source) unwatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.watches {
		cancel()
	}
	s.watches = nil
}

// Stop implements probes.Source.
func (s *source) Stop() error {
	s.mu.Lock()
	switch s.phase {
	case prepared:
		s.phase = stopping
		s.resolution.Modules.Close()
		s.receivers.Close()
		close(s.state)
		s.mu.Unlock()
		s.provider.unload(s)
		return nil
	case stopping:
		s.mu.Unlock()
		<-s.state
		return nil
	}
	s.phase = stopping
	sink, failure := s.sink, s.failure
	s.mu.Unlock()
	s.unwatch()
	p := s.provider
	now := s.lookAtExecutables()
	p.mu.Lock()
	s.stopped, s.atEnd = true, now
	in, follower := p.active[s], p.active[s.follower]
	p.mu.Unlock()
	s.flip.Lock() // no Attach follows
	if in != nil {
		in.Detach() // without Provider.mu, so that queries that end together detach concurrently
	}
	if follower != nil {
		follower.Detach()
	}
	s.flip.Unlock()
	for _, one := range s.both() {
		if one.keepsFiles() {
			one.resolution.Modules.Close()
		}
	}
	p.mu.Lock()
	err := errors.Join(failure, p.release(s))
	p.mu.Unlock()
	s.receivers.Close()
	// Closed before End, because the receiver may call Stop.
	close(s.state)
	sink.End(err)
	return nil
}

// ability returns which gate operations the source supports, and why others are not.
func (s *source) ability() plan.Ability {
	var a plan.Ability
	switch {
	case s.spec.Stream == catalog.FunctionCall:
		a.Why = "a sequence of calls must be complete"
		a.Closed = "events of a sequence open no gates"
		return a
	case selection.OfMemory(s.spec):
		a.Why = "which of an allocator's calls is the outermost must be known"
		a.Closed = "memory is released before its row exists"
		return a
	case s.aggregation != nil:
		a.Why = "its calls are aggregated in the kernel"
		a.Closed = a.Why
		return a
	case s.filter.Program.Residual != nil:
		a.Closed = fmt.Sprintf("the condition %s is not tested in the kernel", s.filter.Program.Residual)
	default:
		a.Opens = true
	}
	a.Gate = plan.AtEntry
	return a
}

// Stats implements probes.Source. Calls ignored at a shut gate are included.
func (s *source) Stats() probes.Stats {
	p := s.provider
	p.mu.Lock()
	if in := p.active[s]; in != nil {
		s.storeCounters(in, false)
	}
	st := probes.Stats{Activity: s.activity, Waited: s.activity.Shut + s.ignoredCalls, Spent: s.pricing.spent(s.activity.Awaited)}
	p.mu.Unlock()
	price := s.price()
	for way := range st.Prices {
		st.Prices[way] = price
	}
	return st
}

// storeCounters stores the current counters, or the last ones. The caller holds Provider.mu.
func (s *source) storeCounters(in *program.Installation, last bool) {
	s.pricing.look(in, s.prices(), last)
	if c, err := in.Counters(&s.percpu); err == nil {
		armed, _ := program.Awaited(&c)
		s.activity = probes.Activity{Events: c.Offered, Shut: c.Shut - s.ignoredCalls, Awaited: armed}
	}
}
