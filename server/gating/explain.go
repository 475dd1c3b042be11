package gating

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"endoscope/planner/cost"
	"endoscope/planner/plan"
	"endoscope/server/answer"
)

// Explain prints the ways to acquire the inputs of the query's joins, why some
// are not possible, and the plans with their costs: as formulas before a run,
// with figures after one.
func (g *Gating) Explain(b *strings.Builder) {
	if g == nil {
		return
	}
	g.Mu.Lock()
	defer g.Mu.Unlock()
	for i := 0; i < len(g.ways); i += 2 {
		fmt.Fprintf(b, "%s: which input is acquired all the time\n", g.ways[i].Join.Describe())
		for _, w := range g.ways[i : i+2] {
			fmt.Fprintf(b, "  %s: %s\n", sideName(w.Left), describeWay(w))
		}
	}
	if len(g.Inputs) == 0 { // both sides of the join share an acquisition
		return
	}
	model := g.Model()
	measured := !g.began.IsZero() && g.Mode != "all"
	b.WriteString("plans, by what they cost the machine:\n")
	for i, p := range g.Plans {
		mark := " "
		if i == g.Current {
			mark = "*"
		}
		fmt.Fprintf(b, "%s %s: %s", mark, p.Name, g.formula(model, p.Strategy))
		switch {
		case !measured && !g.static(p):
		case !measured || g.isKnown(i):
			fmt.Fprintf(b, " = %s per second", answer.FormatNs(cost.Of(model, p.Strategy)))
		default:
			b.WriteString(": not known")
		}
		b.WriteString("\n")
	}
	if !measured {
		return
	}
	for i, in := range g.Inputs {
		if in.Gated || in.feed.Spec.Every > 0 {
			fmt.Fprintf(b, "  f(%s) = %.4g/s", in.name, in.Rate.Value())
		} else {
			fmt.Fprintf(b, "  f(%s) is not counted: it is the same in all plans", in.name)
		}
		if e := g.linkOf(i); e != nil && e.Needed.Known() {
			fmt.Fprintf(b, ", T(%s) = %.3g", in.name, e.Needed.Value())
			if m := &model[i]; m.Wake > 0 || m.Flip > 0 {
				fmt.Fprintf(b, ", n(%s) = %.3g/s", in.name, m.Openings)
			}
		}
		b.WriteString("\n")
	}
	for _, line := range g.report() {
		fmt.Fprintf(b, "  %s\n", line)
	}
	for _, s := range g.Switches {
		fmt.Fprintf(b, "  after %s: from %s (%s per second) to %s (%s)\n", s.After.Round(100*time.Millisecond), g.Plans[s.From].Name, answer.FormatNs(s.Before), g.Plans[s.To].Name, answer.FormatNs(s.Expect))
	}
}

func (g *Gating) isKnown(p int) bool {
	known, _ := g.known(p)
	return known
}

func sideName(left bool) string {
	if left {
		return "left"
	}
	return "right"
}

// describeWay describes a way, or why it is not possible.
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

// formula returns the cost of a strategy in the paper's terms.
func (g *Gating) formula(model []cost.Input, s cost.Strategy) string {
	var terms []string
	for i, in := range g.Inputs {
		f := fmt.Sprintf("f(%s)", in.name)
		if every := in.feed.Spec.Every; every > 0 {
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
func (g *Gating) static(p joinPlan) bool {
	for i, in := range g.Inputs {
		if in.feed.Spec.Every == 0 || p.Strategy[i] != cost.None {
			return false
		}
	}
	return true
}

func (g *Gating) linkOf(input int) *link {
	for _, e := range g.Links {
		if e.GatedInput == input {
			return e
		}
	}
	return nil
}

// report returns for how long gates were open and, if that may have lost pairs,
// how late they opened. The caller holds g.mu.
func (g *Gating) report() (lines []string) {
	for i, e := range g.Links {
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
	return append(lines, g.attachErrors...)
}

// delays describes how long after the opening rows the gate opened.
func (e *link) delays() string {
	if e.Kernel {
		return fmt.Sprintf(", from each row of %s on", e.OpenerName)
	}
	e.mu.Lock() // released before e.attached, which waits for attaching: the runner needs it
	rows, latency, worst := e.rows, e.latency, e.worst
	e.mu.Unlock()
	if rows == 0 {
		return fmt.Sprintf(", for no row of %s came", e.OpenerName)
	}
	return fmt.Sprintf(", from %s behind rows of %s on, %s at most", answer.FormatNs(float64(latency)/float64(rows)), e.OpenerName, answer.FormatNs(float64(worst))) + e.attached()
}

// used reports whether a link is or was part of the plan in force.
func (g *Gating) used(i int) bool {
	in := func(p int) bool { return slices.Contains(g.Plans[p].links, i) }
	return in(g.Current) || slices.ContainsFunc(g.Switches, func(s planSwitch) bool { return in(s.From) || in(s.To) })
}

// Notices returns warnings about joins that may miss pairs.
func (g *Gating) Notices() (out []string) {
	if g == nil {
		return nil
	}
	for i, e := range g.Links {
		if !e.Exact && (g.Mode == "auto" || slices.Contains(g.Plans[g.Current].links, i)) {
			out = append(out, fmt.Sprintf("pairs exist only while %s is open, which %s opens (join_gating = gated): %s", e.GatedName, e.OpenerName, e.Inexact))
		}
	}
	return out
}

// Footnotes returns the footer lines of a query that may have missed pairs.
func (g *Gating) Footnotes() (out []string) {
	if g == nil {
		return nil
	}
	g.Mu.Lock()
	defer g.Mu.Unlock()
	inexact := slices.ContainsFunc(g.Links, func(e *link) bool { return !e.Exact })
	if !inexact {
		return nil
	}
	return g.report()
}
