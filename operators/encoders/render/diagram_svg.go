package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// MostDrawn is the largest number of nodes an SVG draws. Larger graphs are unreadable, and
// dot has better layouts.
const MostDrawn = 1500

// Sizes of an SVG, in pixels.
const (
	charWidth  = 6.4 // of the font at fontSize
	fontSize   = 11
	lineHeight = 14.0
	nodeGap    = 26.0
	margin     = 30.0
)

// box is the position of a node: its centre and half of its size.
type box struct {
	x, y, w, h float64
	layer      int
}

// Svg draws the diagram in layers (Sugiyama's method without dummy nodes: within a layer,
// nodes are ordered by the mean position of their neighbours). Backward arrows and arrows
// that skip layers are drawn as curves.
func (d *Diagram) Svg() string {
	if len(d.Nodes) > MostDrawn {
		return svgMessage(fmt.Sprintf("%s: %d nodes are too many to draw; use dot()", d.Title, len(d.Nodes)))
	}
	boxes := d.place()
	var body strings.Builder
	low, high := box{}, box{}
	grow := func(x, y float64) {
		low.x, low.y = min(low.x, x), min(low.y, y)
		high.x, high.y = max(high.x, x), max(high.y, y)
	}
	heaviest := d.heaviest()
	for _, e := range d.Edges {
		d.drawEdge(&body, e, boxes, heaviest, grow)
	}
	for i, n := range d.Nodes {
		c := boxes[i]
		grow(c.x-c.w, c.y-c.h)
		grow(c.x+c.w, c.y+c.h)
		drawNode(&body, n, c)
		if n.Entry {
			from, to := d.turn(-c.w-24, 0), d.turn(-c.w-2, 0)
			if d.Down {
				from, to = [2]float64{0, -c.h - 24}, [2]float64{0, -c.h - 2}
			}
			fmt.Fprintf(&body, `<path d="M%s %sL%s %s" marker-end="url(#a)"/>`+"\n",
				pixels(c.x+from[0]), pixels(c.y+from[1]), pixels(c.x+to[0]), pixels(c.y+to[1]))
		}
	}
	x, y := low.x-margin, low.y-margin
	w, h := high.x-low.x+2*margin, high.y-low.y+2*margin
	return svgOpen(d.Title, x, y, w, h) +
		`<defs><marker id="a" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="#456" stroke="none"/></marker></defs>` +
		"\n<g fill=\"none\" stroke=\"#456\">\n" + body.String() + "</g>\n</svg>\n"
}

// turn converts a step along and across the layers to picture coordinates.
func (d *Diagram) turn(along, across float64) [2]float64 {
	if d.Down {
		return [2]float64{across, along}
	}
	return [2]float64{along, across}
}

// place computes the positions of the nodes.
func (d *Diagram) place() []box {
	boxes := make([]box, len(d.Nodes))
	for i, n := range d.Nodes {
		boxes[i].w, boxes[i].h = charWidth*float64(widest(n.Label))/2+8, lineHeight*float64(len(n.Label))/2+5
		if n.Round {
			r := max(boxes[i].w, boxes[i].h)
			boxes[i].w, boxes[i].h = r, r
		}
	}
	layers := d.layers()
	for l, layer := range layers {
		for _, n := range layer {
			boxes[n].layer = l
		}
	}
	d.order(layers)
	// The gap between two layers has room for the labels of its arrows.
	gaps := make([]float64, len(layers))
	for i := range gaps {
		gaps[i] = 50
	}
	loops := make([]float64, len(layers))
	for _, e := range d.Edges {
		room := 0.0
		if len(e.Label) > 0 {
			room = charWidth*float64(widest(e.Label)) + 40
		}
		if d.Down {
			room = lineHeight*float64(len(e.Label)) + 30
		}
		g := min(boxes[e.From].layer, boxes[e.To].layer)
		if e.From == e.To && !d.Down {
			loops[g] = max(loops[g], charWidth*float64(widest(e.Label)))
			continue
		}
		gaps[g] = max(gaps[g], room)
	}
	// The label of a loop is above its node, next to the labels of the arrows.
	for i, w := range loops {
		gaps[i] += w
		if i > 0 {
			gaps[i-1] += w
		}
	}
	at := 0.0
	for i, layer := range layers {
		thick, wide := 0.0, -nodeGap
		for _, n := range layer {
			along, across := d.turned(boxes[n])
			thick = max(thick, along)
			wide += 2*across + nodeGap
		}
		across := -wide / 2
		for _, n := range layer {
			_, half := d.turned(boxes[n])
			p := d.turn(at+thick, across+half)
			boxes[n].x, boxes[n].y = p[0], p[1]
			across += 2*half + nodeGap
		}
		at += 2*thick + gaps[i]
	}
	return boxes
}

// widest returns the length of the longest line in characters.
func widest(lines []string) (n int) {
	for _, l := range lines {
		n = max(n, len([]rune(l)))
	}
	return n
}

// turned returns half the size of a box along and across the layers.
func (d *Diagram) turned(b box) (along, across float64) {
	if d.Down {
		return b.h, b.w
	}
	return b.w, b.h
}

// layers groups the nodes by distance from the entries: by the longest path, so that all
// arrows point forward, or, if the graph has a cycle, by the shortest.
func (d *Diagram) layers() [][]int {
	next := make([][]int, len(d.Nodes))
	for _, e := range d.Edges {
		next[e.From] = append(next[e.From], e.To)
	}
	if layers := d.descending(next); layers != nil {
		return layers
	}
	seen := make([]bool, len(d.Nodes))
	var layers [][]int
	var layer []int
	enter := func(n int) {
		if !seen[n] {
			seen[n] = true
			layer = append(layer, n)
		}
	}
	for n := range d.Nodes {
		if d.Nodes[n].Entry {
			enter(n)
		}
	}
	for unseen := 0; ; {
		for len(layer) > 0 {
			last := layer
			layers, layer = append(layers, layer), nil
			for _, n := range last {
				for _, to := range next[n] {
					enter(to)
				}
			}
		}
		for unseen < len(seen) && seen[unseen] {
			unseen++
		}
		if unseen == len(seen) {
			return layers
		}
		enter(unseen)
	}
}

// descending returns layers in which all arrows lead to later layers, or nil if the graph
// has a cycle.
func (d *Diagram) descending(next [][]int) (layers [][]int) {
	above := make([]int, len(d.Nodes)) // arrows from nodes without a layer yet
	for _, e := range d.Edges {
		above[e.To]++
	}
	var layer []int
	for n, arrows := range above {
		if arrows == 0 {
			layer = append(layer, n)
		}
	}
	placed := 0
	for len(layer) > 0 {
		layers = append(layers, layer)
		placed += len(layer)
		var below []int
		for _, n := range layer {
			for _, to := range next[n] {
				if above[to]--; above[to] == 0 {
					below = append(below, to)
				}
			}
		}
		layer = below
	}
	if placed < len(d.Nodes) {
		return nil
	}
	return layers
}

// order sorts each layer by the positions of its nodes' neighbours in the adjacent layers.
func (d *Diagram) order(layers [][]int) {
	place := make([]float64, len(d.Nodes))
	where := make([]int, len(d.Nodes))
	settle := func(l int) {
		for i, n := range layers[l] {
			place[n] = float64(i) - float64(len(layers[l])-1)/2
			where[n] = l
		}
	}
	for l := range layers {
		settle(l)
	}
	beside := make([][]int, len(d.Nodes))
	for _, e := range d.Edges {
		if where[e.From] != where[e.To] {
			beside[e.From] = append(beside[e.From], e.To)
			beside[e.To] = append(beside[e.To], e.From)
		}
	}
	const sweeps = 4
	mean := make([]float64, len(d.Nodes))
	for range sweeps {
		for l := range layers {
			for _, n := range layers[l] {
				mean[n] = place[n]
				for _, m := range beside[n] {
					mean[n] += place[m]
				}
				mean[n] /= float64(1 + len(beside[n]))
			}
			slices.SortStableFunc(layers[l], func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
			settle(l)
		}
	}
}

func drawNode(b *strings.Builder, n DiagramNode, c box) {
	border := func(grow float64) {
		if n.Round {
			fmt.Fprintf(b, `<circle cx="%s" cy="%s" r="%s" fill="#f4f7fa"/>`+"\n", pixels(c.x), pixels(c.y), pixels(c.w+grow))
		} else {
			fmt.Fprintf(b, `<rect x="%s" y="%s" width="%s" height="%s" rx="4" fill="#f4f7fa"/>`+"\n",
				pixels(c.x-c.w-grow), pixels(c.y-c.h-grow), pixels(2*(c.w+grow)), pixels(2*(c.h+grow)))
		}
	}
	border(0)
	if n.Twice {
		border(-3)
	}
	drawLines(b, n.Label, c.x, c.y)
}

// drawLines writes lines of text centred at a point.
func drawLines(b *strings.Builder, lines []string, x, y float64) {
	y -= lineHeight * float64(len(lines)-1) / 2
	for i, l := range lines {
		fmt.Fprintf(b, `<text x="%s" y="%s">%s</text>`+"\n", pixels(x), pixels(y+lineHeight*float64(i)+fontSize*0.35), xmlText(l))
	}
}

func (d *Diagram) drawEdge(b *strings.Builder, e DiagramEdge, boxes []box, heaviest int64, grow func(x, y float64)) {
	from, to := boxes[e.From], boxes[e.To]
	width := thickness(e.Weight, heaviest)
	half, tall := charWidth*float64(widest(e.Label))/2, lineHeight*float64(len(e.Label))/2
	label := func(x, y float64) {
		grow(x-half, y-tall)
		grow(x+half, y+tall)
		drawLines(b, e.Label, x, y)
	}
	if e.From == e.To { // a loop above the node
		top := from.y - from.h
		if from.h == from.w {
			top = from.y - from.h*0.8
		}
		fmt.Fprintf(b, `<path d="M%s %sC%s %s %s %s %s %s" stroke-width="%.3g" marker-end="url(#a)"/>`+"\n",
			pixels(from.x-7), pixels(top), pixels(from.x-22), pixels(top-32), pixels(from.x+22), pixels(top-32), pixels(from.x+7), pixels(top), width)
		label(from.x, top-26-tall)
		return
	}
	// Bend the line if it would cross nodes in between or overlap the arrow of the opposite
	// direction.
	dx, dy := to.x-from.x, to.y-from.y
	length := math.Hypot(dx, dy)
	bend := 0.0
	switch span := to.layer - from.layer; {
	case span < 0:
		bend = 28 + 14*float64(-span)
	case span == 0:
		bend = 30
	case span > 1:
		bend = 12 + 14*float64(span)
	case d.mutual(e):
		bend = 16
	}
	mx, my := (from.x+to.x)/2+dy/length*bend, (from.y+to.y)/2-dx/length*bend
	x1, y1 := leave(from, mx, my)
	x2, y2 := leave(to, mx, my)
	// The control point of a curve through the middle.
	cx, cy := 2*mx-(x1+x2)/2, 2*my-(y1+y2)/2
	fmt.Fprintf(b, `<path d="M%s %sQ%s %s %s %s" stroke-width="%.3g" marker-end="url(#a)"/>`+"\n",
		pixels(x1), pixels(y1), pixels(cx), pixels(cy), pixels(x2), pixels(y2), width)
	grow(mx, my)
	aside, above := 0.0, -1.0 // the label is on the outer side of a bend
	if bend > 0 {
		aside, above = dy/length, -dx/length
	}
	label(mx+aside*(half+4), my+above*(tall+4))
}

// mutual reports whether there is an arrow opposite to e.
func (d *Diagram) mutual(e DiagramEdge) bool {
	return slices.ContainsFunc(d.Edges, func(o DiagramEdge) bool { return o.From == e.To && o.To == e.From })
}

// leave returns the point where a line from the centre of a box to (x, y) crosses the
// border of the box.
func leave(b box, x, y float64) (float64, float64) {
	dx, dy := x-b.x, y-b.y
	if dx == 0 && dy == 0 {
		return b.x, b.y
	}
	if b.w == b.h { // a circle
		l := math.Hypot(dx, dy)
		return b.x + dx/l*b.w, b.y + dy/l*b.w
	}
	t := 1.0
	if dx != 0 {
		t = min(t, b.w/math.Abs(dx))
	}
	if dy != 0 {
		t = min(t, b.h/math.Abs(dy))
	}
	return b.x + dx*t, b.y + dy*t
}

// svgOpen writes the start of a picture of w by h pixels with upper left corner x, y.
func svgOpen(title string, x, y, w, h float64) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="%s %s %s %s" width="%s" height="%s" font-family="sans-serif" font-size="%d">
<title>%s</title>
<style>text{text-anchor:middle;fill:#123;stroke:#fff;stroke-width:3px;paint-order:stroke}</style>
<rect x="%s" y="%s" width="%s" height="%s" fill="#fff"/>
`, pixels(x), pixels(y), pixels(w), pixels(h), pixels(w), pixels(h), fontSize, xmlText(title), pixels(x), pixels(y), pixels(w), pixels(h))
}

// svgMessage returns a picture that shows a message.
func svgMessage(text string) string {
	w := charWidth*float64(len([]rune(text))) + 2*margin
	var b strings.Builder
	drawLines(&b, []string{text}, w/2, 30)
	return svgOpen(text, 0, 0, w, 60) + b.String() + "</svg>\n"
}
