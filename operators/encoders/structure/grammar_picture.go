package structure

import (
	"fmt"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/render"
)

// diagram draws the grammar: a node per production, and an arrow to each rule it uses. A
// node of a DAG of calls shows the function only, that of any other grammar the right-hand
// side.
func (g *Grammar) diagram() *render.Diagram {
	d := &render.Diagram{Title: "grammar", Down: true, Nodes: make([]render.DiagramNode, len(g.ends)), About: g.About(),
		Legend: []string{"box: a rule; arrow: a rule that it uses, how often (×)"}}
	if g.options.calls {
		d.Title = "graph of calls"
		d.Legend = []string{"box: a function with its callees, how often (×), mean time; arrow: a call"}
	}
	for p := range g.ends {
		n := &d.Nodes[p]
		n.Entry = p < g.starts
		if g.options.calls {
			n.Label = g.callLabel(p)
		} else {
			n.Label = []string{render.Shortened(string(g.appendProduction(nil, p)), 48)}
		}
		g.addUses(d, p)
	}
	return d
}

// addUses adds an arrow for each rule that production p uses, with the number of uses.
func (g *Grammar) addUses(d *render.Diagram, p int) {
	at := map[uint32]int{}
	for _, it := range g.rightSide(p) {
		if !isRule(it.value) {
			continue
		}
		i, ok := at[it.value]
		if !ok {
			i = len(d.Edges)
			at[it.value] = i
			d.Edges = append(d.Edges, render.DiagramEdge{From: p, To: int(it.value &^ ruleBit)})
		}
		e := &d.Edges[i]
		if it.n == 0 { // a long run
			e.Label = []string{"*"}
		}
		e.Weight += max(it.n, 1)
	}
	for _, i := range at {
		if e := &d.Edges[i]; e.Label == nil && e.Weight > 1 {
			e.Label = []string{fmt.Sprintf("×%d", e.Weight)}
		}
	}
}

// callLabel returns the label of a call's node: function, count and mean time.
func (g *Grammar) callLabel(p int) []string {
	if p < g.starts {
		return []string{string(g.appendRule(nil, p))}
	}
	for _, it := range g.rightSide(p) {
		if !isRule(it.value) && it.value != encoders.Return {
			label := []string{render.Shortened(string(encoders.AppendName(nil, g.names, it.value)), 48)}
			if note := encoders.ArcNote(&g.stats[p]); note != "" {
				label = append(label, note[1:])
			}
			return label
		}
	}
	return []string{"?"}
}

func (g *Grammar) Dot() string { return g.diagram().Dot() }

func (g *Grammar) Mermaid() string { return g.diagram().Mermaid() }

func (g *Grammar) SVG() string { return g.diagram().Svg() }
