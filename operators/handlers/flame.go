package handlers

import (
	"fmt"

	"endoscope/operators/encoders/render"
)

// colours are the colours of states; a frame has the colour of its most frequent state.
var colours = [numStates]string{Run: "#e8833a", Wait: "#b7bfc7", IO: "#6fb1e4", Blocked: "#cf86c1", Output: "#8fd0ec"}

var legend = [numStates]string{Run: "runs", Wait: "waits", IO: "reads", Blocked: "is blocked", Output: "writes"}

// SVG returns a flame graph of all functions: the width is the number of samples, and the
// colour is the most frequent state of the function and its callees. Where scripts run, a
// click on a function zooms to it.
func (p *Profile) SVG() string {
	a := analysis{subtree: map[*Node]Counts{}}
	all := a.sum(&p.whole.root)
	f := render.Flame{
		Title: "flame graph", About: []string{fmt.Sprintf("%d samples", p.whole.Samples)}, Root: flameOf(&a, &p.whole.root),
		Unit: func(x float64) string { return fmt.Sprintf("%.0f samples", x) },
	}
	if p.whole.Folded > 0 {
		f.About[0] += fmt.Sprintf("; the innermost functions of %d are left out: there were too many", p.whole.Folded)
	}
	for s, colour := range colours {
		if all[s] > 0 {
			f.Keys = append(f.Keys, render.FlameKey{Colour: colour, Text: legend[s]})
		}
	}
	return f.Svg(true)
}

func flameOf(a *analysis, n *Node) *render.FlameFrame {
	c := a.all(n)
	most := Run
	for s := range c {
		if c[s] > c[most] {
			most = State(s)
		}
	}
	f := &render.FlameFrame{Name: n.Name.Function, Tip: fmt.Sprint(n.Name.Module, c), Value: float64(c.Total() + c[Blocked]), Colour: colours[most]}
	if n.Name == (Name{}) {
		f.Name = "all"
	}
	for _, child := range n.Children() {
		f.Children = append(f.Children, flameOf(a, child))
	}
	return f
}
