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
	samples     = `SELECT COALESCE(tid, -goroutine), state = 'RUN', stack, COUNT(*)
FROM TUMBLE(SAMPLE(stack_sample, 10ms), 1s) GROUP BY COALESCE(tid, -goroutine), state, stack`
	// calls counts the calls of functions; %s are a window or the stream, and a condition.
	calls = `SELECT function_name, module, COUNT(*), RATE(*), AVG(duration), QUANTILE(duration, 0.99)
FROM %s WHERE %s GROUP BY function_name, module`
	everySecond = "TUMBLE(function_duration, 1s)"
	inBurst     = "function_duration"
)

// Meter measures the functions of a session's target.
type Meter struct {
	session wire.Session
	stacks  wire.Result   // stack samples
	results chan struct{} // a signal that a snapshot is due

	mu       sync.Mutex
	profile  profile
	budget   *budget
	counted  []key // counted all the time, now
	sampling float64
	ended    bool
	failed   error
}

// NewMeter begins to sample the stacks of a session's target. Run must follow.
func NewMeter(ctx context.Context, s wire.Session) (*Meter, error) {
	m := &Meter{session: s, results: make(chan struct{}, 1), budget: newBudget(time.Now())}
	set, err := s.Execute(ctx, fmt.Sprintf(setSampling, 100*samplingShare))
	if err != nil {
		return nil, err
	}
	if err := set.Close(); err != nil {
		return nil, err
	}
	m.stacks, err = s.Execute(ctx, samples)
	return m, err
}

// Run measures until ctx is done or the target has ended. show is called with a snapshot
// about each second. Nothing is attached any more when Run returns.
func (m *Meter) Run(ctx context.Context, show func(*Snapshot)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { m.count(ctx) })
	all.Go(func() { m.bursts(ctx) })
	all.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-m.results:
				show(m.Snapshot())
			}
		}
	})
	err := m.sample(ctx, m.stacks)
	m.mu.Lock()
	m.ended, m.failed = true, err
	m.mu.Unlock()
	if ctx.Err() == nil {
		show(m.Snapshot())
	}
	return err
}

// sample reads stack samples.
func (m *Meter) sample(ctx context.Context, res wire.Result) error {
	var rows []sampled
	var cost time.Duration
	return read(ctx, res, func(b *batch.Batch) {
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
		m.mu.Unlock()
		rows, cost = rows[:0], now
		select {
		case m.results <- struct{}{}:
		default: // the last one has not been shown yet
		}
	}, nil)
}

// called is one row of the calls of a function.
type called struct {
	key
	n        int64
	rate     float64
	avg, p99 time.Duration
}

func calledIn(b *batch.Batch) (all []called) {
	for i := range b.Len() {
		at := b.Row(i)
		v := func(c int) types.Value { return b.Cols[c].Value(at) }
		all = append(all, called{key{v(0).S, v(1).S}, v(2).I, v(3).F, time.Duration(v(4).I), time.Duration(v(5).I)})
	}
	return all
}

// count counts the cheap functions all the time. It begins again when the choice changes.
func (m *Meter) count(ctx context.Context) {
	for ctx.Err() == nil {
		set := m.choose()
		if len(set) == 0 {
			if !wait(ctx, time.Second) {
				return
			}
			continue
		}
		if err := m.countSet(ctx, set); err != nil {
			m.refuse(set, err)
		}
	}
}

// choose sets and returns the functions to count all the time.
func (m *Meter) choose() []key {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted = m.budget.counted(m.candidates())
	return m.counted
}

// reconsider is the time after which the choice of counted functions may change, so that
// probes are not removed and attached all the time.
const reconsider = 5 * time.Second

// countSet counts the calls of a set until another set should be counted.
func (m *Meter) countSet(ctx context.Context, set []key) error {
	res, err := m.session.Execute(ctx, fmt.Sprintf(calls, everySecond, condition(set)))
	if err != nil {
		return err
	}
	began := time.Now()
	var rows []called
	var cost time.Duration
	return read(ctx, res, func(b *batch.Batch) { rows = append(rows, calledIn(b)...) }, func() {
		now := res.Summary().Cost
		m.mu.Lock()
		m.spend((now - cost).Seconds(), rows)
		m.record(set, rows, false)
		over := m.sumOf(set) > 2*countedShare
		better := time.Since(began) > reconsider && !same(set, m.budget.counted(m.candidates()))
		m.mu.Unlock()
		rows, cost = rows[:0], now
		if over || better {
			res.Stop()
		}
	}, func(text string) { m.leaveOut(set, text) })
}

// sumOf returns the cost of counting a set. The caller holds m.mu.
func (m *Meter) sumOf(set []key) (sum float64) {
	for _, k := range set {
		sum += max(0, m.budget.cost(k))
	}
	return sum
}

// spend charges a cost, and learns the price of a call. The caller holds m.mu.
func (m *Meter) spend(cost float64, rows []called) {
	n := int64(0)
	for _, r := range rows {
		n += r.n
	}
	if n > 100 && cost > 0 {
		m.budget.price = cost / float64(n)
	}
	now := time.Now()
	m.budget.fill(now)
	m.budget.spend(now, cost)
}

// record stores what was counted of a set, in a burst or in a second. The caller holds m.mu.
func (m *Meter) record(set []key, rows []called, burst bool) {
	now := time.Now()
	for _, k := range set {
		f := m.budget.known[k]
		if f == nil {
			f = &figures{}
			m.budget.known[k] = f
		}
		if f.why != "" {
			continue
		}
		f.at, f.rate = now, max(f.rate, 0)
		var c called
		if i := slices.IndexFunc(rows, func(c called) bool { return c.key == k }); i >= 0 {
			c = rows[i]
		}
		switch {
		case burst:
			f.addBurst(c)
		case c.n > 0:
			f.rate, f.avg, f.p99 = c.rate, c.avg, c.p99
		default:
			f.rate = 0
		}
	}
}

// bursts counts functions for a short time, whenever there is budget.
func (m *Meter) bursts(ctx context.Context) {
	for wait(ctx, 200*time.Millisecond) {
		m.mu.Lock()
		m.budget.fill(time.Now())
		set := m.budget.burst(m.candidates(), m.counted, time.Now())
		m.mu.Unlock()
		if len(set) == 0 {
			continue
		}
		if err := m.burst(ctx, set); err != nil && ctx.Err() == nil {
			m.refuse(set, err)
		}
	}
}

// burst counts the calls of a set for a short time.
func (m *Meter) burst(ctx context.Context, set []key) error {
	text := fmt.Sprintf(calls+" FOR %dms", inBurst, condition(set), burstLength.Milliseconds())
	res, err := m.session.Execute(ctx, text)
	if err != nil {
		return err
	}
	armed := time.Now()
	var rows []called
	if err := read(ctx, res, func(b *batch.Batch) { rows = append(rows, calledIn(b)...) }, nil, func(text string) { m.leaveOut(set, text) }); err != nil {
		return err
	}
	exposed := time.Since(armed)
	cost := res.Summary().Cost.Seconds()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record(set, rows, true)
	m.spend(cost, rows)
	// While probes are removed, calls still meet them, which the engine does not count.
	m.budget.tokens -= cost * max(0, exposed.Seconds()/burstLength.Seconds()-1) / 2
	each := cost / float64(len(set))
	m.budget.each += (max(each, 1e-6) - m.budget.each) / 2
	return nil
}

// refuse records that functions cannot be counted. If there are several, it is not known
// which one is at fault: each is tried by itself.
func (m *Meter) refuse(set []key, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range set {
		f := m.budget.known[k]
		if f == nil {
			f = &figures{rate: -1}
			m.budget.known[k] = f
		}
		f.at = time.Now()
		if len(set) == 1 {
			f.rate, f.why = -1, firstLine(err.Error())
		}
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
		m.budget.known[k] = &figures{rate: -1, why: "it cannot be probed"}
		if _, reason, ok := strings.Cut(list[strings.Index(list, k.name)+len(k.name):], "("); ok {
			reason, _, _ = strings.Cut(reason, ")")
			m.budget.known[k].why = reason
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

// same reports whether two sets have the same functions.
func same(a, b []key) bool {
	if len(a) != len(b) {
		return false
	}
	for _, k := range a {
		if !slices.Contains(b, k) {
			return false
		}
	}
	return true
}

// Snapshot returns what is known now.
func (m *Meter) Snapshot() *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.budget.fill(now)
	p := &m.profile
	weight := max(p.weight, 1)
	s := &Snapshot{At: now, CPU: p.cpu / weight, Threads: p.threads, Samples: int(p.samples),
		Probes: m.budget.overhead(now), Sampling: m.sampling, Ended: m.ended, Err: m.failed}
	for k, share := range p.shares {
		f := Function{Name: k.name, Module: k.module, Calls: -1, Cost: -1,
			Total: share.total / weight, Self: share.self / weight}
		if !share.own {
			f.Why = "a function of the system"
		}
		if known := m.budget.known[k]; known != nil {
			if slices.Contains(m.counted, k) && now.Sub(known.at) > 3*time.Second {
				known.rate = 0 // seconds without a call of any counted function
			}
			if f.Why = known.why; known.rate >= 0 {
				f.How, f.Calls, f.Avg, f.P99 = Burst, known.rate, known.avg, known.p99
				f.Cost = m.budget.cost(k)
			}
			if slices.Contains(m.counted, k) {
				f.How = Counted
			}
		}
		if f.How != Sampled && f.Avg > 0 { // more exact than samples
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
