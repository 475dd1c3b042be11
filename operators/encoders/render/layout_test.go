package render

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "endoscope/operators/optest/seeds" // fixed seeds: the same cases in every run
)

// rectangle is what a shape or a text covers. Texts and shapes of one node belong together.
type rectangle struct {
	x0, y0, x1, y1 float64
	group          int
	what           string
}

func (r rectangle) overlaps(o rectangle) bool {
	const touch = 0.2 // positions are rounded
	return r.x0+touch < o.x1 && o.x0+touch < r.x1 && r.y0+touch < o.y1 && o.y0+touch < r.y1
}

// covered reads an SVG: the rectangles of all nodes and texts, by their groups. It knows only
// SVG, not how the picture was made.
func covered(t interface{ Fatal(...any) }, svg string) (all []rectangle, view rectangle) {
	d := xml.NewDecoder(strings.NewReader(svg))
	group := 0
	number := func(e xml.StartElement, name string) float64 {
		for _, a := range e.Attr {
			if a.Name.Local == name {
				f, err := strconv.ParseFloat(a.Value, 64)
				if err != nil {
					t.Fatal(name, err)
				}
				return f
			}
		}
		return 0
	}
	attribute := func(e xml.StartElement, name string) string {
		for _, a := range e.Attr {
			if a.Name.Local == name {
				return a.Value
			}
		}
		return ""
	}
	var class string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, view
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			if x, ok := token.(xml.EndElement); ok && x.Name.Local == "g" {
				class = ""
			}
			continue
		}
		for _, a := range e.Attr {
			if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
				t.Fatal("attribute", a.Name.Local, "of", e.Name.Local)
			}
		}
		switch e.Name.Local {
		case "script":
			t.Fatal("there is a script")
		case "svg":
			if view.x1 == 0 {
				var x, y, w, h float64
				_, _ = fmt.Sscan(attribute(e, "viewBox"), &x, &y, &w, &h)
				view = rectangle{x0: x, y0: y, x1: x + w, y1: y + h}
			}
		case "g":
			group++
			class = attribute(e, "class")
		case "rect":
			if class == "node" {
				x, y := number(e, "x"), number(e, "y")
				all = append(all, rectangle{x, y, x + number(e, "width"), y + number(e, "height"), group, "node"})
			}
		case "circle":
			if class == "node" {
				x, y, r := number(e, "cx"), number(e, "cy"), number(e, "r")
				all = append(all, rectangle{x - r, y - r, x + r, y + r, group, "node"})
			}
		case "text":
			w := number(e, "textLength")
			if w == 0 {
				continue // the title
			}
			x, y := number(e, "x"), number(e, "y")
			switch attribute(e, "text-anchor") {
			case "middle":
				x -= w / 2
			case "end":
				x -= w
			}
			in := group
			if class == "" {
				group++
				in = group
			}
			all = append(all, rectangle{x, y - 0.75*fontSize, x + w, y + 0.2*fontSize, in, "text " + attribute(e, "class")})
		}
	}
}

// separate fails if a text overlaps another or a node that it does not belong to, if nodes
// overlap, or if anything is outside of the picture.
func separate(t interface{ Fatal(...any) }, svg string) {
	all, view := covered(t, svg)
	for i, r := range all {
		if r.x0 < view.x0 || r.y0 < view.y0 || r.x1 > view.x1 || r.y1 > view.y1 {
			t.Fatal("outside of the picture", r, view)
		}
		for _, o := range all[:i] {
			if r.group != o.group && r.overlaps(o) {
				t.Fatal("overlap: ", fmt.Sprintf("%+v and %+v\n%s", r, o, svg))
			}
		}
	}
}

func anyDiagram(t *rapid.T) *Diagram {
	name := rapid.SampledFrom([]string{"", "a", "read_file", "std::vector<int>::push_back", "写入", "<script>alert(1)</script>", "\x1b[2J\xff\u202e", strings.Repeat("long", 10)})
	d := &Diagram{Title: name.Draw(t, "title"), Down: rapid.Bool().Draw(t, "down"), About: []string{"about"}, Legend: []string{"legend"}}
	for range rapid.IntRange(1, 12).Draw(t, "nodes") {
		n := DiagramNode{Round: rapid.Bool().Draw(t, "round"), Twice: rapid.Bool().Draw(t, "twice"), Entry: rapid.Bool().Draw(t, "entry")}
		n.Label = rapid.SliceOfN(name, 0, 3).Draw(t, "label")
		d.Nodes = append(d.Nodes, n)
	}
	node := rapid.IntRange(0, len(d.Nodes)-1)
	for range rapid.IntRange(0, 24).Draw(t, "edges") {
		d.Edges = append(d.Edges, DiagramEdge{From: node.Draw(t, "from"), To: node.Draw(t, "to"), Label: rapid.SliceOfN(name, 0, 4).Draw(t, "at"),
			Weight: rapid.Int64Range(0, 1000).Draw(t, "weight"), Alarm: rapid.Bool().Draw(t, "alarm")})
	}
	return d
}

// Whatever the graph: no label overlaps another label or a node, and nothing is outside.
func TestNothingOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { separate(t, anyDiagram(t).Svg()) })
}

// A chain is straight, and a layout does not depend on anything but the graph.
func TestLayoutIsStraightAndRepeatable(t *testing.T) {
	d := &Diagram{Title: "chain", Nodes: make([]DiagramNode, 5)}
	for i := range d.Nodes {
		d.Nodes[i] = DiagramNode{Label: []string{fmt.Sprint(i)}}
		if i > 0 {
			d.Edges = append(d.Edges, DiagramEdge{From: i - 1, To: i, Label: []string{"next"}})
		}
	}
	svg := d.Svg()
	if strings.Contains(strings.Split(svg, "</defs>")[1], "C") && strings.Contains(svg, " C") {
		t.Error("a chain is curved", svg)
	}
	all, _ := covered(t, svg)
	var middles []float64
	for _, r := range all {
		if r.what == "node" {
			middles = append(middles, (r.y0+r.y1)/2)
		}
	}
	if len(middles) != 5 || slices.Max(middles)-slices.Min(middles) > 0.2 {
		t.Errorf("nodes of a chain are at heights %v", middles)
	}
	if svg != d.Svg() {
		t.Error("two pictures of one graph differ")
	}
}

// The layout has the fewest crossings where none is needed.
func TestTreesHaveNoCrossings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 30).Draw(t, "nodes")
		nodes, edges := make([]size, n), []DiagramEdge{}
		for i := range nodes {
			nodes[i] = size{10, 10, 10}
			if i > 0 {
				edges = append(edges, DiagramEdge{From: rapid.IntRange(0, i-1).Draw(t, "parent"), To: i})
			}
		}
		if l := arrange(nodes, edges, make([]size, len(edges))); l.crossings() != 0 {
			t.Fatalf("%d crossings in a tree", l.crossings())
		}
	})
}

// A graph whose arrows would pass too many layers is not drawn.
func TestLayoutIsBounded(t *testing.T) {
	d := &Diagram{Title: "long", Nodes: make([]DiagramNode, MostDrawn)}
	for i := range d.Nodes {
		if i > 0 {
			d.Edges = append(d.Edges, DiagramEdge{From: i - 1, To: i}, DiagramEdge{From: 0, To: i})
		}
	}
	if s := d.Svg(); !strings.Contains(s, "are too many to draw") {
		t.Errorf("%d bytes", len(s))
	}
}

func BenchmarkLayout(b *testing.B) {
	d := &Diagram{Title: "large"}
	for i := range 300 {
		d.Nodes = append(d.Nodes, DiagramNode{Label: []string{fmt.Sprint("function_", i)}})
		for _, to := range []int{i*7%300 + 1, i*13%300 + 2} {
			d.Edges = append(d.Edges, DiagramEdge{From: i, To: to % 300, Label: []string{"x"}})
		}
	}
	for b.Loop() {
		_ = d.Svg()
	}
}
