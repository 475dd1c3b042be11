package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"endoscope/planner/cost"
	"endoscope/planner/plan"
	"endoscope/server/answer"
)

// explain prints the ways to acquire the inputs of the query's joins, why some
// cannot be taken, and the plans with their costs: as formulas before a run, with
// figures after one.
func (g *gating) explain(b *strings.Builder) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := 0; i < len(g.ways); i += 2 {
		fmt.Fprintf(b, "%s: which input is acquired all the time\n", g.ways[i].Join.Describe())
		for _, w := range g.ways[i : i+2] {
			fmt.Fprintf(b, "  %s: %s\n", sideName(w.Left), describeWay(w))
		}
	}
	if len(g.inputs) == 0 { // what a join reads is acquired once for both sides
		return
	}
	model := g.model()
	measured := !g.began.IsZero() && g.mode != "all"
	b.WriteString("plans, by what they cost the machine:\n")
	for i, p := range g.plans {
		mark := " "
		if i == g.current {
			mark = "*"
		}
		fmt.Fprintf(b, "%s %s: %s", mark, p.name, g.formula(model, p.strategy))
		switch {
		case !measured && !g.static(p):
		case !measured || g.isKnown(i):
			fmt.Fprintf(b, " = %s per second", answer.FormatNs(cost.Of(model, p.strategy)))
		default:
			b.WriteString(": not known")
		}
		b.WriteString("\n")
	}
	if !measured {
		return
	}
	for i, in := range g.inputs {
		if in.gated || in.feed.spec.Every > 0 {
			fmt.Fprintf(b, "  f(%s) = %.4g/s", in.name, in.rate.Value())
		} else {
			fmt.Fprintf(b, "  f(%s) is not counted, and the same in all plans", in.name)
		}
		if e := g.edgeOf(i); e != nil && e.needed.Known() {
			fmt.Fprintf(b, ", T(%s) = %.3g", in.name, e.needed.Value())
			if m := &model[i]; m.Wake > 0 || m.Flip > 0 {
				fmt.Fprintf(b, ", n(%s) = %.3g/s", in.name, m.Openings)
			}
		}
		b.WriteString("\n")
	}
	for _, line := range g.report() {
		fmt.Fprintf(b, "  %s\n", line)
	}
	for _, s := range g.switches {
		fmt.Fprintf(b, "  after %s: from %s (%s per second) to %s (%s)\n", s.after.Round(100*time.Millisecond), g.plans[s.from].name, answer.FormatNs(s.before), g.plans[s.to].name, answer.FormatNs(s.expect))
	}
}

func (g *gating) isKnown(p int) bool {
	known, _ := g.known(p)
	return known
}

func sideName(left bool) string {
	if left {
		return "left"
	}
	return "right"
}

// describeWay says what a way does, or why it is not to be taken.
func describeWay(w plan.Gating) string {
	if w.Refused != "" {
		return "no: " + w.Refused
	}
	s := fmt.Sprintf("%s opens %s for %s behind each row", w.OpenerName, w.GatedName, plan.FormatDuration(int64(w.Within)))
	if w.Way == plan.Holding {
		s = fmt.Sprintf("%s gives rows of %s before and %s behind each of %s", w.GatedName, plan.FormatDuration(int64(w.Before)), plan.FormatDuration(int64(w.Within)), w.OpenerName)
	}
	s += " (" + w.Way.String()
	switch {
	case w.Kernel:
		s += "; opened in the kernel"
	case w.Way != plan.Holding:
		s += "; opened when the row has arrived"
	}
	if w.Exact {
		return s + "); exact"
	}
	return s + "); not exact: " + w.Inexact
}

// formula is the cost of a strategy in the paper's terms.
func (g *gating) formula(model []cost.Input, s cost.Strategy) string {
	var terms []string
	for i, in := range g.inputs {
		f := fmt.Sprintf("f(%s)", in.name)
		if every := in.feed.spec.Every; every > 0 {
			f = fmt.Sprintf("%.4g/s", 1/every.Seconds())
		}
		if s[i] == cost.None {
			terms = append(terms, fmt.Sprintf("%s·%s", f, answer.FormatNs(model[i].Open)))
			continue
		}
		shut := answer.FormatNs(model[i].Shut)
		if model[i].Flip > 0 {
			shut = "at most " + shut
		}
		term := fmt.Sprintf("%s·(T(%s)·%s + (1-T)·%s)", f, in.name, answer.FormatNs(model[i].Open), shut)
		if model[i].Wake > 0 {
			term += fmt.Sprintf(" + n(%s)·%s", in.name, answer.FormatNs(model[i].Wake))
		}
		terms = append(terms, term)
	}
	return strings.Join(terms, " + ")
}

// static reports whether a plan's cost is known without a run.
func (g *gating) static(p joinPlan) bool {
	for i, in := range g.inputs {
		if in.feed.spec.Every == 0 || p.strategy[i] != cost.None {
			return false
		}
	}
	return true
}

func (g *gating) edgeOf(input int) *edge {
	for _, e := range g.edges {
		if e.gated == input {
			return e
		}
	}
	return nil
}

// report says for how much of the time gates were open, and, where pairs may be
// missing for it, how late they opened. g.mu is held.
func (g *gating) report() (lines []string) {
	for i, e := range g.edges {
		if !g.used(i) {
			continue
		}
		ran := g.at.Sub(g.began)
		if ran <= 0 {
			continue
		}
		s := fmt.Sprintf("%s was acquired for %.3g %% of the time", e.GatedName, 100*float64(max(0, e.open-e.unattached()))/float64(ran))
		if !e.Exact {
			s += e.delays()
		}
		lines = append(lines, s)
	}
	return append(lines, g.troubles...)
}

// delays says how late the gate opened behind the rows that opened it.
func (e *edge) delays() string {
	if e.Kernel {
		return fmt.Sprintf(", from each row of %s on", e.OpenerName)
	}
	e.mu.Lock() // not while attached waits for probes: the runner needs it
	rows, latency, worst := e.rows, e.latency, e.worst
	e.mu.Unlock()
	if rows == 0 {
		return fmt.Sprintf(", for no row of %s came", e.OpenerName)
	}
	return fmt.Sprintf(", from %s behind rows of %s on, %s at most", answer.FormatNs(float64(latency)/float64(rows)), e.OpenerName, answer.FormatNs(float64(worst))) + e.attached()
}

// used reports whether an edge is or was part of the plan in force.
func (g *gating) used(i int) bool {
	in := func(p int) bool { return slices.Contains(g.plans[p].edges, i) }
	return in(g.current) || slices.ContainsFunc(g.switches, func(s planSwitch) bool { return in(s.from) || in(s.to) })
}

// notices warn of joins that may miss pairs.
func (g *gating) notices() (out []string) {
	if g == nil {
		return nil
	}
	for i, e := range g.edges {
		if !e.Exact && (g.mode == "auto" || slices.Contains(g.plans[g.current].edges, i)) {
			out = append(out, fmt.Sprintf("pairs exist only while %s is open, which %s opens (join_gating = gated): %s", e.GatedName, e.OpenerName, e.Inexact))
		}
	}
	return out
}

// footnotes are what a query that may have missed pairs says of it at its end.
func (g *gating) footnotes() (out []string) {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	inexact := slices.ContainsFunc(g.edges, func(e *edge) bool { return !e.Exact })
	if !inexact {
		return nil
	}
	return g.report()
}
