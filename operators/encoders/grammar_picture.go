package encoders

import "fmt"

// diagram is the picture of g: a node for each production, with an arrow to
// each rule that it uses. The productions of a graph of calls show the function
// alone, those of another grammar what they derive.
func (g *Grammar) diagram() *diagram {
	d := &diagram{title: "grammar", down: true, nodes: make([]diagramNode, len(g.ends))}
	if g.options.calls {
		d.title = "graph of calls"
	}
	for p := range g.ends {
		n := &d.nodes[p]
		n.entry = p < g.starts
		if g.options.calls {
			n.label = g.callLabel(p)
		} else {
			n.label = []string{shortened(string(g.appendProduction(nil, p)), 48)}
		}
		g.addUses(d, p)
	}
	return d
}

// addUses adds an arrow for each rule that production p uses, with how often
// it does.
func (g *Grammar) addUses(d *diagram, p int) {
	at := map[uint32]int{}
	for _, it := range g.of(p) {
		if !isRule(it.value) {
			continue
		}
		i, ok := at[it.value]
		if !ok {
			i = len(d.edges)
			at[it.value] = i
			d.edges = append(d.edges, diagramEdge{from: p, to: int(it.value &^ ruleBit)})
		}
		e := &d.edges[i]
		if it.n == 0 { // a long run
			e.label = []string{"*"}
		}
		e.weight += max(it.n, 1)
	}
	for _, i := range at {
		if e := &d.edges[i]; e.label == nil && e.weight > 1 {
			e.label = []string{fmt.Sprintf("×%d", e.weight)}
		}
	}
}

// callLabel is what the node of a call says: the function, how often, and the
// mean time.
func (g *Grammar) callLabel(p int) []string {
	if p < g.starts {
		return []string{string(g.appendRule(nil, p))}
	}
	for _, it := range g.of(p) {
		if !isRule(it.value) && it.value != Return {
			label := []string{shortened(string(appendName(nil, g.names, it.value)), 48)}
			if note := arcNote(&g.stats[p]); note != "" {
				label = append(label, note[1:])
			}
			return label
		}
	}
	return []string{"?"}
}

// Dot implements [Graph].
func (g *Grammar) Dot() string { return g.diagram().dot() }

// Mermaid implements [Graph].
func (g *Grammar) Mermaid() string { return g.diagram().mermaid() }

// SVG implements [Drawing].
func (g *Grammar) SVG() string { return g.diagram().svg() }
