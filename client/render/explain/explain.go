// Package explain draws the result of EXPLAIN: operators as boxes in which data flows down,
// with where each runs, what it costs and, of EXPLAIN ANALYZE, what was measured.
//
// It must not know formats or files.
package explain

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	pictures "endoscope/operators/encoders/render"
	"endoscope/planner/types"
	"endoscope/server/wire"
	"endoscope/server/wire/explained"
)

// Column is the column of EXPLAIN.
const Column = "plan"

// Is reports whether columns are those of EXPLAIN.
func Is(cols []wire.Column) bool {
	return len(cols) == 1 && cols[0].Name == Column && cols[0].Type == types.Varchar
}

const (
	mostDetail = 3  // lines of what an operator does
	wide       = 56 // characters of a line
	mostSites  = 4  // probes of an acquisition
	mostAbout  = 12 // lines about the whole
)

// Picture draws the lines of EXPLAIN. ok is false if they have no operators.
func Picture(lines []string) (svg string, ok bool) {
	p := explained.Read(lines)
	if len(p.Operators) == 0 {
		return "", false
	}
	d := &pictures.Diagram{Title: "plan", Down: true, Legend: []string{"data flows down; the last line of a box says where the operator runs"}}
	if p.Seconds > 0 {
		d.Title = fmt.Sprintf("plan, and what was measured in %.3g s", p.Seconds)
	}
	for _, l := range p.Lines[:min(len(p.Lines), mostAbout)] {
		d.About = append(d.About, pictures.Shortened(strings.TrimSpace(l), 2*wide))
	}
	if more := len(p.Lines) - mostAbout; more > 0 {
		d.About = append(d.About, fmt.Sprintf("and %d more lines, which EXPLAIN prints", more))
	}
	var open []int // the operators above the next, by depth
	for i := range p.Operators {
		o := &p.Operators[i]
		d.Nodes = append(d.Nodes, nodeOf(o))
		open = append(open[:min(o.Depth, len(open))], i)
		if len(open) < 2 {
			continue
		}
		e := pictures.DiagramEdge{From: i, To: open[len(open)-2], Weight: 1 + o.Out}
		if o.Measured {
			e.Label = []string{count(o.Out, "row")}
			if p.Seconds > 0 {
				e.Label = append(e.Label, strconv.FormatFloat(math.Round(10*float64(o.Out)/p.Seconds)/10, 'f', -1, 64)+"/s")
			}
		}
		d.Edges = append(d.Edges, e)
	}
	return d.Svg(), true
}

// nodeOf returns the box of an operator.
func nodeOf(o *explained.Operator) pictures.DiagramNode {
	label := append([]string{strings.ToUpper(o.Name)}, wrapped(o.Detail)...)
	for _, s := range o.Sites[:min(len(o.Sites), mostSites)] {
		text := pictures.Shortened(s.Text, wide)
		if s.Cost != "" {
			text += ", " + s.Cost + " an event"
		}
		label = append(label, text)
	}
	if more := len(o.Sites) - mostSites; more > 0 {
		label = append(label, fmt.Sprintf("and %d more", more))
	}
	where := o.Site
	if o.Note != "" {
		where += ", " + pictures.Shortened(o.Note, wide)
	}
	if label = append(label, where); o.Measured {
		label = append(label, fmt.Sprintf("%s in, %d out, %s", count(o.In, "row"), o.Out, o.Time))
	}
	tip := []string{o.Name + " " + o.Detail}
	for _, s := range o.Sites {
		tip = append(tip, s.Text)
	}
	return pictures.DiagramNode{Label: label, Tip: strings.Join(tip, "\n")}
}

// wrapped divides a text into lines at its spaces.
func wrapped(text string) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		word = pictures.Shortened(word, wide)
		switch {
		case line == "":
			line = word
		case len(line)+len(word) < wide:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	if len(lines) > mostDetail {
		lines = append(lines[:mostDetail:mostDetail], "…")
	}
	return lines
}

func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
