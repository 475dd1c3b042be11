package structure

import (
	"fmt"
	"strconv"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/render"
)

// mostLabels is the largest number of symbols written at one arrow.
const mostLabels = 6

// diagram draws the automaton; the arcs between two states are one arrow.
func (a *Automaton) diagram() *render.Diagram {
	d := &render.Diagram{Title: "automaton", Nodes: make([]render.DiagramNode, a.States()), About: a.About(),
		Legend: []string{"circle: a state; double circle: the end; arrow: a token, how often (×), mean time; thicker: more often"}}
	for q := range d.Nodes {
		d.Nodes[q] = render.DiagramNode{Label: []string{strconv.Itoa(q)}, Round: true}
	}
	d.Nodes[0].Entry = true
	d.Nodes[a.Final()].Twice = true
	at := map[[2]int]int{}
	left := map[int]int{} // by edge: arcs without a label
	for _, l := range a.Arcs() {
		pair := [2]int{l.From, l.To}
		i, ok := at[pair]
		if !ok {
			i = len(d.Edges)
			at[pair] = i
			d.Edges = append(d.Edges, render.DiagramEdge{From: l.From, To: l.To})
		}
		e := &d.Edges[i]
		e.Weight += l.Stats.Count
		if len(e.Label) == mostLabels {
			left[i]++
			continue
		}
		e.Label = append(e.Label, render.Shortened(l.Name, 40)+encoders.ArcNote(&l.Stats))
	}
	for i, n := range left {
		d.Edges[i].Label = append(d.Edges[i].Label, fmt.Sprintf("and %d more", n))
	}
	return d
}

func (a *Automaton) Dot() string { return a.diagram().Dot() }

func (a *Automaton) Mermaid() string { return a.diagram().Mermaid() }

func (a *Automaton) SVG() string { return a.diagram().Svg() }
