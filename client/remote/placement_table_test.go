package remote_test

import (
	"fmt"
	"math"
	"strings"
	"time"

	"endoscope/server/wire"
)

// placementNames are the compared values of SET placement.
var placementNames = []string{"server", "client", "auto"}

// placementPoint is the cost of a tuple in one setting for each placement, ns.
type placementPoint struct {
	name  string
	took  [3]float64
	moves []string // of the optimiser
}

type placementTable struct {
	title, axis string
	points      []placementPoint
}

// best returns the better of the fixed placements.
func (p *placementPoint) best() int {
	if p.took[1] < p.took[0] || math.IsNaN(p.took[0]) {
		return 1
	}
	return 0
}

// markdown returns the table, with the better of the fixed placements in bold.
func (t *placementTable) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (ns a tuple)\n\n| %s | at the server | at the client | optimiser | against the better | its moves |\n|---|---|---|---|---|---|\n", t.title, t.axis)
	for _, p := range t.points {
		fmt.Fprintf(&b, "| %s |", p.name)
		for i, ns := range p.took {
			text := fmt.Sprintf("%.0f", ns)
			if i == p.best() {
				text = "**" + text + "**"
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		fmt.Fprintf(&b, " %+.0f %% | %d |\n", 100*(p.took[2]/p.took[p.best()]-1), len(p.moves))
	}
	return b.String()
}

// placementRun is a query during which load and network changed.
type placementRun struct {
	phases  []phase
	totals  []total
	summary wire.Summary
}

func (r *placementRun) markdown() string {
	var b strings.Builder
	b.WriteString("while load and network change (million tuples a second)\n\n| until | load and network | tuples |\n|---|---|---|\n")
	from := total{}
	for _, p := range r.phases {
		last := from
		for _, t := range r.totals {
			if t.at > from.at && t.at <= p.until+time.Second/4 {
				last = t
			}
		}
		rate := float64(last.n-from.n) / max((last.at-from.at).Seconds(), 1e-9) / 1e6
		fmt.Fprintf(&b, "| %s | %s | %.2f |\n", p.until, p.name, rate)
		from = last
	}
	b.WriteString("\n")
	for _, m := range movesOf(r.summary) {
		b.WriteString(m + "\n")
	}
	return b.String()
}

// drawPlacement draws the tables and the run side by side.
func drawPlacement(ts []placementTable, run placementRun) string {
	const (
		width, height = 240.0, 200.0 // of a plot
		left, top     = 60.0, 40.0   // of a plot within its panel
		panel         = width + left + 20
	)
	colours := [...]string{"#d95f02", "#1b9e77", "#000000"}
	names := [...]string{"at the server", "at the client", "optimiser"}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="11">`+"\n", panel*float64(len(ts)), 2*(height+top)+120)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i, t := range ts {
		most := 0.0
		for _, p := range t.points {
			for _, ns := range p.took {
				if !math.IsNaN(ns) {
					most = max(most, ns)
				}
			}
		}
		step := placementTick(most)
		most = step * math.Ceil(most/step)
		x := func(i int) float64 { return width * (float64(i) + 0.5) / float64(len(t.points)) }
		y := func(ns float64) float64 { return height * (1 - ns/most) }
		fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)">`+"\n", float64(i)*panel+left, top)
		fmt.Fprintf(&b, `<text x="%.0f" y="-15" text-anchor="middle" font-size="13">%s</text>`+"\n", width/2, t.title)
		for v := 0.0; v <= most+step/2; v += step {
			fmt.Fprintf(&b, `<path d="M0 %.1fH%.0f" stroke="#dddddd"/><text x="-6" y="%.1f" text-anchor="end">%.0f</text>`+"\n", y(v), width, y(v)+4, v)
		}
		for k, p := range t.points {
			fmt.Fprintf(&b, `<text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n", x(k), height+15, p.name)
		}
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`+"\n", width/2, height+32, t.axis)
		if i == 0 {
			fmt.Fprintf(&b, `<text transform="translate(-46 %.0f) rotate(-90)" text-anchor="middle">ns a tuple</text>`+"\n", height/2)
		}
		for plan := range placementNames {
			var points []string
			for k, p := range t.points {
				if !math.IsNaN(p.took[plan]) {
					points = append(points, fmt.Sprintf("%.1f,%.1f", x(k), y(p.took[plan])))
				}
			}
			style := `stroke-width="2"`
			if placementNames[plan] == "auto" {
				style = `stroke-width="2" stroke-dasharray="5 4"`
			}
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" %s/>`+"\n", strings.Join(points, " "), colours[plan], style)
		}
		b.WriteString("</g>\n")
	}
	for plan, name := range names {
		at := left + 150*float64(plan)
		fmt.Fprintf(&b, `<path d="M%.0f %.0fh24" stroke="%s" stroke-width="2"/><text x="%.0f" y="%.0f">%s</text>`+"\n", at, height+top+56, colours[plan], at+30, height+top+60, name)
	}
	drawRun(&b, run, left, height+2*top+70, panel*float64(len(ts))-left-20, height-40)
	b.WriteString("</svg>\n")
	return b.String()
}

// drawRun draws the number of tuples per second, what changed, and when operators
// moved.
func drawRun(b *strings.Builder, r placementRun, left, top, width, height float64) {
	end := r.phases[len(r.phases)-1].until
	var rates []float64
	most := 0.0
	for i := 1; i < len(r.totals); i++ {
		d := (r.totals[i].at - r.totals[i-1].at).Seconds()
		rates = append(rates, float64(r.totals[i].n-r.totals[i-1].n)/max(d, 0.1)/1e6)
		most = max(most, rates[i-1])
	}
	step := placementTick(most)
	most = step * max(1, math.Ceil(most/step))
	x := func(t time.Duration) float64 { return width * min(1, float64(t)/float64(end)) }
	y := func(v float64) float64 { return height * (1 - v/most) }
	fmt.Fprintf(b, `<g transform="translate(%.0f %.0f)">`+"\n", left, top)
	fmt.Fprintf(b, `<text x="%.0f" y="-22" text-anchor="middle" font-size="13">while load and network change</text>`+"\n", width/2)
	for v := 0.0; v <= most+step/2; v += step {
		fmt.Fprintf(b, `<path d="M0 %.1fH%.0f" stroke="#dddddd"/><text x="-6" y="%.1f" text-anchor="end">%.3g</text>`+"\n", y(v), width, y(v)+4, v)
	}
	from := time.Duration(0)
	for _, p := range r.phases {
		fmt.Fprintf(b, `<path d="M%.1f 0V%.0f" stroke="#999999"/><text x="%.1f" y="-6" text-anchor="middle">%s</text><text x="%.1f" y="%.0f" text-anchor="middle">%.0f</text>`+"\n",
			x(p.until), height, (x(from)+x(p.until))/2, p.name, x(p.until), height+15, p.until.Seconds())
		from = p.until
	}
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="middle">s</text><text transform="translate(-42 %.0f) rotate(-90)" text-anchor="middle">million tuples a second</text>`+"\n", width/2, height+30, height/2)
	var points []string
	for i, v := range rates {
		points = append(points, fmt.Sprintf("%.1f,%.1f", x(r.totals[i+1].at), y(v)))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="#000000" stroke-width="2"/>`+"\n", strings.Join(points, " "))
	for _, m := range movesOf(r.summary) {
		var after string
		if _, err := fmt.Sscanf(m, "moved after %s", &after); err != nil {
			continue
		}
		d, err := time.ParseDuration(strings.TrimSuffix(after, ","))
		if err != nil {
			continue
		}
		colour := "#d95f02"
		if strings.HasSuffix(m, "to all at the client") {
			colour = "#1b9e77"
		}
		fmt.Fprintf(b, `<path d="M%.1f 0V%.0f" stroke="%s" stroke-width="2" stroke-dasharray="3 3"/>`+"\n", x(d), height, colour)
	}
	b.WriteString("</g>\n")
}

// placementTick returns a round distance for about five ticks up to most.
func placementTick(most float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(max(most, 1e-9)/5)))
	for _, k := range []float64{1, 2, 5, 10} {
		if step*k*6 >= most {
			return step * k
		}
	}
	return step * 10
}
