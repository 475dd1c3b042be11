package uprobe

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/clock"
	"endoscope/probes/keeper"
	"endoscope/probes/process"
	"endoscope/probes/progress"
	"endoscope/probes/rates"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/slicing"
)

const (
	// alwaysShare is the part of the budget for the functions that are observed all the time.
	alwaysShare = 0.5
	// watchInterval is how often the cost of these is looked at: without a system call.
	watchInterval = 10 * time.Millisecond
	// burst is how many times its part of the budget they may take in a watchInterval.
	burst = 4
	// chunk is how many functions without calls share a link, so that they cease to be
	// observed all the time together; if there are few, each has its own.
	chunk, few = 128, 64
	// drain is how long the calls seen in a slice may take to end.
	drain = 5 * time.Millisecond
	// refreshInterval is how often processes are looked for that have joined the target.
	refreshInterval = 500 * time.Millisecond
	// maxSeries bounds how often the shares of slices are changed.
	maxSeries = 12
)

// slicer decides which functions of a source with a budget are observed and when. Its
// goroutine owns the fields, from begin on.
type slicer struct {
	always, sliced *source
	in, out        *program.Installation // of always and of sliced
	share, floor   float64

	functions []slicing.Function
	groups    []slicing.Group
	round     time.Duration
	rounds    int // so far
	series    int
	guessed   bool // the rates of some functions in slices are not known yet
	ledger    slicing.Ledger
	meter     *progress.Meter
	links     []*chunkLinks // of always
	per       []uint64      // scratch
	pane      int64         // the pane of the ledger, boot clock
	length    int64         // of panes; 0: there are none
	began     time.Time
	refreshed time.Time
	watched   spending // at the last look
	begun     spending // when the query began
	judged    spending // at the end of the last round

	attached int64 // ns that attaching has cost
	closing  sync.WaitGroup
	stop     chan struct{}
	stopped  sync.Once
	over     chan struct{}   // closed when the goroutine has ended
	asked    chan chan error // requests to send exposures
	failed   chan struct{}   // closed when it failed
	failure  error

	mu   sync.Mutex // guards said
	said []string
}

// chunkLinks are the links of some functions that are observed all the time.
type chunkLinks struct {
	functions []int
	links     []*attach.Link
}

func newSlicer(always, sliced *source) *slicer {
	b := always.spec.Budget
	s := &slicer{
		always: always, sliced: sliced, share: b.Share, floor: b.Floor, length: int64(always.spec.Partial.Pane),
		stop: make(chan struct{}), over: make(chan struct{}), asked: make(chan chan error), failed: make(chan struct{}),
	}
	for _, price := range always.part.pricesOf(always) {
		s.functions = append(s.functions, slicing.Function{Price: float64(price)})
	}
	return s
}

// spending is what was spent until a moment, in ns.
type spending struct {
	at       time.Time
	progress int64 // of the program, with what its probes take
	always   int64 // by hits of functions that are observed all the time
	sliced   int64 // by those of others
	engine   int64 // by attaching and by the slicer itself
}

func (s *slicer) cost() spending {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u)
	return spending{
		at: time.Now(), progress: s.meter.Read(), always: int64(s.in.Spent()), sliced: int64(s.out.Spent()),
		engine: s.attached + u.Utime.Nano() + u.Stime.Nano(),
	}
}

func (c spending) since(o spending) spending {
	return spending{at: c.at, progress: c.progress - o.progress, always: c.always - o.always, sliced: c.sliced - o.sliced, engine: c.engine - o.engine}
}

// hits returns what hits took.
func (c spending) hits() int64 { return c.always + c.sliced }

// net returns the progress without that of the probes.
func (c spending) net() int64 { return max(c.progress-c.hits(), 0) }

// begin finds out how often functions are called, chooses those that are observed all the
// time and attaches these. When it returns the query has begun.
func (s *slicer) begin() (err error) {
	s.in, s.out = s.always.installation(), s.sliced.installation()
	if s.in == nil || s.out == nil {
		return errStopped
	}
	if s.meter, err = progress.Open(s.always.pids()); err != nil {
		return err
	}
	keeper.Prioritize()
	hot, cpus, err := s.sample()
	if err != nil {
		return err
	}
	others, err := s.choose(hot, cpus)
	if err != nil {
		return err
	}
	slices.SortFunc(others, func(a, b int) int {
		return cmp.Compare(s.functions[a].Dilation(), s.functions[b].Dilation())
	})
	s.groups = slicing.Pack(s.functions, others)
	s.guessed = len(hot) > 0
	s.setRound(cpus)
	if err := s.in.Arm(true); err != nil {
		return err
	}
	s.began = time.Now()
	s.refreshed = s.began
	s.pane = s.paneOf(clock.Boot())
	now := s.cost()
	s.watched, s.judged = now, now
	s.begun = now
	for _, g := range s.groups {
		for _, f := range g.Functions {
			s.ledger.Begin(f, s.series, now.net())
		}
	}
	return nil
}

// setRound chooses the length of a round for a program that uses a number of processors.
func (s *slicer) setRound(cpus float64) {
	s.round = slicing.Round(s.groups, cpus, s.share*(1-alwaysShare)*0.8*max(cpus, s.floor)*1e9)
}

// paneOf returns the beginning of the pane that contains a boot time.
func (s *slicer) paneOf(now int64) int64 {
	if s.length == 0 {
		return now
	}
	t := now + s.always.provider.offset
	return t - t%s.length - s.always.provider.offset
}

// run takes slices until the source ends.
func (s *slicer) run() {
	runtime.LockOSThread() // its processor time is measured, and is given precedence
	defer close(s.over)
	s.attached -= s.cost().engine // from here on, that of this thread
	s.begun = s.cost()
	s.watched, s.judged = s.begun, s.begun
	real := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	_ = unix.SchedSetAttr(0, &real, 0) // without the right to, slices are less punctual
	err := s.loop()
	s.closing.Wait()
	if errors.Is(err, errStopped) { // as was asked for
		s.expose(clock.Boot())
		s.conclude()
	} else {
		s.failure = err
		close(s.failed)
	}
	s.meter.Close()
}

// abandon ends a slicer whose goroutine was not started.
func (s *slicer) abandon() {
	s.closing.Wait()
	if s.meter != nil {
		s.meter.Close()
	}
	close(s.over)
}

// end ends the goroutine and waits for it.
func (s *slicer) end() error {
	s.stopped.Do(func() { close(s.stop) })
	<-s.over
	return s.failure
}

// collect sends the exposures of what was sent before.
func (s *slicer) collect() error {
	done := make(chan error, 1)
	select {
	case s.asked <- done:
		return <-done
	case <-s.over:
		return nil
	}
}

func (s *slicer) loop() error {
	for {
		order := rand.Perm(len(s.groups))
		start := time.Now()
		for k, g := range order {
			part := s.round / time.Duration(len(order))
			length := s.groups[g].Length + slicing.Turn
			at := start.Add(time.Duration(k)*part + time.Duration(rand.Int64N(int64(max(part-length, 1)))))
			if err := s.waitUntil(at); err != nil {
				return err
			}
			if g >= len(s.groups) { // there are other groups now
				break
			}
			if err := s.slice(&s.groups[g]); err != nil {
				return err
			}
		}
		if err := s.waitUntil(start.Add(max(s.round, watchInterval))); err != nil {
			return err
		}
		s.judge()
		s.rounds++
	}
}

// waitUntil waits, and watches what the functions cost that are observed all the time.
func (s *slicer) waitUntil(at time.Time) error {
	for {
		if err := s.watch(); err != nil {
			return err
		}
		left := time.Until(at)
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(min(left, watchInterval))
		select {
		case <-timer.C:
		case done := <-s.asked:
			s.expose(clock.Boot())
			done <- nil
		case <-s.stop:
			return errStopped
		}
		timer.Stop()
	}
}

// watch detaches functions that are observed all the time and cost too much, which are
// observed in slices from then on; and begins another pane.
func (s *slicer) watch() error {
	if now := clock.Boot(); s.length > 0 && now >= s.pane+s.length {
		s.expose(now)
	}
	now := s.cost()
	if now.at.Sub(s.refreshed) > refreshInterval {
		s.refreshed = now.at
		if err := s.meter.Add(s.always.pids()); err != nil {
			return err
		}
	}
	d := now.since(s.watched)
	took := now.at.Sub(s.watched.at)
	if took < watchInterval/2 {
		return nil
	}
	allowed := s.share * alwaysShare * max(float64(d.net()), s.floor*float64(took))
	if float64(d.always) <= burst*max(allowed, s.share*float64(watchInterval)) && (took < time.Second || float64(d.always) <= 1.5*allowed) {
		if took >= time.Second {
			s.watched = now
			return s.measureRates(now)
		}
		return nil
	}
	s.watched = now
	return s.demote(d)
}

// measureRates notes how often functions are called that are observed all the time.
func (s *slicer) measureRates(now spending) error {
	hits, err := s.in.AllHits(&s.per)
	if err != nil {
		return err
	}
	for i, n := range hits[:len(s.functions)] {
		if n > 0 && s.always.part.has(i) {
			s.functions[i].Rate = float64(n) / max(float64(now.net()), 1)
		}
	}
	return nil
}

// demote takes the dearest functions from those that are observed all the time, until the
// others are within their part of the budget.
func (s *slicer) demote(d spending) error {
	hits, err := s.in.AllHits(&s.per)
	if err != nil {
		return err
	}
	list := make([]float64, len(s.links))
	sum := 0.0
	for k, c := range s.links {
		for _, i := range c.functions {
			list[k] += float64(hits[i]) * s.functions[i].Price
		}
		sum += list[k]
	}
	order := make([]int, len(list))
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(list[b], list[a]) })
	allowed := s.share * alwaysShare * max(float64(d.net()), s.floor*float64(watchInterval))
	excess := float64(d.always)
	var gone []*chunkLinks
	var functions []int
	for _, k := range order {
		if excess <= allowed*0.7 || list[k] == 0 {
			break
		}
		excess -= list[k] / max(sum, 1) * float64(d.always)
		gone, functions = append(gone, s.links[k]), append(functions, s.links[k].functions...)
	}
	for _, i := range functions {
		s.in.Retire(i)
	}
	now := s.cost()
	for _, c := range gone {
		s.detachAlways(c)
	}
	for _, i := range functions {
		s.functions[i].Rate = max(s.functions[i].Rate, float64(hits[i])/max(float64(now.net()), 1))
	}
	s.restart(functions, now)
	return nil
}

// close detaches links in the background: that takes the kernel tens of milliseconds, and the
// breakpoints are gone long before.
func (s *slicer) close(links []*attach.Link) {
	for _, l := range links {
		s.closing.Go(l.BeginClose())
	}
}

// restart begins a series of slices, with more functions.
func (s *slicer) restart(more []int, now spending) {
	all := slices.Clone(more)
	for _, g := range s.groups {
		all = append(all, g.Functions...)
	}
	slices.SortFunc(all, func(a, b int) int {
		return cmp.Compare(s.functions[a].Dilation(), s.functions[b].Dilation())
	})
	s.groups = slicing.Pack(s.functions, all)
	cpus := float64(now.net()) / max(float64(now.at.Sub(s.began)), 1)
	before := s.round
	s.setRound(cpus)
	s.round = max(s.round, before)
	s.series++
	for _, i := range all {
		s.ledger.Begin(i, s.series, now.net())
	}
}

// judge makes rounds longer if slices cost more than their part of the budget.
func (s *slicer) judge() {
	now := s.cost()
	if s.guessed {
		s.guessed, s.judged = false, now
		s.restart(nil, now)
		return
	}
	d := now.since(s.judged)
	took := now.at.Sub(s.judged.at)
	if took < time.Second {
		return
	}
	s.judged = now
	allowed := s.share * max(float64(d.net()), s.floor*float64(took))
	if spent := float64(d.hits() + d.engine); spent > 1.2*allowed && s.series < maxSeries && len(s.groups) > 0 {
		s.round = min(time.Duration(float64(s.round)*min(2*spent/allowed, 8)), time.Minute)
		round := s.round
		s.restart(nil, now)
		s.round = max(s.round, round)
	}
}

// slice observes a group for a while.
func (s *slicer) slice(g *slicing.Group) error {
	if len(g.Functions) == 0 {
		return nil
	}
	a := s.out.Aggregator
	length := int64(g.Length)
	if s.length > 0 && clock.Boot()+length+int64(drain)+int64(slicing.Turn) > s.pane+s.length {
		return nil // it would reach into the next pane
	}
	links, err := s.sliced.attachSome(g.Functions)
	if err != nil {
		return err
	}
	s.attached += g.Attaching()
	a.BeginSlice()
	before := s.calls()
	entered := s.entered(g)
	most := uint64(3*g.Cost(1)) + uint64(150*time.Microsecond)
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
		t := unix.NsecToTimespec(min(left, int64(250*time.Microsecond)))
		_ = unix.Nanosleep(&t, nil)
	}
	third := s.meter.Read()
	if err := s.out.Arm(false); err != nil {
		return err
	}
	hits := s.out.Spent() - spent
	fourth := s.meter.Read()
	x := slicing.Slice{
		Progress: (third+fourth)/2 - (first+second)/2, Uncertain: ((second - first) + (fourth - third)) / 2, Spent: int64(hits),
	}
	x.Censored = s.drainCalls(before)
	s.close(links)
	if s.out.Sweeper != nil {
		s.out.Sweeper.Forget()
	}
	for k, n := range s.entered(g) {
		if net := float64(x.Progress - x.Spent); net > 0 {
			s.functions[g.Functions[k]].Rate = float64(n-entered[k]) / net
		}
	}
	replicate := s.rounds % plan.Replicates
	s.ledger.Add(g.Functions, replicate, &x)
	return a.EndSlice(s.series, replicate, s.pane)
}

// entered returns how often the functions of a group were called in slices, until their rates
// are known.
func (s *slicer) entered(g *slicing.Group) (list []uint64) {
	if !s.guessed {
		return nil
	}
	for _, i := range g.Functions {
		list = append(list, s.out.Hits(uint32(i), &s.per))
	}
	return list
}

// calls returns the number of calls under way that were seen in slices and not ended.
func (s *slicer) calls() uint64 {
	c, err := s.out.Counters(&s.sliced.percpu)
	if err != nil {
		return 0
	}
	armed, returned := program.Awaited(&c)
	return armed - min(returned, armed)
}

// drainCalls waits for the calls that were seen in a slice, and returns how many did not end.
// before is how many were under way that earlier slices had given up.
func (s *slicer) drainCalls(before uint64) int64 {
	for end := time.Now().Add(drain); ; {
		left := int64(s.calls()) - int64(before)
		if left <= 0 || time.Now().After(end) {
			return max(left, 0)
		}
		t := unix.NsecToTimespec(int64(200 * time.Microsecond))
		_ = unix.Nanosleep(&t, nil)
	}
}

// expose sends the exposures since the last time, and begins the pane that contains now.
func (s *slicer) expose(now int64) {
	c := s.cost()
	at := s.pane
	list := s.ledger.Take(c.net(), c.hits())
	if s.length > 0 && now >= s.pane+s.length {
		s.ledger.Restart(c.net())
		s.pane = s.paneOf(now)
	}
	s.out.Aggregator.Expose(list, at, s.pane)
}

// conclude says what was spent.
func (s *slicer) conclude() {
	c := s.cost().since(s.begun)
	took := float64(time.Since(s.began))
	spent, used := float64(c.hits()+c.engine), max(float64(c.net()), s.floor*took)
	all := s.ledger.Functions()
	always := 0
	for _, l := range s.links {
		always += len(l.functions)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf("overhead %.2g %% of the program's CPU time, of %.4g %% allowed: %d functions were observed all the time, %d in slices",
		100*spent/max(used, 1), 100*s.share, always, all))
}

// remarks returns the lines for the footer, when the slicer has ended.
func (s *slicer) remarks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.said)
}

const (
	// countTime is how long calls are counted before functions are observed all the time.
	countTime = time.Millisecond
	// countLimit is what that may cost before it is cut short.
	countLimit = 100 * time.Microsecond
	// rare is the most by which a function may slow the program that is observed all the
	// time.
	rare = 0.0005
	// samplings is how often the program is sampled to find hot functions.
	samplings = 4
	// beginTime bounds how long functions are counted before the query begins.
	beginTime = 4 * time.Second
	// suspected is the dilation of a function that is not known yet.
	suspected = 2 * slicing.MostDilation
)

// sample returns the functions in which the program was found while it was sampled, and how
// many processors it uses.
func (s *slicer) sample() (hot map[int]bool, cpus float64, err error) {
	hot = map[int]bool{}
	for range samplings {
		m := rates.Begin()
		var running []int
		for _, pid := range s.always.pids() {
			if !process.Stopped(pid) {
				running = append(running, pid)
			}
		}
		activity, err := m.Observe(running)
		if err == nil && activity.CPUs > 0 {
			cpus = max(cpus, activity.CPUs)
			for i, c := range candidates(s.always, activity) {
				if c.Samples > 0 {
					hot[i] = true
				}
			}
		}
		m.Close()
		if err != nil || activity.CPUs == 0 {
			return hot, cpus, err // an idle program: what its functions cost shows when it runs
		}
	}
	return hot, cpus, nil
}

// choose attaches the functions that are observed all the time, some at a time, and counts
// their calls for a moment: those that are not rare are returned, to be observed in slices.
func (s *slicer) choose(hot map[int]bool, cpus float64) (others []int, err error) {
	var quiet []int
	for i := range s.functions {
		switch w := &s.always.resolution.Functions[i]; {
		case w.Refused || w.Module.Written:
		case hot[i]:
			s.functions[i].Rate = suspected / s.functions[i].Price
			others = append(others, i)
		default:
			quiet = append(quiet, i)
		}
	}
	if cpus == 0 {
		some := chunk
		if len(quiet) <= few {
			some = 1
		}
		for chunk := range slices.Chunk(quiet, some) {
			if _, err := s.attachAlways(chunk); err != nil {
				return nil, err
			}
		}
		return others, nil
	}
	rand.Shuffle(len(quiet), func(i, j int) { quiet[i], quiet[j] = quiet[j], quiet[i] })
	began := time.Now()
	some := chunk / 4
	if len(s.functions) <= few {
		some = 1
	}
	for len(quiet) > 0 {
		which := quiet[:min(some, len(quiet))]
		quiet = quiet[len(which):]
		spent, busy, err := s.count(which)
		if err != nil {
			return nil, err
		}
		others = append(others, busy...)
		switch {
		case spent > countLimit:
			some = max(some/2, 1)
		case spent < countLimit/4 && len(s.functions) > few:
			some = min(some*2, chunk)
		}
		wait := time.Duration(float64(s.in.Spent())/(s.share*max(cpus, s.floor))) - time.Since(began)
		if time.Since(began)+wait > beginTime {
			for _, i := range quiet {
				s.functions[i].Rate = rare / s.functions[i].Price
			}
			return append(others, quiet...), nil
		}
		time.Sleep(wait)
	}
	return others, nil
}

// count attaches functions and counts their calls for a moment. It returns what that cost, and
// the functions that are not rare, which it detaches again.
func (s *slicer) count(which []int) (spent time.Duration, busy []int, err error) {
	before, err := s.in.AllHits(&s.per)
	if err != nil {
		return 0, nil, err
	}
	from, at := s.in.Spent(), s.meter.Read()
	links, err := s.attachAlways(which)
	if err != nil {
		return 0, nil, err
	}
	for end := time.Now().Add(countTime); time.Now().Before(end) && s.in.Spent()-from < uint64(countLimit); {
		t := unix.NsecToTimespec(int64(50 * time.Microsecond))
		_ = unix.Nanosleep(&t, nil)
	}
	spent = time.Duration(s.in.Spent() - from)
	net := float64(max(s.meter.Read()-at-int64(spent), int64(countTime/10)))
	if spent < countLimit/10 && len(s.functions) > few {
		return spent, nil, nil // what is rare is not known better
	}
	s.detachAlways(links)
	after, err := s.in.AllHits(&s.per)
	if err != nil {
		return spent, nil, err
	}
	var rest []int
	for _, i := range which {
		if s.functions[i].Rate = float64(after[i]-before[i]) / net; s.functions[i].Dilation() > rare {
			busy = append(busy, i)
		} else {
			rest = append(rest, i)
		}
	}
	if len(rest) > 0 {
		_, err = s.attachAlways(rest)
	}
	return spent, busy, err
}
