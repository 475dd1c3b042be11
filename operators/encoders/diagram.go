package encoders

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// diagram is a picture of nodes and arrows before it has a form.
type diagram struct {
	title string
	down  bool // layers from top to bottom, not from left to right
	nodes []diagramNode
	edges []diagramEdge
}

type diagramNode struct {
	label []string // lines
	round bool     // a circle, not a box
	twice bool     // with a double border
	entry bool     // it is begun at: an arrow comes from nowhere
}

type diagramEdge struct {
	from, to int
	label    []string // lines
	weight   int64    // how often it was taken: says how thick it is
}

// dot is the diagram in the language of Graphviz.
func (d *diagram) dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n", dotString(d.title))
	if !d.down {
		b.WriteString("  rankdir=LR;\n")
	}
	b.WriteString("  node [shape=box style=rounded fontname=\"sans-serif\" fontsize=11];\n  edge [fontname=\"sans-serif\" fontsize=10];\n")
	for i, n := range d.nodes {
		shape := ""
		switch {
		case n.round && n.twice:
			shape = " shape=doublecircle style=solid"
		case n.round:
			shape = " shape=circle style=solid"
		case n.twice:
			shape = " peripheries=2"
		}
		fmt.Fprintf(&b, "  n%d [label=%s%s];\n", i, dotString(strings.Join(n.label, "\n")), shape)
		if n.entry {
			fmt.Fprintf(&b, "  entry%d [shape=point width=0 label=\"\"];\n  entry%d -> n%d;\n", i, i, i)
		}
	}
	heaviest := d.heaviest()
	for _, e := range d.edges {
		fmt.Fprintf(&b, "  n%d -> n%d [", e.from, e.to)
		if len(e.label) > 0 {
			fmt.Fprintf(&b, "label=%s ", dotString(strings.Join(e.label, "\n")))
		}
		fmt.Fprintf(&b, "penwidth=%.3g];\n", thickness(e.weight, heaviest))
	}
	b.WriteString("}\n")
	return b.String()
}

// dotString quotes for Graphviz, where a newline is \n and nothing else but
// quotes and backslashes means anything.
func dotString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// mermaid is the diagram as a flow chart for Markdown.
func (d *diagram) mermaid() string {
	var b strings.Builder
	direction := "LR"
	if d.down {
		direction = "TD"
	}
	fmt.Fprintf(&b, "flowchart %s\n", direction)
	for i, n := range d.nodes {
		open, end := "(", ")"
		switch {
		case n.round && n.twice:
			open, end = "(((", ")))"
		case n.round:
			open, end = "((", "))"
		case n.twice:
			open, end = "[[", "]]"
		}
		fmt.Fprintf(&b, "  n%d%s%s%s\n", i, open, mermaidString(n.label), end)
		if n.entry {
			fmt.Fprintf(&b, "  entry%d(( )) --> n%d\n", i, i)
		}
	}
	for _, e := range d.edges {
		if len(e.label) > 0 {
			fmt.Fprintf(&b, "  n%d -->|%s| n%d\n", e.from, mermaidString(e.label), e.to)
		} else {
			fmt.Fprintf(&b, "  n%d --> n%d\n", e.from, e.to)
		}
	}
	return b.String()
}

// mermaidString quotes lines for Mermaid: what might mean something to it, or
// to the HTML that it makes, becomes a character entity of its own kind.
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

func (d *diagram) heaviest() (w int64) {
	for _, e := range d.edges {
		w = max(w, e.weight)
	}
	return w
}

// thickness is the width of an arrow's line in pixels: 1 to 4, by the logarithm
// of its weight.
func thickness(weight, heaviest int64) float64 {
	if heaviest < 2 || weight < 1 {
		return 1
	}
	return 1 + 3*math.Log(float64(weight))/math.Log(float64(heaviest))
}

// xmlText escapes for the text and the attributes of XML. What XML cannot have
// becomes U+FFFD.
func xmlText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // strings.Builder does not fail
	return b.String()
}

// shortened is text with at most n characters.
func shortened(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}

// pixels is a number of an SVG, to a tenth.
func pixels(x float64) string {
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}
