package encoders

import (
	"fmt"
	"strconv"
)

// mostLabels is how many symbols a picture writes at one arrow.
const mostLabels = 6

// diagram is the picture of a: the arcs between two states are one arrow.
func (a *Automaton) diagram() *diagram {
	d := &diagram{title: "automaton", nodes: make([]diagramNode, a.States())}
	for q := range d.nodes {
		d.nodes[q] = diagramNode{label: []string{strconv.Itoa(q)}, round: true}
	}
	d.nodes[0].entry = true
	d.nodes[a.Final()].twice = true
	at := map[[2]int]int{}
	left := map[int]int{} // by edge: arcs without a label
	for _, l := range a.Arcs() {
		pair := [2]int{l.From, l.To}
		i, ok := at[pair]
		if !ok {
			i = len(d.edges)
			at[pair] = i
			d.edges = append(d.edges, diagramEdge{from: l.From, to: l.To})
		}
		e := &d.edges[i]
		e.weight += l.Stats.Count
		if len(e.label) == mostLabels {
			left[i]++
			continue
		}
		e.label = append(e.label, shortened(l.Name, 40)+arcNote(&l.Stats))
	}
	for i, n := range left {
		d.edges[i].label = append(d.edges[i].label, fmt.Sprintf("and %d more", n))
	}
	return d
}

// arcNote is how often, and the mean time where it is known.
func arcNote(s *Stats) string {
	note := ""
	if s.Count != 1 {
		note = fmt.Sprintf(" ×%d", s.Count)
	}
	if s.Timed > 0 {
		note += " " + shortTime(s.Mean())
	}
	return note
}

// shortTime is a time in ns with three digits and a unit.
func shortTime(ns float64) string {
	units := []string{"ns", "µs", "ms", "s"}
	i := 0
	for i < len(units)-1 && (ns >= 999.5 || ns <= -999.5) {
		ns /= 1000
		i++
	}
	return strconv.FormatFloat(ns, 'g', 3, 64) + units[i]
}

// shortBytes is a number of bytes with three digits and a unit.
func shortBytes(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for i < len(units)-1 && n >= 1023.5 {
		n /= 1024
		i++
	}
	return strconv.FormatFloat(n, 'g', 4, 64) + units[i]
}

// Dot implements [Graph].
func (a *Automaton) Dot() string { return a.diagram().dot() }

// Mermaid implements [Graph].
func (a *Automaton) Mermaid() string { return a.diagram().mermaid() }

// SVG implements [Drawing].
func (a *Automaton) SVG() string { return a.diagram().svg() }
