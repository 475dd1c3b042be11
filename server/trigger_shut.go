package server

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/gate"
)

// shutter is a MONITOR of functions that is attached when the trigger is made,
// behind a gate that is shut: an activation opens it at once. To attach probes
// takes the kernel 5 to 20 ms, for it waits until no CPU is in a section that
// reads what it changes (percpu_down_write in kernel/events/uprobes.c).
//
// Meanwhile each call costs the target a trap and a look at the gate, so that
// this is done only where traps are cheap.
type shutter struct {
	t      *trigger
	act    *planner.Action
	q      *query
	gates  *gate.Set
	number atomic.Int64
	done   chan struct{}

	mu    sync.Mutex // guards what follows
	open  bool
	timer *time.Timer // of FOR; nil: none
}

// cheapTrap is what a call may cost, in ns, that finds the gate shut.
const cheapTrap = 1000

// shut makes a MONITOR whose probes are attached already, or nil where that
// cannot be done, or should not, for the reason why ("": it is no question).
func (s *session) shut(ctx context.Context, t *trigger, act *planner.Action, p *plan.Query, bounds budgets, text string) (m *shutter, why string, err error) {
	mode := s.setting("trigger_arming").S
	if act.Kind != planner.ActMonitor || mode == "attach" || !passesRows(p.Root) {
		return nil, "", nil
	}
	q, err := s.prepare(ctx, text, unshared(p))
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if m == nil {
			q.discard()
		}
	}()
	src, ok := q.feeds[0].source.(probes.Gateable)
	if !ok {
		return nil, "", nil
	}
	if a := src.Ability(); a.Gate != plan.AtEntry {
		return nil, a.Why, nil
	}
	if _, cost := src.Prices(plan.AtEntry); mode == "auto" && cost > cheapTrap {
		return nil, fmt.Sprintf("behind a gate each call would cost about %.0fus until then (SET trigger_arming = gate)", cost/1000), nil
	}
	m = &shutter{t: t, act: act, q: q, done: make(chan struct{})}
	if m.gates, err = gate.NewSet(1, true); err != nil {
		m = nil
		return nil, "", err
	}
	src.Gate(probes.Gates{Set: m.gates, Own: m.gates.Gate(0), Way: plan.AtEntry})
	bounds.give(q)
	q.last = newPublisher(t.stream, q, &m.number, act.Text)
	if err := s.e.begin(t, q); err != nil {
		m.gates.Close()
		m = nil
		return nil, "", err
	}
	go m.run(s.e)
	return m, "", nil
}

// passesRows reports whether a plan acquires calls of functions, and gives each
// row as it comes.
func passesRows(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Acquire:
		c := catalog.Find(n.Stream)
		return c != nil && c.Functions
	case *plan.Filter, *plan.Project:
		return passesRows(n.Inputs()[0])
	}
	return false
}

// unshared has a plan acquire for itself alone: others must not find its gate
// shut.
func unshared(p *plan.Query) *plan.Query {
	return withAcquires(p, func(a *plan.Acquire) { a.Settings.Unshared = true })
}

func (m *shutter) activate(a activation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.act.For > 0 {
		if m.timer == nil {
			m.timer = time.AfterFunc(m.act.For, m.off)
		}
		m.timer.Reset(m.act.For)
	}
	if !m.open {
		m.open = true
		m.number.Store(a.n)
		m.gates.Gate(0).Force(true)
		m.t.armed(a)
	}
}

func (m *shutter) relent() {
	if !m.t.plan.Once {
		m.off()
	}
}

func (m *shutter) stream() string { return m.act.Stream }

func (m *shutter) off() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		m.open = false
		m.gates.Gate(0).Force(false)
		if m.t.ended.Load() {
			m.q.end()
		}
	}
}

func (m *shutter) finish() {
	m.relent()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.open {
		m.q.end()
	}
}

func (m *shutter) wait() { <-m.done }

func (m *shutter) status() actorStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return actorStatus{acting: m.open && !stopped(m.done)}
}

func (m *shutter) run(e *Engine) {
	defer close(m.done)
	select {
	case <-m.q.done:
	case <-m.t.quit:
		m.t.cancel(m.q)
	}
	e.over(m.t, m.q)
	if err := m.q.failure(); err != nil {
		m.t.fail(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
	}
	m.open = false
	m.gates.Close()
}
