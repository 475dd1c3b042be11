package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// The statements by which everything is measured.
const (
	// setSampling bounds the cost of stack samples, in percent of a CPU.
	setSampling = "SET stack_overhead = %g"
	samples     = `SELECT COALESCE(tid, -goroutine), runnable, stack, COUNT(*)
FROM TUMBLE(SAMPLE(stack_sample, 10ms), 1s) GROUP BY COALESCE(tid, -goroutine), runnable, stack`
	// calls counts the calls of functions since it began; %s is a condition, %g in percent.
	calls = `SELECT function_name, module, COUNT(*), AVG(duration), QUANTILE(duration, 0.99), exact(COUNT(*)), share(COUNT(*)), high(COUNT(*))
FROM function_duration WHERE %s GROUP BY function_name, module EMIT EVERY 2s WITHIN OVERHEAD %g%%`
)

// Limit is the usual overhead, as a share of the program's CPU time.
const Limit = 0.01

const (
	// samplingShare is the part of the overhead that stack samples may take, by their own
	// measure: with the changes of threads that each causes it is twice as much. Of a program
	// that uses fewCPUs or less, there are so few that they may take littleShare.
	samplingShare, littleShare = 0.1, 0.15
	fewCPUs                    = 0.3
	// countingShare is the part that everything may take before calls are counted in fewer
	// slices.
	countingShare = 0.85
	// leastCPUs is what a program is taken to use, as WITHIN OVERHEAD takes it.
	leastCPUs = 0.1
)

// Meter measures the functions of a session's target.
type Meter struct {
	session wire.Session
	limit   float64
	results chan struct{} // a signal that a snapshot is due

	mu       sync.Mutex
	profile  profile
	figures  figures
	counted  []key   // whose calls are counted now
	sampling float64 // CPUs that stack samples take
	cpus     float64 // that the target used when they began, at least leastCPUs
	used     float64 // that it uses; negative: unknown
	overhead float64 // of counting, with what the engine takes
	ended    bool
	failed   error
}

// NewMeter returns a meter that takes at most a share of the CPU time of a session's target.
func NewMeter(s wire.Session, limit float64) *Meter {
	return &Meter{session: s, limit: limit, results: make(chan struct{}, 1), figures: newFigures(), used: -1}
}

// Where the overhead is more than allowed, the next snapshot is shown later: by slowing seconds
// where it is twice as much, and by slowest at most.
const (
	slowing = 10
	slowest = 4 * time.Second
)

// Run measures until ctx is done or the target has ended. show is called with a snapshot
// about each second. Nothing is attached any more when Run returns.
func (m *Meter) Run(ctx context.Context, show func(*Snapshot)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { m.count(ctx) })
	all.Go(func() { m.follow(ctx) })
	all.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-m.results:
				s := m.Snapshot()
				show(s)
				if more := slowing * (s.Overhead()/m.limit - 1); more > 0 && !wait(ctx, time.Duration(min(more, slowest.Seconds())*float64(time.Second))) {
					return
				}
			}
		}
	})
	err := m.sample(ctx)
	m.mu.Lock()
	m.ended, m.failed = true, err
	m.mu.Unlock()
	if ctx.Err() == nil {
		show(m.Snapshot())
	}
	return err
}

// sample samples stacks until the target has ended. It begins again when the program uses much
// more CPU time than it did: what samples may cost is a share of that.
func (m *Meter) sample(ctx context.Context) error {
	for cpus := m.load(ctx); ; {
		m.mu.Lock()
		m.cpus = cpus
		m.mu.Unlock()
		set, err := m.session.Execute(ctx, fmt.Sprintf(setSampling, 100*m.limit*max(samplingShare*cpus, littleShare*min(cpus, fewCPUs))))
		if err == nil {
			err = set.Close()
		}
		if err != nil {
			return err
		}
		res, err := m.session.Execute(ctx, samples)
		if err != nil {
			return err
		}
		other, err := m.sampleAt(ctx, res, cpus)
		if err != nil || other == 0 {
			return err
		}
		cpus = other
	}
}

// resampled is by which factor the CPU time that a program uses grows before it is sampled at
// another rate, and settled how long it is sampled at one: to begin again is dear.
const (
	resampled = 3
	settled   = 30 * time.Second
)

// sampleAt reads stack samples that were begun for a number of CPUs. It returns another one, by
// which to begin again, or 0 at the end.
func (m *Meter) sampleAt(ctx context.Context, res wire.Result, cpus float64) (other float64, err error) {
	var rows []sampled
	var cost time.Duration
	began := time.Now()
	err = read(ctx, res, func(b *batch.Batch) {
		for i := range b.Len() {
			at := b.Row(i)
			stack, _ := b.Cols[2].Value(at).A.([]types.Value)
			rows = append(rows, sampled{b.Cols[0].Value(at).I, stack, b.Cols[1].Value(at).I != 0, b.Cols[3].Value(at).I})
		}
	}, func() {
		now := res.Summary().Cost
		m.mu.Lock()
		m.profile.add(rows)
		m.sampling += ((now - cost).Seconds() - m.sampling) / min(m.profile.weight, measured.Seconds())
		uses := max(m.used, leastCPUs)
		m.mu.Unlock()
		if time.Since(began) > settled && other == 0 && uses > resampled*cpus {
			other = uses
			res.Stop()
		}
		rows, cost = rows[:0], now
		select {
		case m.results <- struct{}{}:
		default: // the last one has not been shown yet
		}
	}, nil)
	return other, err
}

// called is what is known of the calls of a function since counting began.
type called struct {
	key
	n        int64
	avg, p99 time.Duration
	exact    bool
	share    float64 // of n that was seen
	bounded  bool    // n has an upper bound
}

func calledIn(b *batch.Batch) (all []called) {
	for i := range b.Len() {
		at := b.Row(i)
		v := func(c int) types.Value { return b.Cols[c].Value(at) }
		share := v(6).F
		if v(6).IsNull { // there is no estimate: n is what was seen
			share = 1
		}
		all = append(all, called{key{v(0).S, v(1).S}, v(2).I, time.Duration(v(3).I), time.Duration(v(4).I), v(5).I != 0, share, !v(7).IsNull})
	}
	return all
}

// The functions to count are chosen when stacks have been sampled for a while, and again when
// others show: preparing a query costs as much as counting does in minutes.
const (
	firstChoice  = 5 * time.Second // or when there are enoughSamples
	secondChoice = 30 * time.Second
	laterChoice  = 3 * time.Minute

	enoughSamples = 30
)

// count counts the calls of the functions that samples have found.
func (m *Meter) count(ctx context.Context) {
	for began := time.Now(); time.Since(began) < firstChoice && !m.known(); {
		if !wait(ctx, time.Second/2) {
			return
		}
	}
	for next := secondChoice; ctx.Err() == nil; next = laterChoice {
		set := m.choose()
		if len(set) == 0 {
			if !wait(ctx, time.Second) {
				return
			}
			continue
		}
		if err := m.countSet(ctx, set, next); err != nil {
			m.refuse(set, err)
			if !wait(ctx, time.Second) {
				return
			}
		}
	}
}

// known reports whether enough samples say where the program runs.
func (m *Meter) known() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.profile.running >= enoughSamples
}

// choose sets and returns the functions to count.
func (m *Meter) choose() []key {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted = m.figures.choose(m.candidates(), nil)
	return m.counted
}

// countSet counts the calls of a set, until others should be counted, which is not decided
// before some time has passed.
func (m *Meter) countSet(ctx context.Context, set []key, reconsider time.Duration) error {
	res, err := m.session.Execute(ctx, fmt.Sprintf(calls, condition(set), 100*m.limit*countingShare))
	if err != nil {
		return err
	}
	began := time.Now()
	m.mu.Lock()
	m.figures.begin(set, began)
	m.mu.Unlock()
	var rows []called
	return read(ctx, res, func(b *batch.Batch) { rows = append(rows, calledIn(b)...) }, func() {
		s := res.Summary()
		m.mu.Lock()
		m.overhead = s.Overhead
		m.figures.record(set, rows, time.Now(), s.Cost)
		more := len(m.figures.choose(m.candidates(), set)) > len(set)
		m.mu.Unlock()
		rows = rows[:0]
		if more && time.Since(began) > reconsider {
			res.Stop()
		}
	}, func(text string) { m.leaveOut(set, text) })
}

// refuse records that functions cannot be counted.
func (m *Meter) refuse(set []key, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range set {
		m.figures.known[k] = &figure{rate: -1, why: firstLine(err.Error())}
	}
}

// leaveOut records which functions of a set are not counted, as a notice says.
func (m *Meter) leaveOut(set []key, notice string) {
	_, list, ok := strings.Cut(notice, " not monitored: ")
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range set {
		if !strings.HasPrefix(list, k.name) && !strings.Contains(list, ", "+k.name) {
			continue
		}
		m.figures.known[k] = &figure{rate: -1, why: "it cannot be probed"}
		if _, reason, ok := strings.Cut(list[strings.Index(list, k.name)+len(k.name):], "("); ok {
			reason, _, _ = strings.Cut(reason, ")")
			m.figures.known[k].why = reason
		}
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// candidates returns the functions of the program in the order of their importance: first
// where the CPU time goes, then where time passes. The caller holds m.mu.
func (m *Meter) candidates() (all []key) {
	for k, s := range m.profile.shares {
		if s.own {
			all = append(all, k)
		}
	}
	weight := func(k key) float64 { s := m.profile.shares[k]; return 10*s.self + s.total }
	slices.SortFunc(all, func(a, b key) int {
		if x, y := weight(a), weight(b); x != y {
			if x > y {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return all[:min(len(all), mostKnown)]
}

// mostKnown bounds the functions that are considered.
const mostKnown = 300

// condition returns the condition that selects a set of functions.
func condition(set []key) string {
	byModule := map[string][]string{}
	for _, k := range set {
		byModule[k.module] = append(byModule[k.module], quote(k.name))
	}
	var all []string
	for _, module := range slices.Sorted(maps.Keys(byModule)) {
		all = append(all, fmt.Sprintf("module = %s AND function_name IN (%s)", quote(module), strings.Join(byModule[module], ", ")))
	}
	return strings.Join(all, " OR ")
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Snapshot returns what is known now.
func (m *Meter) Snapshot() *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.profile
	weight := max(p.weight, 1)
	s := &Snapshot{At: time.Now(), CPU: p.cpu / weight, Threads: p.threads, Samples: int(p.samples),
		Limit: m.limit, Counting: m.overhead, Ended: m.ended, Err: m.failed}
	// Samples say where the CPU time goes, the kernel how much it is: of threads that wait for a
	// CPU samples do not know which has it.
	running := 1.0
	if m.used >= 0 && p.cpu > 0 {
		running = m.used * weight / p.cpu
	}
	if m.used >= 0 {
		s.CPU = m.used
	}
	s.Sampling = m.sampling / max(s.CPU, m.cpus, leastCPUs)
	for k, share := range p.shares {
		f := Function{Name: k.name, Module: k.module, Calls: -1, Cost: -1,
			Total: share.total / weight, Self: share.self / weight * running}
		if !share.own {
			f.Why = "a function of the system"
		}
		if known := m.figures.known[k]; known != nil {
			if f.Why = known.why; known.rate >= 0 {
				f.How, f.Calls, f.Avg, f.P99 = known.how, known.rate, known.avg, known.p99
				f.Cost = known.rate * m.figures.price
			}
		}
		if f.How == Counted && f.Avg > 0 { // more exact than samples
			f.Total = f.Calls * f.Avg.Seconds()
		}
		s.Functions = append(s.Functions, f)
	}
	return s
}

// read reads a result to its end. flushed, unless it is nil, is called at the end of each
// window, notice with each notice.
func read(ctx context.Context, res wire.Result, rows func(*batch.Batch), flushed func(), notice func(string)) error {
	for {
		ev, err := res.Next(ctx)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return errors.Join(err, res.Close())
		}
		switch ev.Kind {
		case wire.Rows:
			rows(ev.Batch)
			ev.Batch.Release()
		case wire.Flush:
			if flushed != nil {
				flushed()
			}
		case wire.Notice:
			if notice != nil {
				notice(ev.Text)
			}
		}
	}
}

// wait waits for d. It returns false if ctx is done.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
