package gating

import (
	"math"
	"time"

	"endoscope/planner/cost"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
)

// settled is the number of evaluations after a change of plan from which a
// changed load is attributed to the program rather than the plan: probed code
// uses more CPU.
const settled = 3

// Evaluate updates the measurements, and changes the plan if another is clearly
// cheaper.
func (g *Gating) Evaluate() {
	g.Mu.Lock()
	defer g.Mu.Unlock()
	d := g.Observe()
	if g.Mode != "auto" && g.Mode != "" || d <= 0 {
		return
	}
	model := g.Model()
	var cs []cost.Candidate
	for i, p := range g.Plans {
		known, doubted := g.known(i)
		cs = append(cs, cost.Candidate{Cost: cost.Of(model, p.Strategy), Known: known, Doubted: doubted})
	}
	from := g.Current
	for _, e := range g.Links {
		e.save(cs[from].Cost, d)
	}
	if to := g.Chooser.Next(cs, d); to != from {
		g.Switches = append(g.Switches, planSwitch{time.Since(g.began), from, to, cs[from].Cost, cs[to].Cost})
		g.Enforce(to)
	}
}

// Observe updates the means, and returns the time since its last call. If
// observed inputs change, those not observed may have changed, too. The caller
// holds g.mu.
func (g *Gating) Observe() time.Duration {
	now, wall := clock.Now(), time.Now()
	d := wall.Sub(g.at)
	g.at = wall
	if d <= 0 {
		return 0
	}
	g.evaluations++
	changed, sampled, others := false, 0.0, 0.0
	for i, in := range g.Inputs {
		e := g.linkOf(i)
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
		if e != nil && e.Source != nil && e.watch(d, g.evaluations) {
			in.Rate.Doubt()
		}
	}
	used := clock.ProcessTime()
	g.ticks.observe(d, float64(used-g.spent)/d.Seconds(), sampled/d.Seconds(), others/d.Seconds())
	g.spent = used
	var unseen []*link
	for _, e := range g.Links {
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
		if g.Plans[g.Current].Strategy[e.opener] == cost.None {
			changed = e.Needed.Observe(share, d) || changed
			e.openings.Observe(openings, d)
		} else { // not all of its rows are observed
			e.Needed.Pass(d)
			e.openings.Pass(d)
			unseen = append(unseen, e)
		}
	}
	if changed && g.evaluations > settled {
		for _, e := range unseen {
			e.Needed.Doubt()
			e.openings.Doubt()
		}
	}
	return d
}

// observe updates the means of an input, given the link e of its gate, if it
// has one, and reports whether its rate has changed.
func (in *GatedInput) observe(d time.Duration, e *link) (changed bool) {
	if every := in.feed.Spec.Every; every > 0 {
		in.Rate.Observe(1/every.Seconds(), d)
		return false
	}
	if in.source == nil {
		return false
	}
	changes, seen := 0, true
	if e != nil {
		changes, seen = e.attachment()
	}
	a, rows := in.source.Stats().Activity, in.feed.Rows.Load()
	if seen && changes == in.changes {
		changed = in.Rate.Count(float64(a.Events-in.was.Events), d)
	} else if rate := e.countedRate(); math.IsNaN(rate) {
		in.Rate.Pass(d) // while nothing was attached, calls were not observed
	} else {
		changed = in.Rate.Observe(rate, d)
	}
	if n := float64(a.Events-in.was.Events) - float64(a.Shut-in.was.Shut); n >= 1 {
		in.awaited.Observe(min(1, float64(a.Awaited-in.was.Awaited)/n), d)
		in.rows.Observe(min(1, float64(rows-in.wasRows)/n), d)
	}
	in.was, in.wasRows, in.changes = a, rows, changes
	return changed
}

// price returns the cost of an acquired event of the input, and its source's
// other prices.
func (in *GatedInput) price(way plan.GateWay) (open float64, p probes.Price) {
	p = in.source.Stats().Prices[way]
	share := func(m *cost.Mean) float64 {
		if !m.Known() {
			return 1
		}
		return m.Value()
	}
	return p.Open + share(&in.awaited)*p.Return + share(&in.rows)*p.Row, p
}

// way returns how a gate, which may be nil, shuts the input.
func (in *GatedInput) way(e *link) plan.GateWay {
	if e == nil {
		return plan.NoGate
	}
	return e.Way
}

// samples reports whether the input is sampled, by this process.
func (in *GatedInput) samples() bool { return in.source != nil && in.feed.Spec.Every > 0 }

// ratio returns the measured cost of an event of the input, as a multiple of
// its price.
func (g *Gating) ratio(in *GatedInput) float64 {
	if in.samples() {
		return g.ticks.ratio()
	}
	return 1
}

// Model returns the inputs of the cost model.
func (g *Gating) Model() []cost.Input {
	inputs := make([]cost.Input, len(g.Inputs))
	for i, in := range g.Inputs {
		inputs[i].Rate = in.Rate.Value()
		if in.source != nil {
			inputs[i].Open, _ = in.price(plan.NoGate)
			inputs[i].Open *= g.ratio(in)
		}
	}
	for _, e := range g.Links {
		in := &inputs[e.GatedInput]
		open, p := g.Inputs[e.GatedInput].price(e.Way)
		ratio := g.ratio(g.Inputs[e.GatedInput])
		in.Open, in.Shut, in.Wake = ratio*open, ratio*p.Shut, ratio*p.Wake
		in.Needed, in.Openings = e.Needed.Value(), e.openings.Value()
		in.Flip = e.cycleCost()
	}
	return inputs
}

// known reports whether the measurements that a plan's cost depends on are
// recent, and whether they have been doubted since.
func (g *Gating) known(p int) (known, doubted bool) {
	known = true
	for _, i := range g.Plans[p].links {
		known = known && g.Links[i].Needed.Known()
		doubted = doubted || g.Links[i].Needed.Doubted()
	}
	return known, doubted
}
