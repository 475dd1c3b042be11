package trigger

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/gate"
	"endoscope/server/flow"
	"endoscope/server/query"
)

// Shutter is a MONITOR of functions that is attached when the trigger is
// created, behind a gate that is shut. An activation opens the gate at once,
// however soon after the previous one. Attaching probes takes the kernel 5 to
// 20 ms, since it waits until no CPU is in a section that reads what it changes
// (percpu_down_write in kernel/events/uprobes.c).
//
// While the gate is shut, each call costs the target a trap and a test of the
// gate. If that costs too much (CostMonitor), a goroutine that nothing else
// waits for attaches the probes when the gate is opened and detaches them when
// it is shut.
type Shutter struct {
	t       *Trigger
	act     *planner.Action
	Q       *query.Query
	gates   *gate.Set
	source  *flow.Feed
	number  atomic.Int64
	wake    chan struct{}
	done    chan struct{}
	monitor *CostMonitor
	bare    bool // used by the goroutine only: nothing is attached

	mu       sync.Mutex // guards the following
	open     bool
	since    activation // the activation for which the gate is open
	deadline time.Time  // end of FOR; zero: none
	timer    *time.Timer
	late     string // why probes are attached only when the gate is opened; "": they are attached before
	over     bool   // the query has ended; the gate stays shut
	skipped  uint64 // activations since the query ended
}

// NewShutter returns a MONITOR whose probes are already attached, or nil if
// that is not possible.
func NewShutter(ctx context.Context, t *Trigger, act *planner.Action, p *plan.Query, mode string, prepare func(*plan.Query) (*query.Query, error)) (m *Shutter, err error) {
	if !mayBeShut(act, p, mode) {
		return nil, nil
	}
	q, err := prepare(Unshared(p))
	if err != nil {
		return nil, err
	}
	defer func() {
		if m == nil {
			q.Abandon()
		}
	}()
	f := q.Feeds[0]
	if !Shuttable(act, q, mode) {
		return nil, nil
	}
	m = &Shutter{t: t, act: act, Q: q, source: f, wake: make(chan struct{}, 1), done: make(chan struct{}), monitor: NewCostMonitor(mode)}
	if m.gates, err = gate.NewSet(1, true); err != nil {
		m = nil
		return nil, err
	}
	f.Options.Gates = probes.Gates{Set: m.gates, Own: m.gates.Gate(0), Way: plan.AtEntry, Detaches: f.Info.Detaches}
	q.Last = newPublisher(t.Stream, q, &m.number, act.Text)
	if err := t.BeginQuery(q); err != nil {
		m.gates.Close()
		m = nil
		return nil, err
	}
	m.monitor.shut(f.Source)
	if m.late = m.monitor.first(ctx); m.late != "" {
		m.signal()
	}
	go m.run()
	return m, nil
}

// mayBeShut reports whether an action's plan permits a gate.
func mayBeShut(act *planner.Action, p *plan.Query, arming string) bool {
	return act.Kind == planner.ActMonitor && arming != "attach" && passesRows(p.Root)
}

// Shuttable reports whether the one source of an action's query can be behind a gate.
func Shuttable(act *planner.Action, q *query.Query, arming string) bool {
	if !mayBeShut(act, q.Plan, arming) {
		return false
	}
	i := &q.Feeds[0].Info
	return i.Standby && i.Gateable && i.Ability.Gate == plan.AtEntry && (i.Detaches || arming == "gate")
}

// passesRows reports whether a plan acquires calls of functions, and passes on
// each row as it arrives.
func passesRows(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Acquire:
		return ObservesFunctions(n)
	case *plan.Filter, *plan.Project:
		return passesRows(n.Inputs()[0])
	}
	return false
}

// Unshared returns the plan with acquisitions that are not shared: a shut gate
// must not affect other queries.
func Unshared(p *plan.Query) *plan.Query {
	return withAcquires(p, func(a *plan.Acquire) {
		if ObservesFunctions(a) {
			a.Settings.Unshared = true
		}
	})
}

func (m *Shutter) activate(a activation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		m.skipped++
		m.t.fail(fmt.Errorf("%s: what it monitors has ended", m.act.Text))
		return
	}
	if m.act.For > 0 {
		m.deadline = time.Now().Add(m.act.For)
		if m.timer == nil {
			m.timer = time.AfterFunc(m.act.For, m.expire)
		}
		m.timer.Reset(m.act.For)
	}
	if m.open {
		return
	}
	m.open, m.since = true, a
	m.number.Store(a.n)
	m.gates.Gate(0).Force(true)
	if m.late == "" {
		m.t.armed(a)
	} else {
		m.signal()
	}
}

// expire is called when FOR is over. It does nothing if an activation extended
// it: the timer may have fired before that and waited for mu.
func (m *Shutter) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !time.Now().Before(m.deadline) {
		m.close()
	}
}

func (m *Shutter) relent(int64) { m.relax() }

// relax turns the action off unless it stays on for ever.
func (m *Shutter) relax() {
	if !m.t.Plan.Once {
		m.off()
	}
}

func (m *Shutter) stream() string { return m.act.Stream }

func (m *Shutter) off() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.close()
}

// close shuts the gate. The caller holds mu.
func (m *Shutter) close() {
	if !m.open {
		return
	}
	m.open = false
	m.gates.Gate(0).Force(false)
	m.signal()
	if m.t.ended.Load() {
		m.Q.End()
	}
}

func (m *Shutter) finish() {
	m.relax()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.open {
		m.Q.End()
	}
}

func (m *Shutter) wait() { <-m.done }

func (m *Shutter) Status() actorStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return actorStatus{acting: m.open && !Stopped(m.done), skipped: m.skipped, Late: m.late}
}

func (m *Shutter) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *Shutter) run() {
	defer close(m.done)
	m.attend()
	m.t.endQuery(m.Q)
	if err := m.Q.Failure(); err != nil {
		m.t.fail(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
	}
	m.open, m.over = false, true
	m.gates.Close()
}

// attend attaches and detaches probes until the query has ended.
func (m *Shutter) attend() {
	defer m.monitor.end()
	for {
		select {
		case <-m.Q.Done:
			return
		case <-m.t.Quit:
			m.t.cancel(m.Q)
			return
		case <-m.monitor.tick():
			if late := m.monitor.check(); late != "" {
				m.armLate(late)
			}
		case <-m.wake:
			m.follow()
		}
	}
}

// armLate has probes attached only while the gate is open, for the reason late.
func (m *Shutter) armLate(late string) {
	m.mu.Lock()
	m.late = late
	m.mu.Unlock()
	m.t.Tell(m.t.Plan.Name + ": " + LateNotice(m.act, late))
	m.follow()
}

// follow attaches or detaches the probes as the gate is open or shut, if they
// are not attached all the time. A change meanwhile wakes the goroutine again.
func (m *Shutter) follow() {
	m.mu.Lock()
	open, late, since := m.open, m.late, m.since
	m.mu.Unlock()
	if late == "" {
		return
	}
	m.monitor.end()
	if !m.Q.Life.May(query.StepAttach) {
		return
	}
	if m.bare == !open {
		return
	}
	var err error
	if open {
		if err = m.source.Control(probes.Attach{}); err == nil {
			m.t.armed(since)
		}
	} else {
		err = m.source.Control(probes.Detach{})
	}
	if err != nil {
		m.t.fail(err) // the next activation tries again
		return
	}
	m.bare = !open
}
