package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// MostDrawn is the largest number of nodes an SVG draws. Larger graphs are unreadable.
const MostDrawn = 1500

// Svg draws the diagram in layers.
func (d *Diagram) Svg() string {
	if len(d.Nodes) > MostDrawn || len(d.Edges) > mostPlaced {
		return d.tooLarge()
	}
	s := drawing{d: d, picture: picture{title: d.Title, about: d.About, legend: d.Legend, defs: arrowHeads}}
	return s.svg()
}

func (d *Diagram) tooLarge() string {
	return Message(d.Title, fmt.Sprintf("%d nodes and %d arrows are too many to draw; use dot()", len(d.Nodes), len(d.Edges)))
}

const arrowHeads = `<defs>` +
	`<marker id="ep-a" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path class="ep-head" d="M0 0.5L8 4L0 7.5z" fill="#456179"/></marker>` +
	`<marker id="ep-b" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path class="ep-alarm-head" d="M0 0.5L8 4L0 7.5z" fill="#c62828"/></marker>` +
	"</defs>\n"

// drawing is a diagram that is being drawn. Layers go along one axis; across is the other.
type drawing struct {
	picture
	d        *Diagram
	l        *layout
	heaviest int64
	half     []size     // half of the size of each node's shape; low and high are equal
	loops    [][]int    // edges of a node to itself
	ports    []portPair // by edge: where it leaves and enters, across, from the node's position
}

type portPair struct{ from, to float64 }

func (s *drawing) svg() string {
	d := s.d
	s.heaviest = d.heaviest()
	s.loops = make([][]int, len(d.Nodes))
	labels := make([]size, len(d.Edges))
	for i, e := range d.Edges {
		if e.From == e.To {
			s.loops[e.From] = append(s.loops[e.From], i)
		} else if len(e.Label) > 0 {
			labels[i] = s.labelSize(e.Label)
		}
	}
	sizes := make([]size, len(d.Nodes))
	for i := range d.Nodes {
		sizes[i] = s.nodeSize(i)
	}
	if s.l = arrange(sizes, d.Edges, labels); s.l == nil {
		return d.tooLarge()
	}
	s.findPorts()
	for i := range d.Edges {
		s.edge(i)
	}
	for i := range d.Nodes {
		s.node(i)
	}
	return s.String()
}

// xy turns a position along and across the layers to one of the picture.
func (s *drawing) xy(along, across float64) (x, y float64) {
	if s.d.Down {
		return across, along
	}
	return along, across
}

func (s *drawing) point(along, across float64) string {
	x, y := s.xy(along, across)
	return pixels(x) + " " + pixels(y)
}

// labelSize is the size of a label that lies beside its arrow: above one that goes to the
// right, to the right of one that goes down.
func (s *drawing) labelSize(lines []string) size {
	w, h := widest(lines), lineHeight*float64(len(lines))
	if s.d.Down {
		return size{along: h/2 + 1, low: 3, high: w + 7}
	}
	return size{along: w/2 + 2, low: h + 3, high: 3}
}

// nodeSize sets the shape of a node, and returns the room that it needs with its loop.
func (s *drawing) nodeSize(i int) size {
	n := &s.d.Nodes[i]
	w, h := widest(n.Label)/2+8, lineHeight*float64(len(n.Label))/2+5
	if n.Round {
		r := math.Hypot(w-6, h-3) + 2
		w, h = r, r
	}
	if n.Twice {
		w, h = w+3, h+3
	}
	shape := size{w, h, h}
	if s.d.Down {
		shape = size{h, w, w}
	}
	s.half = append(s.half, shape)
	out := shape
	if lines := s.loopLabel(i); len(s.loops[i]) > 0 {
		wide, high := widest(lines), lineHeight*float64(len(lines))
		if s.d.Down {
			out.high += loopRoom + wide + 4
			out.along = max(out.along, high/2+1, 16)
		} else {
			out.low += loopRoom + high
			out.along = max(out.along, wide/2+2, 24)
		}
	}
	return out
}

// loopLabel returns the lines at the loop of a node; several loops are drawn as one.
func (s *drawing) loopLabel(node int) (lines []string) {
	for _, e := range s.loops[node] {
		lines = append(lines, s.d.Edges[e].Label...)
	}
	return lines
}

// findPorts spreads the arrows at each side of a node, in the order in which they go on.
func (s *drawing) findPorts() {
	s.ports = make([]portPair, len(s.l.routes))
	type end struct {
		edge  int
		first bool
		at    float64
	}
	sides := map[[2]int][]end{} // by node and side
	for i, r := range s.l.routes {
		if n := len(r.items); n > 0 {
			from, to := [2]int{r.items[0], 1}, [2]int{r.items[n-1], 0}
			sides[from] = append(sides[from], end{i, true, s.l.items[r.items[1]].at})
			sides[to] = append(sides[to], end{i, false, s.l.items[r.items[n-2]].at})
		}
	}
	for side, ends := range sides {
		slices.SortStableFunc(ends, func(a, b end) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.edge, b.edge)) })
		room := 1.3 * s.half[side[0]].low
		step := min(12, room/float64(len(ends)))
		for i, e := range ends {
			at := (float64(i) - float64(len(ends)-1)/2) * step
			if e.first {
				s.ports[e.edge].from = at
			} else {
				s.ports[e.edge].to = at
			}
		}
	}
}

// border returns how far from the middle of a node its border is, along the layers, at a
// distance across.
func (s *drawing) border(node int, across float64) float64 {
	half := s.half[node].along
	if s.d.Nodes[node].Round {
		return math.Sqrt(max(0, half*half-across*across))
	}
	return half
}

func (s *drawing) edge(i int) {
	e, r := &s.d.Edges[i], &s.l.routes[i]
	if len(r.items) == 0 {
		return // a loop, drawn with its node
	}
	items := s.l.items
	last := len(r.items) - 1
	from, to := &items[r.items[0]], &items[r.items[last]]
	// The line is straight in its layers and curved between them.
	across := from.at + s.ports[i].from
	along := from.along + s.border(from.node, s.ports[i].from)
	points := [][2]float64{{along, across}}
	straight := []bool{}
	add := func(along, across float64, line bool) {
		points = append(points, [2]float64{along, across})
		straight = append(straight, line)
	}
	add(s.l.ends[from.layer], across, true)
	for _, k := range r.items[1:last] {
		it := &items[k]
		add(s.l.starts[it.layer], it.at, false)
		add(s.l.ends[it.layer], it.at, true)
		s.needs(it.along, it.at)
	}
	across = to.at + s.ports[i].to
	add(s.l.starts[to.layer], across, false)
	add(to.along-s.border(to.node, s.ports[i].to), across, true)
	if r.turned {
		slices.Reverse(points)
		slices.Reverse(straight)
	}
	var path strings.Builder
	path.WriteString("M" + s.point(points[0][0], points[0][1]))
	for k, line := range straight {
		a, b := points[k], points[k+1]
		if line && math.Abs(a[0]-b[0]) < 0.5 {
			continue // the arrow's head would have no direction
		}
		if line || math.Abs(a[1]-b[1]) < 0.5 {
			path.WriteString("L" + s.point(b[0], b[1]))
			continue
		}
		middle := (a[0] + b[0]) / 2
		path.WriteString("C" + s.point(middle, a[1]) + " " + s.point(middle, b[1]) + " " + s.point(b[0], b[1]))
	}
	s.printf(`<g class="edge"><title>%s</title>%s`+"\n", xmlText(s.edgeTip(e)), s.line(path.String(), e))
	if r.label >= 0 {
		it := &items[r.label]
		if s.d.Down {
			s.lines(e.Label, it.at+5, it.along, "start", "label")
		} else {
			s.lines(e.Label, it.along, it.at-lineHeight*float64(len(e.Label))/2-2, "middle", "label")
		}
	}
	s.printf("</g>\n")
}

// edgeTip is the text that appears when the pointer rests on an arrow.
func (s *drawing) edgeTip(e *DiagramEdge) string {
	name := func(n int) string { return strings.Join(s.d.Nodes[n].Label, " ") }
	tip := name(e.From) + " → " + name(e.To)
	if e.Weight > 0 {
		tip += fmt.Sprintf(", %d times", e.Weight)
	}
	return strings.Join(append([]string{tip}, e.Label...), "\n")
}

func (s *drawing) line(path string, e *DiagramEdge) string {
	class, colour, head := "ep-line", "#456179", "ep-a"
	if e.Alarm {
		class, colour, head = "ep-alarm", "#c62828", "ep-b"
	}
	return fmt.Sprintf(`<path class="%s" d="%s" fill="none" stroke="%s" stroke-width="%.3g" marker-end="url(#%s)"/>`, class, path, colour, thickness(e.Weight, s.heaviest), head)
}

// lines writes lines of text around the height y.
func (s *drawing) lines(lines []string, x, y float64, anchor, class string) {
	y -= lineHeight * float64(len(lines)) / 2
	w := widest(lines)
	left := x - w/2
	if anchor == "start" {
		left = x
	}
	s.need(left, y, left+w, y+lineHeight*float64(len(lines)))
	for i, l := range lines {
		s.text(x, y+lineHeight*float64(i)+fontSize-0.5, anchor, class, l)
	}
}

func (s *drawing) needs(along, across float64) {
	x, y := s.xy(along, across)
	s.need(x, y, x, y)
}

func (s *drawing) node(i int) {
	n, it, half := &s.d.Nodes[i], &s.l.items[i], s.half[i]
	x, y := s.xy(it.along, it.at)
	w, h := s.xy(half.along, half.low)
	s.need(x-w-2, y-h-2, x+w+2, y+h+2)
	tip := n.Tip
	if tip == "" {
		tip = strings.Join(n.Label, "\n")
	}
	s.printf(`<g class="node"><title>%s</title>`, xmlText(tip))
	s.shape(n, x, y, w, h)
	if n.Twice {
		s.shape(n, x, y, w-3, h-3)
	}
	s.printf("\n")
	s.lines(n.Label, x, y, "middle", "text")
	s.printf("</g>\n")
	if n.Entry {
		s.entry(i)
	}
	if len(s.loops[i]) > 0 {
		s.loop(i, x, y, w, h)
	}
}

func (s *drawing) shape(n *DiagramNode, x, y, w, h float64) {
	if n.Round {
		s.printf(`<circle class="ep-node" cx="%s" cy="%s" r="%s" fill="#eef3f8" stroke="#456179"/>`, pixels(x), pixels(y), pixels(w))
		return
	}
	s.printf(`<rect class="ep-node" x="%s" y="%s" width="%s" height="%s" rx="4" fill="#eef3f8" stroke="#456179"/>`, pixels(x-w), pixels(y-h), pixels(2*w), pixels(2*h))
}

// entry draws an arrow without a source.
func (s *drawing) entry(i int) {
	it := &s.l.items[i]
	to := it.along - s.half[i].along
	s.needs(to-22, it.at)
	s.printf("%s\n", s.line("M"+s.point(to-20, it.at)+"L"+s.point(to-1, it.at), &DiagramEdge{}))
}

// loop draws the arrow of a node to itself: above it, or on its right.
func (s *drawing) loop(i int, x, y, w, h float64) {
	e := s.d.Edges[s.loops[i][0]]
	for _, k := range s.loops[i][1:] {
		e.Weight += s.d.Edges[k].Weight
	}
	e.Label = s.loopLabel(i)
	s.printf(`<g class="edge"><title>%s</title>`, xmlText(s.edgeTip(&e)))
	spread := min(8, 0.6*w)
	if s.d.Down {
		spread = min(6, 0.6*h)
		side := x + w
		s.printf("%s\n", s.line(fmt.Sprintf("M%s %sC%s %s %s %s %s %s", pixels(side), pixels(y-spread), pixels(side+loopRoom), pixels(y-spread-8),
			pixels(side+loopRoom), pixels(y+spread+8), pixels(side), pixels(y+spread)), &e))
		s.need(side, y-spread-8, side+loopRoom, y+spread+8)
		s.lines(e.Label, side+loopRoom, y, "start", "label")
	} else {
		top := y - h
		if s.d.Nodes[i].Round {
			top = y - math.Sqrt(max(0, h*h-spread*spread))
		}
		s.printf("%s\n", s.line(fmt.Sprintf("M%s %sC%s %s %s %s %s %s", pixels(x-spread), pixels(top), pixels(x-spread-14), pixels(top-loopRoom),
			pixels(x+spread+14), pixels(top-loopRoom), pixels(x+spread), pixels(top)), &e))
		s.need(x-spread-14, top-loopRoom, x+spread+14, top)
		s.lines(e.Label, x, y-h-loopRoom+4-lineHeight*float64(len(e.Label))/2, "middle", "label")
	}
	s.printf("</g>\n")
}
