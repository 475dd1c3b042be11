package placement

import (
	"fmt"
	"strings"
	"time"

	"endoscope/planner/plan"
	"endoscope/server/answer"
)

// Explain prints the costs of the divisions, and the moves of operators.
func (p *Placement) Explain(b *strings.Builder) {
	of := "one row"
	if p.meters.known() {
		of = "a second"
	}
	fmt.Fprintf(b, "placements, by what %s of it costs the server, N·Ttup + N'·Tnet:\n", of)
	for i, c := range p.costs() {
		d := p.divisions()[i]
		mark := " "
		if d == p.at {
			mark = "*"
		}
		fmt.Fprintf(b, "%s %s: %.4g·%s + %.4g·%s = %s\n", mark, d, c.In, answer.FormatNs(c.Tuple), c.Out, answer.FormatNs(c.Net), answer.FormatNs(c.Cost()))
	}
	fmt.Fprintf(b, "  %s\n", p.meters.describe(p))
	for _, line := range p.Footnotes() {
		fmt.Fprintf(b, "  %s\n", line)
	}
}

// mostMoves is how many moves the footer of a result lists: the last ones.
const mostMoves = 10

// Footnotes lists the moves of operators.
func (p *Placement) Footnotes() (lines []string) {
	if p == nil {
		return nil
	}
	if n := len(p.moves); n > mostMoves {
		lines = append(lines, fmt.Sprintf("operators moved %d times, lastly:", n))
	}
	for _, m := range p.moves[max(0, len(p.moves)-mostMoves):] {
		lines = append(lines, m.String())
	}
	return lines
}

func (m move) String() string {
	return fmt.Sprintf("moved after %s, behind row %d: from %s to %s", m.after.Round(time.Millisecond), m.rows, m.from, m.to)
}

// ExecutesAt returns where a node is executed; "" if the placement does not
// decide that.
func (p *Placement) ExecutesAt(root, n plan.Node) string {
	switch upper, lower := p.Site(root, n); {
	case upper:
		if a, ok := n.(*plan.Aggregate); ok && p.at == atStage && p.runsFirstStage(a) {
			return "client, merges states of the server's"
		}
		return "client"
	case lower:
		return p.LowerSite()
	}
	return ""
}

// runsFirstStage reports whether the first stage belongs to the aggregate a: the lowest
// one.
func (p *Placement) runsFirstStage(a *plan.Aggregate) bool {
	for n := a.Input; len(n.Inputs()) == 1; n = n.Inputs()[0] {
		if _, ok := n.(*plan.Aggregate); ok {
			return false
		}
	}
	return p.stage != nil
}

// LowerSite returns where Lower is executed.
func (p *Placement) LowerSite() string {
	if p.at == atBase {
		return "client"
	}
	return "server"
}
