package server

import (
	"math"
	"time"

	"endoscope/planner/cost"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
)

// settled is how many evaluations after a change of plan a changed load is taken to
// be the program's doing, and not the plan's: what is probed uses more of a CPU.
const settled = 3

// evaluate looks at what happened since the last time, and changes the plan if
// another is clearly cheaper.
func (g *gating) evaluate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.observe()
	if g.mode != "auto" && g.mode != "" || d <= 0 {
		return
	}
	model := g.model()
	var cs []cost.Candidate
	for i, p := range g.plans {
		known, doubted := g.known(i)
		cs = append(cs, cost.Candidate{Cost: cost.Of(model, p.strategy), Known: known, Doubted: doubted})
	}
	from := g.current
	for _, e := range g.edges {
		e.save(cs[from].Cost, d)
	}
	if to := g.chooser.Next(cs, d); to != from {
		g.switches = append(g.switches, planSwitch{time.Since(g.began), from, to, cs[from].Cost, cs[to].Cost})
		g.enforce(to)
	}
}

// observe updates the means, and returns the time since it last did. Where what is
// seen changes, what is not seen may have changed, too. g.mu is held.
func (g *gating) observe() time.Duration {
	now, wall := clock.Now(), time.Now()
	d := wall.Sub(g.at)
	g.at = wall
	if d <= 0 {
		return 0
	}
	g.evaluations++
	changed, sampled, others := false, 0.0, 0.0
	for i, in := range g.inputs {
		e := g.edgeOf(i)
		was, wasRows := in.was, in.wasRows
		changed = in.observe(d, e) || changed
		switch {
		case in.samples():
			open, p := in.price(in.way(e))
			a := in.source.Stats().Activity
			due, shut := float64(a.Events-was.Events), float64(a.Shut-was.Shut)
			sampled += open*max(0, due-shut) + p.Shut*shut
			in.was = a
		case in.source != nil:
			others += in.source.Stats().Prices[plan.NoGate].Row * float64(in.wasRows-wasRows)
		}
		if e != nil && e.source != nil && e.watch(d, g.evaluations) {
			in.rate.Doubt()
		}
	}
	used := clock.ProcessTime()
	g.ticks.observe(d, float64(used-g.spent)/d.Seconds(), sampled/d.Seconds(), others/d.Seconds())
	g.spent = used
	var unseen []*edge
	for _, e := range g.edges {
		ns, times := e.gate.Opened(now)
		share := min(1, max(0, float64(ns-e.was))/float64(d))
		openings := float64(times-e.wasTimes) / d.Seconds()
		e.was, e.wasTimes = max(ns, e.was), times
		if e.gate.Forced() {
			e.open += d
		} else {
			e.open += time.Duration(share * float64(d))
		}
		e.gate.Rest(now)
		if g.plans[g.current].strategy[e.opener] == cost.None {
			changed = e.needed.Observe(share, d) || changed
			e.openings.Observe(openings, d)
		} else { // its rows are not all seen
			e.needed.Pass(d)
			e.openings.Pass(d)
			unseen = append(unseen, e)
		}
	}
	if changed && g.evaluations > settled {
		for _, e := range unseen {
			e.needed.Doubt()
			e.openings.Doubt()
		}
	}
	return d
}

// observe updates the means of an input, whose gate e has if it has one, and
// reports whether its rate has changed.
func (in *gatedInput) observe(d time.Duration, e *edge) (changed bool) {
	if every := in.feed.spec.Every; every > 0 {
		in.rate.Observe(1/every.Seconds(), d)
		return false
	}
	if in.source == nil {
		return false
	}
	flips, seen := 0, true
	if e != nil {
		flips, seen = e.flippings()
	}
	a, rows := in.source.Stats().Activity, in.feed.rows.Load()
	if seen && flips == in.flips {
		changed = in.rate.Count(float64(a.Events-in.was.Events), d)
	} else if rate := e.takeCounted(); math.IsNaN(rate) {
		in.rate.Pass(d) // while nothing was attached, calls were not seen
	} else {
		changed = in.rate.Observe(rate, d)
	}
	if n := float64(a.Events-in.was.Events) - float64(a.Shut-in.was.Shut); n >= 1 {
		in.awaited.Observe(min(1, float64(a.Awaited-in.was.Awaited)/n), d)
		in.rows.Observe(min(1, float64(rows-in.wasRows)/n), d)
	}
	in.was, in.wasRows, in.flips = a, rows, flips
	return changed
}

// price is what an event of the input costs that is acquired, and what else its
// source says.
func (in *gatedInput) price(way plan.GateWay) (open float64, p probes.Price) {
	p = in.source.Stats().Prices[way]
	share := func(m *cost.Mean) float64 {
		if !m.Known() {
			return 1
		}
		return m.Value()
	}
	return p.Open + share(&in.awaited)*p.Return + share(&in.rows)*p.Row, p
}

// way is how the input is shut by a gate, which may be nil.
func (in *gatedInput) way(e *edge) plan.GateWay {
	if e == nil {
		return plan.NoGate
	}
	return e.Way
}

// samples reports whether the input is sampled, by this process.
func (in *gatedInput) samples() bool { return in.source != nil && in.feed.spec.Every > 0 }

// ratio is what an event of the input costs, as a multiple of its price.
func (g *gating) ratio(in *gatedInput) float64 {
	if in.samples() {
		return g.ticks.ratio()
	}
	return 1
}

// model is what the cost model knows.
func (g *gating) model() []cost.Input {
	inputs := make([]cost.Input, len(g.inputs))
	for i, in := range g.inputs {
		inputs[i].Rate = in.rate.Value()
		if in.source != nil {
			inputs[i].Open, _ = in.price(plan.NoGate)
			inputs[i].Open *= g.ratio(in)
		}
	}
	for _, e := range g.edges {
		in := &inputs[e.gated]
		open, p := g.inputs[e.gated].price(e.Way)
		ratio := g.ratio(g.inputs[e.gated])
		in.Open, in.Shut, in.Wake = ratio*open, ratio*p.Shut, ratio*p.Wake
		in.Needed, in.Openings = e.needed.Value(), e.openings.Value()
		in.Flip = e.flipCost()
	}
	return inputs
}

// known reports whether what a plan's cost rests on has been seen lately, and
// whether it is doubted since.
func (g *gating) known(p int) (known, doubted bool) {
	known = true
	for _, i := range g.plans[p].edges {
		known = known && g.edges[i].needed.Known()
		doubted = doubted || g.edges[i].needed.Doubted()
	}
	return known, doubted
}
