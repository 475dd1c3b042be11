package render

import (
	"fmt"
	"math"
	"strings"
)

// Diagram is a graph of nodes and arrows, independent of the output format.
type Diagram struct {
	Title  string
	About  []string // lines below the title: what is shown, and what is missing
	Legend []string // lines that explain the shapes
	Down   bool     // layers from top to bottom, not from left to right
	Nodes  []DiagramNode
	Edges  []DiagramEdge
}

type DiagramNode struct {
	Label []string // lines
	Tip   string   // more, for the pointer; "": the label
	Round bool     // a circle, not a box
	Twice bool     // with a double border
	Entry bool     // an entry: an arrow without a source points at it
}

type DiagramEdge struct {
	From, To int
	Label    []string // lines
	Weight   int64    // how often the edge was taken; sets the line width
	Alarm    bool     // marks an error state, such as a deadlock
}

// Dot returns the diagram in the language of Graphviz.
func (d *Diagram) Dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n", dotString(d.Title))
	if !d.Down {
		b.WriteString("  rankdir=LR;\n")
	}
	b.WriteString("  node [shape=box style=rounded fontname=\"sans-serif\" fontsize=11];\n  edge [fontname=\"sans-serif\" fontsize=10];\n")
	for i, n := range d.Nodes {
		shape := ""
		switch {
		case n.Round && n.Twice:
			shape = " shape=doublecircle style=solid"
		case n.Round:
			shape = " shape=circle style=solid"
		case n.Twice:
			shape = " peripheries=2"
		}
		fmt.Fprintf(&b, "  n%d [label=%s%s];\n", i, dotString(strings.Join(n.Label, "\n")), shape)
		if n.Entry {
			fmt.Fprintf(&b, "  entry%d [shape=point width=0 label=\"\"];\n  entry%d -> n%d;\n", i, i, i)
		}
	}
	heaviest := d.heaviest()
	for _, e := range d.Edges {
		fmt.Fprintf(&b, "  n%d -> n%d [", e.From, e.To)
		if len(e.Label) > 0 {
			fmt.Fprintf(&b, "label=%s ", dotString(strings.Join(e.Label, "\n")))
		}
		if e.Alarm {
			b.WriteString("color=red ")
		}
		fmt.Fprintf(&b, "penwidth=%.3g];\n", thickness(e.Weight, heaviest))
	}
	b.WriteString("}\n")
	return b.String()
}

// dotString quotes a string for Graphviz, where a newline is \n and only quotes and
// backslashes are special.
func dotString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// Mermaid returns the diagram as a flow chart for Markdown.
func (d *Diagram) Mermaid() string {
	var b strings.Builder
	direction := "LR"
	if d.Down {
		direction = "TD"
	}
	fmt.Fprintf(&b, "flowchart %s\n", direction)
	for i, n := range d.Nodes {
		open, end := "(", ")"
		switch {
		case n.Round && n.Twice:
			open, end = "(((", ")))"
		case n.Round:
			open, end = "((", "))"
		case n.Twice:
			open, end = "[[", "]]"
		}
		fmt.Fprintf(&b, "  n%d%s%s%s\n", i, open, mermaidString(n.Label), end)
		if n.Entry {
			fmt.Fprintf(&b, "  entry%d(( )) --> n%d\n", i, i)
		}
	}
	for _, e := range d.Edges {
		arrow := "-->"
		if e.Alarm {
			arrow = "==>"
		}
		if len(e.Label) > 0 {
			arrow += "|" + mermaidString(e.Label) + "|"
		}
		fmt.Fprintf(&b, "  n%d %s n%d\n", e.From, arrow, e.To)
	}
	return b.String()
}

// mermaidString quotes lines for Mermaid. Characters that are special to it, or to the HTML
// it produces, become Mermaid character entities.
func mermaidString(lines []string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, l := range lines {
		if i > 0 {
			b.WriteString("<br/>")
		}
		for _, r := range l {
			switch {
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" _.:,-", r), r > 0x7f:
				b.WriteRune(r)
			default:
				fmt.Fprintf(&b, "#%d;", r)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (d *Diagram) heaviest() (w int64) {
	for _, e := range d.Edges {
		w = max(w, e.Weight)
	}
	return w
}

// thickness returns the line width of an arrow in pixels: 1 to 4, by the logarithm of its
// weight.
func thickness(weight, heaviest int64) float64 {
	if heaviest < 2 || weight < 1 {
		return 1
	}
	return 1 + 3*math.Log(float64(weight))/math.Log(float64(heaviest))
}
