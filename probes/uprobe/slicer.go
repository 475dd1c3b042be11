package uprobe

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/clock"
	"endoscope/probes/keeper"
	"endoscope/probes/progress"
	"endoscope/probes/sysmon"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/slicing"
)

const (
	// alwaysShare is the part of the budget for the functions that are observed all the time.
	alwaysShare = 0.5
	// lookInterval is how often costs are looked at, unless that takes too much of the budget;
	// then longestLook at the most. An excess between is noticed by an alarm.
	lookInterval, longestLook = time.Second, 4 * time.Second
	// lookShare is the part of the budget that the engine may use beside slices and attaching,
	// before it looks less often.
	lookShare = 0.2
	// burst is what functions that are observed all the time may cost until there is an alarm,
	// as the time in which the whole budget is earned. Costs are judged from the last look on,
	// and an alarm is a look: so it is more than what retire permits in lookInterval
	// (excess*alwaysShare, 600 ms). It is only a little more, so that something that happens
	// once is no reason to detach many.
	burst = 700 * time.Millisecond
	// excess is how many times their part functions may cost before the dearest are detached.
	excess = 1.2
	// refreshInterval is how often processes are looked for that have joined the target.
	refreshInterval = time.Second
	// longestDrain is how long a call may take to end whose thread may have no processor.
	longestDrain = 50 * time.Millisecond
	// maxSeries bounds how often the groups of slices are changed.
	maxSeries = 24
)

// slicer decides which functions of a source with a budget are observed and when. Its
// goroutine owns the fields, from the beginning on.
type slicer struct {
	always, sliced *source
	in, out        *program.Installation // of always and of sliced; nil: there are no slices
	account        slicing.Account

	functions []slicing.Function
	groups    []slicing.Group
	load      slicing.Load  // for which they were made
	drain     time.Duration // how long calls seen in a slice may take to end
	order     []int         // groups of this round that have had no slice
	rounds    int           // so far
	series    int
	seen      []float64 // progress in the slices of a function since its rate was measured, ns
	entered   []uint64  // calls in slices until then
	stale     bool      // rates have been measured that the groups do not know
	fixed     float64   // what a slice costs beside its hits, ns
	taken     int       // slices since the last look
	slices    int       // and in all
	missing   int64     // calls in them that did not end in time
	ledger    slicing.Ledger
	meter     *progress.Meter
	links     []*chunkLinks        // of always
	chunk     int                  // how many functions share a link, at most
	counted   []uint64             // calls of functions observed all the time, at the last look
	dilation  float64              // by how much these slow the program
	leaving   map[int]*atomic.Bool // functions that were: whether a link has them still
	pane      int64                // the pane of the ledger, boot clock
	length    int64                // of panes; 0: there are none
	refreshed time.Time
	every     time.Duration // how often costs are looked at
	most      int64         // what functions may cost in a pause, ns
	recent    recent
	looked    spending       // at the last look
	came      spending       // when attaching began
	begun     spending       // when the query began
	attached  int            // functions that were attached to be observed all the time
	prepared  int64          // processor time that was used before, ns
	ceiling   func() float64 // bounds the share; nil: nothing does
	share     float64        // of the statement
	percpu    []bpf.FunctionCounters

	sharers int64 // queries that run
	engine  engineTime
	closing sync.WaitGroup
	stop    chan struct{}
	stopped sync.Once
	ready   chan error      // whether it has begun
	over    chan struct{}   // closed when the goroutine has ended
	asked   chan chan error // requests to send exposures
	failed  chan struct{}   // closed when it failed
	failure error

	mu    sync.Mutex // guards the following
	ended bool
	said  []string
	was   []string // the strata as they were
}

func newSlicer(always, sliced *source) *slicer {
	b := always.spec.Budget
	share := b.Share
	if most := always.spec.Settings.MaxOverhead; most > 0 {
		share = min(share, most)
	}
	s := &slicer{
		always: always, sliced: sliced, share: share, account: slicing.Account{Share: share, Floor: b.Floor}, fixed: slicing.Attaching,
		sharers: 1, drain: always.spec.Settings.OverheadDrain, leaving: map[int]*atomic.Bool{}, every: lookInterval,
		stop: make(chan struct{}), ready: make(chan error, 1), over: make(chan struct{}), asked: make(chan chan error, 1), failed: make(chan struct{}),
	}
	for _, price := range always.part.pricesOf(always) {
		s.functions = append(s.functions, slicing.Function{Price: float64(price)})
	}
	if p := always.spec.Partial; p != nil {
		s.length = int64(p.Pane)
	}
	if s.length > 0 { // a slice lies in one pane, with what it waits for
		s.drain = min(s.drain, time.Duration(s.length/4))
	}
	n := len(s.functions)
	s.seen, s.entered, s.counted = make([]float64, n), make([]uint64, n), make([]uint64, n)
	return s
}

// cost returns what was spent until now; what the engine has used since the last call was for u.
func (s *slicer) cost(u use) spending {
	s.engine.charge(u, s.sharers)
	return spending{at: time.Now(), progress: s.meter.Read(), always: int64(s.in.Spent()), sliced: int64(s.out.Spent()), engine: s.engine.used}
}

// run begins, and then takes slices until the source ends.
func (s *slicer) run() {
	runtime.LockOSThread() // it has precedence
	defer close(s.over)
	real := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	_ = unix.SchedSetAttr(0, &real, 0) // without the right to, slices are less punctual
	keeper.Prioritize()
	sysmon.Relax()
	err := s.begin()
	s.ready <- err
	if err == nil {
		if err = s.loop(); errors.Is(err, errStopped) { // as was asked for
			// What is observed all the time ends with what is observed in slices: detaching takes
			// a busy machine 100 ms.
			s.failure = s.in.ShutEntries()
			s.expose(clock.Boot())
			s.conclude()
		} else {
			s.failure = err
			close(s.failed)
		}
	}
	s.closing.Wait()
	if s.meter != nil {
		s.meter.Close()
	}
}

// end ends the goroutine, if it was started, and waits for it.
func (s *slicer) end() error {
	s.stopped.Do(func() { close(s.stop) })
	s.wake()
	<-s.over
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	return s.failure
}

// wake ends the waiting of the goroutine.
func (s *slicer) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.always.installation(); in != nil && !s.ended {
		in.Wake()
	}
}

// collect sends the exposures of what was sent before.
func (s *slicer) collect() error {
	done := make(chan error, 1)
	select {
	case s.asked <- done:
	case <-s.over:
		return nil
	}
	s.wake()
	select {
	case err := <-done:
		return err
	case <-s.over:
		return nil
	}
}

func (s *slicer) loop() error {
	last, random := time.Now(), rand.Float64()
	for {
		if len(s.order) == 0 && len(s.groups) > 0 {
			if err := s.beginRound(); err != nil {
				return err
			}
		}
		var g *slicing.Group
		now := time.Now()
		next := now.Add(s.every)
		if len(s.order) > 0 {
			g = &s.groups[s.order[0]]
			gap := max(s.account.Gap(s.fixed+g.Hits(s.account.CPUs())), slicing.Turn)
			if at := last.Add(time.Duration(2 * random * float64(gap))); at.Before(next) {
				next = at
			} else { // the gap may be shorter then: load may have come
				g = nil
			}
		}
		regrouped, err := s.waitUntil(next)
		if err != nil {
			return err
		}
		if g == nil || regrouped {
			continue
		}
		last, random = time.Now(), rand.Float64()
		if time.Since(s.looked.at) < s.account.Wait() {
			continue // too much was spent meanwhile
		}
		s.order = s.order[1:]
		if err := s.slice(g); err != nil {
			return err
		}
	}
}

// beginRound begins a round of slices, each of which has another group.
func (s *slicer) beginRound() error {
	if s.rounds++; s.stale && s.series < maxSeries {
		if err := s.measureSliced(); err != nil {
			return err
		}
	}
	s.order = rand.Perm(len(s.groups))
	return nil
}

// waitUntil waits, and watches what is spent meanwhile. It returns early when there are other
// groups.
func (s *slicer) waitUntil(at time.Time) (regrouped bool, err error) {
	for series := s.series; ; {
		if err := s.watch(); err != nil || s.series != series {
			return true, err
		}
		select {
		case done := <-s.asked:
			s.expose(clock.Boot())
			done <- nil
		case <-s.stop:
			return false, errStopped
		default:
		}
		left := time.Until(at)
		if left <= 0 {
			return false, nil
		}
		wait := min(left, s.every-time.Since(s.looked.at))
		if s.length > 0 {
			wait = min(wait, time.Duration(s.pane+s.length-clock.Boot()))
		}
		s.in.Await(max(wait, time.Millisecond))
	}
}

// watch begins another pane when it is time, and looks at what was spent: when an interval is
// over, or functions that are observed all the time have cost too much in it.
func (s *slicer) watch() error {
	s.bound()
	if now := clock.Boot(); s.length > 0 && now >= s.pane+s.length {
		s.expose(now)
	}
	alarm := float64(int64(s.in.Spent())-s.looked.always) > s.account.Earning()*float64(burst)
	if time.Since(s.looked.at) < s.every && !alarm {
		return s.leave()
	}
	if s.joinable() && s.looked.at.Sub(s.refreshed) > refreshInterval {
		s.refreshed = s.looked.at
		if err := s.meter.Add(s.always.pids()); err != nil {
			return err
		}
	}
	s.sharers = s.always.provider.queries()
	now := s.cost(forUpkeep)
	d := now.since(s.looked)
	if s.taken > 0 {
		f := min(0.1*float64(s.taken), 0.5)
		s.fixed += f * (float64(d.engine[forSlices])/float64(s.taken) - s.fixed)
	}
	s.account.Add(d.took, d.net(), d.sliced+d.engine[forSlices]+d.engine[forAttaching], d.always+d.engine[forUpkeep])
	s.looked, s.taken = now, 0
	s.recent.add(d, s.account.Floor)
	// A look costs the same whenever it is.
	s.every = min(max(time.Duration(float64(d.engine[forUpkeep])/max(lookShare*s.account.Earning(), 1e-9)), lookInterval), longestLook)
	s.dilation = float64(d.always) / max(float64(d.net()), s.account.Floor*float64(d.took))
	if gone := s.retire(d, lookInterval); len(gone) > 0 {
		if err := s.regroup(gone); err != nil {
			return err
		}
	}
	s.in.Limit(uint64(s.account.Earning() * float64(burst)))
	return s.leave()
}

// bound bounds the share of the statement by what its user's queries may take, which changes as
// others begin and end.
func (s *slicer) bound() {
	if s.ceiling == nil {
		return
	}
	share := min(s.share, s.ceiling())
	s.mu.Lock() // strata reads it
	defer s.mu.Unlock()
	s.account.Share = share
}

// joinable reports whether processes may join the target.
func (s *slicer) joinable() bool {
	t := s.always.spec.Target
	return t.Grows() || t.Follow || len(t.PIDs) == 0
}

// slice observes a group for a while.
func (s *slicer) slice(g *slicing.Group) error {
	a := s.out.Aggregator
	length := int64(g.Length)
	if s.length > 0 {
		length = min(length, s.length/10)
	}
	if s.length > 0 && clock.Boot()+length+int64(s.drain)+int64(slicing.Turn) > s.pane+s.length {
		return nil // it would reach into the next pane
	}
	s.engine.charge(forUpkeep, s.sharers)
	defer func() { s.engine.charge(forSlices, s.sharers) }()
	links, err := s.sliced.attachSome(g.Functions)
	if err != nil {
		return err
	}
	if a != nil {
		a.BeginSlice()
	}
	if s.whole() {
		if err := s.sliced.markGap(); err != nil {
			return err
		}
	}
	before := s.out.UnderWay(&s.percpu)
	most := uint64(3*g.Hits(1)) + uint64(150*time.Microsecond)
	s.out.Limit(most)
	first := s.meter.Read()
	spent := s.out.Spent()
	if err := s.out.Arm(true); err != nil {
		return err
	}
	second := s.meter.Read()
	for end := clock.Boot() + length; ; {
		left := end - clock.Boot()
		if left <= 0 || s.out.Spent()-spent > most {
			break
		}
		s.out.Watch(time.Duration(left))
	}
	third := s.meter.Read()
	if s.whole() { // its calls under way end in the gap
		err = s.out.Arm(false)
	} else {
		err = s.out.ShutEntries()
	}
	if err != nil {
		return err
	}
	hits := s.out.Spent() - spent
	fourth := s.meter.Read()
	x := slicing.Slice{
		Progress: (third+fourth)/2 - (first+second)/2, Uncertain: ((second - first) + (fourth - third)) / 2, Spent: int64(hits),
	}
	if !s.whole() {
		if x.Censored, err = s.drainCalls(g, before, most); err != nil {
			return err
		}
	}
	s.close(links)
	if s.out.Sweeper != nil && !s.whole() { // a sequence knows its gap
		s.out.Sweeper.Forget()
	}
	for _, i := range g.Functions {
		s.seen[i] += float64(max(x.Progress-x.Spent, 0))
	}
	s.stale = true
	s.missing += x.Censored
	s.taken++
	s.slices++
	replicate := s.rounds % plan.Replicates
	s.ledger.Add(g.Functions, replicate, &x)
	if a == nil {
		return nil
	}
	return a.EndSlice(s.ledger.Series, replicate, s.pane)
}

// close detaches links in the background: that takes the kernel tens of milliseconds, and the
// breakpoints are gone long before.
func (s *slicer) close(links []*attach.Link) {
	for _, l := range links {
		s.closing.Go(l.BeginClose())
	}
}

// drainCalls ends a slice of a group: it waits for the calls that were seen in it, and returns
// how many did not end. before is how many were under way that earlier slices had given up.
// Functions whose calls were waited for in vain have no longer time than others.
func (s *slicer) drainCalls(g *slicing.Group, before, most uint64) (int64, error) {
	d := program.Drain{Before: before, Least: s.drain, Most: most}
	if !slices.ContainsFunc(g.Functions, func(i int) bool { return s.functions[i].Waits }) {
		d.Longest = max(s.drain, longestDrain)
		if s.length > 0 {
			d.Longest = min(d.Longest, time.Duration(s.pane+s.length-int64(slicing.Turn)-clock.Boot()))
		}
	}
	left, err := s.out.Drain(&d, &s.percpu)
	if left > 0 && d.InVain {
		for _, i := range g.Functions {
			s.functions[i].Waits = true
		}
	}
	return left, err
}

// expose sends the exposures since the last time, and begins the pane that contains now.
func (s *slicer) expose(now int64) {
	if s.always.spec.Samples() {
		return // rows have none
	}
	c := s.cost(forUpkeep)
	at := s.pane
	list := s.ledger.Take(c.net(), c.hits())
	if s.length > 0 && now >= s.pane+s.length {
		s.ledger.Restart(c.net())
		s.pane = s.paneOf(now)
	}
	s.out.Aggregator.Expose(list, at, s.pane)
}

// paneOf returns the beginning of the pane that contains a boot time.
func (s *slicer) paneOf(now int64) int64 {
	if s.length == 0 {
		return now
	}
	t := now + s.always.provider.offset
	return t - t%s.length - s.always.provider.offset
}
