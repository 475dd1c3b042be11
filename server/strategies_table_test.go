package server

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// strategyTable is what was measured in a setting.
type strategyTable struct {
	Name, Title string // of the setting
	Points      []strategyPoint
}

// strategyPoint is what was measured with a share of the functions.
type strategyPoint struct {
	Percent, Functions int
	None               float64      // ns a transaction, nothing watched, at the usual speed
	Estimated          [3]float64   // ns a transaction that the fixed plans add, by the cost model
	Took               [][4]float64 // ns a transaction, in each turn by each plan; 0: not that plan's turn
	Reference          [][4]float64 // at the same moments: ns a transaction of another database, which nobody watches
	Chosen             [3]int       // turns in which the optimiser had chosen a plan
}

// usual is what a transaction of the other database took in most of the moments.
func (p *strategyPoint) usual() float64 {
	var all []float64
	for _, turn := range p.Reference {
		for _, ns := range turn {
			if ns > 0 {
				all = append(all, ns)
			}
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// even is what was taken at the usual speed of the processor: a virtual one has to
// share a core with whoever else is there, and may be half as fast for a second. The
// other database, whose transactions lie between those that are measured, tells: what
// was taken is corrected by the regression on what it took, as in an analysis of
// covariance.
func (p *strategyPoint) even() [][4]float64 {
	if len(p.Reference) == 0 {
		return p.Took
	}
	usual, slope := p.usual(), p.slope()
	out := make([][4]float64, len(p.Took))
	for i, turn := range p.Took {
		for plan, ns := range turn {
			if ns > 0 {
				out[i][plan] = ns * math.Pow(usual/p.Reference[i][plan], slope)
			}
		}
	}
	return out
}

// slope is how the logarithm of what a plan took grows with that of what the other
// database took, by least squares: one slope for all plans, about the mean of each.
func (p *strategyPoint) slope() float64 {
	var xy, xx float64
	for plan := range strategyPlans {
		var x, y []float64
		for i, turn := range p.Took {
			if turn[plan] > 0 {
				x, y = append(x, math.Log(p.Reference[i][plan])), append(y, math.Log(turn[plan]))
			}
		}
		mx, _ := meanAndUpper(x)
		my, _ := meanAndUpper(y)
		for i := range x {
			xy += (x[i] - mx) * (y[i] - my)
			xx += (x[i] - mx) * (x[i] - mx)
		}
	}
	if xx == 0 {
		return 0
	}
	return min(max(xy/xx, 0), 1)
}

// mean is what a transaction took by a plan.
func (p *strategyPoint) mean(plan int) float64 {
	sum, n := 0.0, 0
	for _, t := range p.even() {
		if t[plan] > 0 {
			sum += t[plan]
			n++
		}
	}
	return sum / float64(n)
}

// best is the best of the fixed plans, and by how much the next took longer.
func (p *strategyPoint) best() (plan int, by float64) {
	m := []float64{p.mean(0), p.mean(1), p.mean(2)}
	plan = slices.Index(m, slices.Min(m))
	least := m[plan]
	m[plan] = math.Inf(1)
	return plan, slices.Min(m)/least - 1
}

// excess is by how much the optimiser's choice took longer than the best fixed
// plan in the same turn: the mean, and the upper end of its 95 % interval (t).
func (p *strategyPoint) excess() (mean, upper float64) {
	best, _ := p.best()
	return meanAndUpper(p.against(best, auto))
}

// against is by how much a plan took longer than another in each turn of both, as a
// share of what the other took in their mean: quotients of single turns would be more
// than that in the mean, by as much as turns differ.
func (p *strategyPoint) against(other, plan int) (all []float64) {
	sum := 0.0
	for _, t := range p.even() {
		if t[plan] > 0 && t[other] > 0 {
			all = append(all, t[plan]-t[other])
			sum += t[other]
		}
	}
	for i := range all {
		all[i] /= sum / float64(len(all))
	}
	return all
}

// isOut reports whether a fixed plan is surely not the best: the lower end of the
// interval of what it took longer is beyond what the optimiser may.
func (p *strategyPoint) isOut(plan int) bool {
	best, _ := p.best()
	if plan == auto || plan == best {
		return false
	}
	mean, upper := meanAndUpper(p.against(best, plan))
	return mean-(upper-mean) > 0.1
}

// width is half of that interval.
func (p *strategyPoint) width() float64 {
	mean, upper := p.excess()
	return upper - mean
}

// meanAndUpper is the mean of a sample and the upper end of the 95 % confidence
// interval that Student's t gives.
func meanAndUpper(xs []float64) (mean, upper float64) {
	n := float64(len(xs))
	for _, x := range xs {
		mean += x / n
	}
	squares := 0.0
	for _, x := range xs {
		squares += (x - mean) * (x - mean)
	}
	if n < 2 {
		return mean, math.Inf(1)
	}
	// The quantile by its expansion about the normal one (Abramowitz and Stegun,
	// 26.7.5): 2.145 for 15 values, 4.17 for 3, where 4.30 is right.
	const z = 1.959964
	z3, z5, z7 := math.Pow(z, 3), math.Pow(z, 5), math.Pow(z, 7)
	f := n - 1
	t := z + (z3+z)/(4*f) + (5*z5+16*z3+3*z)/(96*f*f) + (3*z7+19*z5+17*z3-15*z)/(384*f*f*f)
	return mean, mean + t*math.Sqrt(squares/f/n)
}

// markdown is one setting's table, in µs a transaction.
func (t *strategyTable) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (µs a transaction)\n\n", t.Title)
	b.WriteString("| functions | none | all on | functions first | load first | best, by | optimiser | its choice | its estimates: all on, functions, load first | against the best: mean, at most |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range t.Points {
		best, by := p.best()
		mean, upper := p.excess()
		var chosen []string
		for i, n := range p.Chosen {
			if n > 0 {
				chosen = append(chosen, fmt.Sprintf("%s %d", strategyPlans[i], n))
			}
		}
		estimates := fmt.Sprintf("+%.0f, +%.0f, +%.0f", p.Estimated[0]/1e3, p.Estimated[1]/1e3, p.Estimated[2]/1e3)
		fmt.Fprintf(&b, "| %d %% (%d) | %.0f | %.0f | %.0f | %.0f | %s, %.0f %% | %.0f | %s | %s | %+.1f %%, %+.1f %% |\n", p.Percent, p.Functions, p.None/1e3,
			p.mean(0)/1e3, p.mean(1)/1e3, p.mean(2)/1e3, strategyPlans[best], 100*by, p.mean(auto)/1e3, strings.Join(chosen, ", "), estimates, 100*mean, 100*upper)
	}
	return b.String()
}

// published is the table of testdata/figures/strategies.md: for each share of the
// functions what a transaction takes by the fixed plans, the best in bold, and by
// the optimiser's choice, in µs; and the upper bound of how much that is more than
// the best.
func published(ts []strategyTable) string {
	var b strings.Builder
	b.WriteString("| functions |")
	for _, t := range ts {
		fmt.Fprintf(&b, " %s |", t.Title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(ts)) + "\n")
	for _, first := range ts[0].Points {
		fmt.Fprintf(&b, "| %d %% (%d) |", first.Percent, first.Functions)
		for _, t := range ts {
			i := slices.IndexFunc(t.Points, func(p strategyPoint) bool { return p.Percent == first.Percent })
			if i < 0 { // fewer points were taken
				b.WriteString(" |")
				continue
			}
			p := &t.Points[i]
			best, _ := p.best()
			for plan := range strategyPlans {
				switch took := fmt.Sprintf("%.0f", p.mean(plan)/1e3); plan {
				case best:
					b.WriteString(" **" + took + "** /")
				case auto:
					_, upper := p.excess()
					fmt.Fprintf(&b, " %s (%+.1f %%) |", took, 100*upper)
				default:
					b.WriteString(" " + took + " /")
				}
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// drawStrategies draws the tables side by side, as figures 5 and 6 of the paper
// are drawn.
func drawStrategies(ts []strategyTable) string {
	const (
		width, height = 300.0, 220.0 // of a plot
		left, top     = 60.0, 40.0   // of it, within its panel
		panel         = width + left + 30
	)
	colours := [...]string{"#999999", "#d95f02", "#1b9e77", "#000000"}
	names := [...]string{"all on", "functions first", "load first", "optimiser"}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="11">`+"\n", panel*float64(len(ts)), height+top+80)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i, t := range ts {
		most := 0.0
		for _, p := range t.Points {
			most = max(most, p.mean(0), p.mean(1), p.mean(2), p.mean(auto))
		}
		step := tickStep(most / 1e3)
		most = step * math.Ceil(most/1e3/step) // µs
		x := func(percent int) float64 { return width * float64(percent) / 100 }
		y := func(us float64) float64 { return height * (1 - us/most) }
		fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)">`+"\n", float64(i)*panel+left, top)
		fmt.Fprintf(&b, `<text x="%.0f" y="-15" text-anchor="middle" font-size="13">%s</text>`+"\n", width/2, t.Title)
		for v := 0.0; v <= most+step/2; v += step {
			fmt.Fprintf(&b, `<path d="M0 %.1fH%.0f" stroke="#dddddd"/><text x="-6" y="%.1f" text-anchor="end">%.0f</text>`+"\n", y(v), width, y(v)+4, v)
		}
		for v := 0; v <= 100; v += 20 {
			fmt.Fprintf(&b, `<text x="%.1f" y="%.0f" text-anchor="middle">%d</text>`+"\n", x(v), height+15, v)
		}
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="middle">%% of the functions</text>`+"\n", width/2, height+32)
		if i == 0 {
			fmt.Fprintf(&b, `<text transform="translate(-42 %.0f) rotate(-90)" text-anchor="middle">µs a transaction</text>`+"\n", height/2)
		}
		for plan := range strategyPlans {
			var points []string
			for _, p := range t.Points {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(p.Percent), y(p.mean(plan)/1e3)))
			}
			style := `stroke-width="2"`
			if plan == auto {
				style = `stroke-width="2" stroke-dasharray="5 4"`
			}
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" %s/>`+"\n", strings.Join(points, " "), colours[plan], style)
		}
		b.WriteString("</g>\n")
	}
	for plan, name := range names {
		at := left + 150*float64(plan)
		fmt.Fprintf(&b, `<path d="M%.0f %.0fh24" stroke="%s" stroke-width="2"/><text x="%.0f" y="%.0f">%s</text>`+"\n", at, height+top+60, colours[plan], at+30, height+top+64, name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// tickStep is a round distance of some five ticks up to most.
func tickStep(most float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(most/5)))
	for _, k := range []float64{1, 2, 5, 10} {
		if step*k*6 >= most {
			return step * k
		}
	}
	return step * 10
}

// TestPlansAreComparedWithinTurns: plans that take as much in the mean are as good, however much turns
// differ; a turn in which one of them did not take part says nothing.
func TestPlansAreComparedWithinTurns(t *testing.T) {
	p := strategyPoint{Took: [][4]float64{{100, 0, 0, 200}, {200, 0, 0, 100}, {0, 0, 0, 900}}}
	if mean, upper := meanAndUpper(p.against(0, auto)); mean != 0 || upper < 1 {
		t.Errorf("%v, at most %v", mean, upper)
	}
	p.Took = [][4]float64{{100, 0, 0, 105}, {300, 0, 0, 315}}
	if mean, _ := meanAndUpper(p.against(0, auto)); math.Abs(mean-0.05) > 1e-9 {
		t.Errorf("%v, and it is 10 of 200 more", mean)
	}
	// The processor was half as fast in some moments, in which the other took four times
	// as long.
	p.Took = [][4]float64{{200, 0, 0, 105}, {100, 0, 0, 210}, {100, 0, 0, 105}}
	p.Reference = [][4]float64{{40, 0, 0, 10}, {10, 0, 0, 40}, {10, 0, 0, 10}}
	if mean, upper := meanAndUpper(p.against(0, auto)); math.Abs(mean-0.05) > 1e-9 || math.Abs(upper-0.05) > 1e-9 || math.Abs(p.mean(0)-100) > 1e-9 {
		t.Errorf("%v, at most %v, of %v", mean, upper, p.mean(0))
	}
}
