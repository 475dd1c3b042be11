package trigger

import (
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/gate"
	"endoscope/server/flow"
	"endoscope/server/query"
)

// gated arms a MONITOR of functions whose one query runs from the creation of
// the trigger on, behind a gate that is shut. An activation opens the gate at
// once, however soon after the previous one. While the gate is shut, each call
// costs the target a trap and a test of the gate.
type gated struct {
	q        *Acquirer
	run      *query.Query
	feed     *flow.Feed // the query's only one
	rows     *publisher
	gates    *gate.Set
	attached bool
}

// newGated starts a query behind a gate.
func newGated(q *Acquirer, run *query.Query) (*gated, error) {
	gates, err := gate.NewSet(1, true)
	if err != nil {
		return nil, err
	}
	f := run.Feeds[0]
	f.Options.Gates = probes.Gates{Set: gates, Own: gates.Gate(0), Way: plan.AtEntry, Detaches: f.Info.Detaches}
	g := &gated{q: q, run: run, feed: f, rows: publish(run, q.t.Stream, q.act.Text), gates: gates, attached: true}
	if err := q.t.BeginQuery(run); err != nil {
		gates.Close()
		return nil, err
	}
	return g, nil
}

// Gateable reports whether the query of an action can be behind a gate, given
// SET trigger_arming.
func Gateable(act *planner.Action, q *query.Query, setting string) bool {
	if act.Kind != planner.ActMonitor || setting == "attach" || !passesRows(q.Plan.Root) {
		return false
	}
	i := &q.Feeds[0].Info
	return i.Standby && i.Gateable && i.Ability.Gate == plan.AtEntry && (i.Detaches || setting == "gate")
}

// passesRows reports whether a plan acquires calls of functions, and passes on
// each row as it arrives.
func passesRows(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Acquire:
		return observesFunctions(n)
	case *plan.Filter, *plan.Project:
		return passesRows(n.Inputs()[0])
	}
	return false
}

func (g *gated) open(n int64) bool {
	g.rows.number.Store(n)
	g.gates.Gate(0).Force(true)
	return true
}

func (g *gated) shut() { g.gates.Gate(0).Force(false) }

// follow attaches or detaches the probes, and ends the query after the last
// activation.
func (g *gated) follow(w wanted) error {
	if w.last && !w.on {
		g.run.End()
		return nil
	}
	attach := w.on || w.late == ""
	if attach == g.attached || !g.run.Life.May(query.StepAttach) {
		return nil
	}
	var c probes.Command = probes.Detach{}
	if attach {
		c = probes.Attach{}
	}
	if err := g.feed.Control(c); err != nil {
		return err
	}
	g.attached = attach
	if w.on {
		g.q.t.armed(w.since)
	}
	return nil
}

func (g *gated) done() <-chan struct{} { return g.run.Done }

func (g *gated) ended() bool { return false }

func (g *gated) waiting() []probes.Source { return []probes.Source{g.feed.Source} }

func (g *gated) close() {
	g.q.t.cancel(g.run)
	g.q.settle(g.run)
	g.gates.Close()
}
