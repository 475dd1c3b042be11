package uprobe

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/keeper"
	"endoscope/probes/process"
	"endoscope/probes/rates"
	"endoscope/probes/uprobe/program"
)

const (
	// overheadInterval is how often the cost of probes is compared with max_overhead.
	overheadInterval = time.Second
	// mostExceeded is how often in a row it may exceed it: load that comes and goes within
	// a second is no reason to end a query.
	mostExceeded = 1
	// saturated is the share of the time in which a thread runs, or waits for a processor,
	// above which it would do more if its probes cost nothing.
	saturated = 0.9
	// maxSlowdown limits the correction for that, as in package rates.
	maxSlowdown = 8
)

// watchOverhead ends a source when its probes cost more than max_overhead: Prepare
// estimates only the cost of many functions, and that estimate holds for the load of that
// moment. What was acquired until then is delivered. It runs until nothing is attached any
// more.
func (s *source) watchOverhead() {
	limit := s.spec.Settings.MaxOverhead
	if limit == 0 || s.part != nil {
		return
	}
	go func() {
		ticker := time.NewTicker(overheadInterval)
		defer ticker.Stop()
		var m overheadMeter
		m.read(s)
		exceeded := 0
		for {
			select {
			case <-s.state:
				return
			case <-ticker.C:
			}
			o := m.read(s)
			if o.cost <= limit*max(1, o.busy) {
				exceeded = 0
				continue
			}
			if exceeded++; exceeded <= mostExceeded {
				continue
			}
			s.sink.Count(fmt.Sprintf("query ended early: its probes take %.0f %% of a CPU and slow the program, so that they would take %.0f %% at its full speed; SET max_overhead is %.4g %%",
				100*o.spent, 100*o.cost, 100*limit), 1)
			_ = s.Stop() // End has the error
			return
		}
	}()
}

// overhead is what probes cost in an interval, in processors.
type overhead struct {
	spent float64 // by the calls that were made
	cost  float64 // by those that the program would have made if probes cost nothing
	busy  float64 // that the program would use without probes
}

// overheadMeter computes the overhead between two readings.
type overheadMeter struct {
	at        time.Time
	hits      []uint64 // by function
	armed     uint64   // calls whose return was awaited
	schedules rates.Schedules
	per       []uint64 // by processor
}

func (m *overheadMeter) read(s *source) (o overhead) {
	before := *m
	pids := s.began
	if !before.at.IsZero() { // others may have come
		pids = s.pids
	}
	m.at, m.schedules = time.Now(), rates.ReadSchedules(pids())
	calls, open, returns := s.countCalls(m, before.hits)
	if before.at.IsZero() {
		return o
	}
	took := m.at.Sub(before.at).Seconds()
	// Conditions at the entry leave some returns alone; which ones is not known.
	o.spent = open / 1e9 / took
	if calls > 0 {
		o.spent += returns / 1e9 / took * min(1, float64(m.armed-before.armed)/float64(calls))
	}
	used, busiest := m.schedules.Since(before.schedules, m.at.Sub(before.at))
	own := max(used-o.spent, 0)
	if busiest < saturated {
		o.cost, o.busy = o.spent, own
		return o
	}
	slowdown := float64(maxSlowdown)
	if own > 0 {
		slowdown = math.Min(used/own, maxSlowdown)
	}
	o.cost, o.busy = o.spent*slowdown, used
	return o
}

// countCalls reads the counters into m, and returns the number of calls since before, and
// the prices of their entries and of all their returns, in ns.
func (s *source) countCalls(m *overheadMeter, before []uint64) (calls uint64, open, returns float64) {
	prices := s.prices()
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil {
		return 0, 0, 0
	}
	hits, err := in.AllHits(&m.per)
	if err != nil {
		return 0, 0, 0
	}
	m.hits = hits
	for i := range min(len(prices), len(before)) {
		n := hits[i] - min(before[i], hits[i])
		calls += n
		open += float64(n) * prices[i].Open
		returns += float64(n) * prices[i].Return
	}
	if c, err := in.Counters(&s.percpu); err == nil {
		m.armed, _ = program.Awaited(&c)
	}
	return calls, open, returns
}

// pids returns the processes of the target that run now.
func (s *source) pids() (pids []int) {
	running, _ := process.Resolve(s.spec.Target) // none: it has ended
	for _, p := range running {
		pids = append(pids, p.PID)
	}
	return pids
}

// began returns the processes of the target that ran when the query was prepared: to look for them
// again takes milliseconds, in which probes could be attached.
func (s *source) began() (pids []int) {
	for _, p := range s.resolution.Running {
		pids = append(pids, p.PID)
	}
	return pids
}

// use is what the engine of a query with a budget uses processor time for.
type use int

const (
	forUpkeep    use = iota // whatever the others are not
	forSlices               // attaching, reading and detaching what is observed in slices
	forAttaching            // attaching and detaching what is observed all the time
	uses
)

// engineTime is the processor time that the engine has used for a query, in ns.
type engineTime struct {
	used            [uses]int64
	process, keeper int64 // of this process and of the keeper, when they were read last
	links           use   // what the last links were for
}

// charge adds what was used since the last call, of which all queries have equal parts. What
// the keeper does is never upkeep: it may still close the last links.
func (e *engineTime) charge(u use, queries int64) {
	process, keeper := processTime(), keeper.Used()
	if u != forUpkeep {
		e.links = u
	}
	e.used[u] += (process - e.process) / queries
	e.used[max(e.links, forSlices)] += (keeper - e.keeper) / queries
	e.process, e.keeper = process, keeper
}

// processTime returns the processor time of this process, in ns.
func processTime() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return t.Nano()
}

// spending is what was spent until a moment, in ns.
type spending struct {
	at       time.Time
	took     int64 // since another moment
	progress int64 // of the program, with what its probes take
	always   int64 // by hits of functions that are observed all the time
	sliced   int64 // by those of others
	engine   [uses]int64
}

func (c spending) since(o spending) spending {
	d := spending{
		at: c.at, took: max(int64(c.at.Sub(o.at)), 1), progress: c.progress - o.progress,
		always: c.always - o.always, sliced: c.sliced - o.sliced,
	}
	for u := range uses {
		d.engine[u] = c.engine[u] - o.engine[u]
	}
	return d
}

// hits returns what hits took.
func (c spending) hits() int64 { return c.always + c.sliced }

// net returns the progress without that of the probes.
func (c spending) net() int64 { return max(c.progress-c.hits(), 0) }

// own returns what the engine took.
func (c spending) own() (sum int64) {
	for _, ns := range c.engine {
		sum += ns
	}
	return sum
}

// recentTime is over how long a recent overhead is averaged.
const recentTime = 10 * time.Second

// recent is the overhead of the last seconds. One goroutine adds to it.
type recent struct {
	spent, used float64
	bits        atomic.Uint64 // of the share, for others
}

// add adds what happened in a time. The program is taken to use at least some processors.
func (r *recent) add(c spending, least float64) {
	k := math.Exp(-float64(c.took) / float64(recentTime))
	r.spent = r.spent*k + float64(c.hits()+c.own())
	r.used = r.used*k + max(float64(c.net()), least*float64(c.took), 1)
	r.bits.Store(math.Float64bits(r.spent / r.used))
}

// share returns the overhead; 0: it is not known.
func (r *recent) share() float64 { return math.Float64frombits(r.bits.Load()) }
