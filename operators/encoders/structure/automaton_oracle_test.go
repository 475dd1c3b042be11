package structure

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
	_ "endoscope/operators/optest/seeds" // the same cases in every run
)

// naive is the algorithm as described in the paper: a list of arcs, and a list of
// the names of states after the merges so far.
type naive struct {
	o    AutomatonOptions
	name []int // by state; state 0 is the start, 1 where END leads
	arcs []naiveArc
}

type naiveArc struct {
	from   int
	symbol string
	to     int
}

func (n *naive) state() int {
	n.name = append(n.name, len(n.name))
	return len(n.name) - 1
}

// goes returns the state after q on x, or -1.
func (n *naive) goes(q int, x string) int {
	for _, a := range n.arcs {
		if n.name[a.from] == n.name[q] && a.symbol == x {
			return n.name[a.to]
		}
	}
	return -1
}

// merge merges p and q, and then the states that must be merged for the result to
// be deterministic.
func (n *naive) merge(p, q int) {
	p, q = n.name[p], n.name[q]
	for s, name := range n.name {
		if name == q {
			n.name[s] = p
		}
	}
	for _, a := range n.arcs {
		if to := n.goes(a.from, a.symbol); to != n.name[a.to] {
			n.merge(to, a.to)
		}
	}
}

// read reads one sequence, from a start of its own, which it returns. tails
// are those of this sequence alone.
func (n *naive) read(sequence string, tails map[string]int) int {
	s := strings.Fields(sequence)
	cut := len(s) > 0 && s[len(s)-1] == "..."
	if cut {
		s = s[:len(s)-1]
	}
	padded := slices.Clone(s)
	if !cut {
		padded = append(padded, slices.Repeat([]string{"END"}, n.o.K)...)
	}
	start := n.state()
	q := start
	for i := -1; i < len(s); i++ {
		to := start
		if i >= 0 {
			to = n.goes(q, s[i])
			if to < 0 && !n.o.NoLoops && i > 0 && s[i-1] == s[i] {
				to = q
			}
		}
		if n.o.Rule == Shared && i+1+n.o.K <= len(padded) {
			tail := strings.Join(padded[i+1:i+1+n.o.K], " ")
			if have, ok := tails[tail]; ok {
				to = have
			} else if to < 0 {
				to = n.state()
			}
			tails[tail] = to
		} else if to < 0 {
			to = n.state()
		}
		if i >= 0 {
			n.arcs = append(n.arcs, naiveArc{q, s[i], to})
			n.merge(to, to)
		}
		q = to
	}
	if !cut {
		n.arcs = append(n.arcs, naiveArc{q, "END", 1})
	}
	return start
}

// paths returns the sequences of k symbols from q. The end is followed by itself.
func (n *naive) paths(q, k int) []string {
	if k == 0 {
		return []string{""}
	}
	if n.name[q] == 1 {
		return []string{strings.Repeat("END ", k)}
	}
	var all []string
	for _, a := range n.arcs {
		if n.name[a.from] != n.name[q] {
			continue
		}
		for _, p := range n.paths(a.to, k-1) {
			all = append(all, a.symbol+" "+p)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// one reports whether the rule merges p and q.
func (n *naive) one(p, q int, of map[int][]string) bool {
	common, heeded := 0, 0
	for _, path := range of[p] {
		if !slices.Contains(of[q], path) {
			continue
		}
		common++
		x, _, _ := strings.Cut(path, " ")
		to := n.goes(p, x)
		if n.o.NoLoops || to != n.goes(q, x) || to != p && to != q {
			heeded++
		}
	}
	switch n.o.Rule {
	case Included:
		return heeded > 0 && (common == len(of[p]) || common == len(of[q]))
	case Equal:
		return heeded > 0 && common == len(of[p]) && common == len(of[q])
	}
	return heeded > 0
}

// states are those that were not merged into others, but for the final one.
func (n *naive) states() (all []int) {
	for s, name := range n.name {
		if s == name && s != 1 {
			all = append(all, s)
		}
	}
	return all
}

// distinguish returns the pairs of states that accept different sequences.
func (n *naive) distinguish() map[[2]int]bool {
	unlike := map[[2]int]bool{}
	all := append(n.states(), 1)
	symbols := map[string]bool{}
	for _, a := range n.arcs {
		symbols[a.symbol] = true
	}
	for changed := true; changed; {
		changed = false
		for _, p := range all {
			for _, q := range all {
				if p == q || unlike[[2]int{p, q}] {
					continue
				}
				differ := p == 1 || q == 1
				for x := range symbols {
					a, b := n.goes(p, x), n.goes(q, x)
					differ = differ || (a < 0) != (b < 0) || a >= 0 && unlike[[2]int{a, b}]
				}
				if differ {
					unlike[[2]int{p, q}], unlike[[2]int{q, p}] = true, true
					changed = true
				}
			}
		}
	}
	return unlike
}

func naiveAutomaton(o AutomatonOptions, sequences []string) *naive {
	n := &naive{o: o}
	n.state()
	n.state()
	first := map[string]int{}
	for _, s := range sequences {
		tails := map[string]int{}
		n.merge(0, n.read(s, tails))
		for tail, q := range tails {
			if have, ok := first[tail]; ok {
				n.merge(have, q)
			} else {
				first[tail] = q
			}
		}
	}
	for {
		all := n.states()
		of := map[int][]string{}
		for _, q := range all {
			of[q] = n.paths(q, o.K)
		}
		var pairs [][2]int
		for _, p := range all {
			for _, q := range all {
				if p < q && n.one(p, q, of) {
					pairs = append(pairs, [2]int{p, q})
				}
			}
		}
		if len(pairs) == 0 {
			break
		}
		for _, pair := range pairs {
			n.merge(pair[0], pair[1])
		}
	}
	unlike := n.distinguish()
	all := n.states()
	for _, p := range all {
		for _, q := range all {
			if p < q && !unlike[[2]int{p, q}] {
				n.merge(p, q)
			}
		}
	}
	return n
}

// The automaton is that of the naive algorithm, but for the states' numbers.
func TestAutomatonIsTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := randomOptions(t)
		sequences := randomSequences(3).Draw(t, "sequences")
		for i, s := range sequences { // the oracle is slow
			if words := strings.Fields(s); len(words) > 13 {
				sequences[i] = strings.Join(words[:13], " ")
			}
		}
		compareWithNaive(t, o, sequences)
	})
}

// A state can have the paths of two that are not merged with each other, because
// what they share is a loop.
func TestStatesMergedThroughAThird(t *testing.T) {
	compareWithNaive(t, AutomatonOptions{K: 3, Rule: Included}, []string{"A B A A B A ..."})
}

func compareWithNaive(t rapid.TB, o AutomatonOptions, sequences []string) {
	want := naiveAutomaton(o, sequences)
	got := automatonOf(t, o, sequences...)
	arcs := map[naiveArc]bool{}
	for _, a := range want.arcs {
		arcs[naiveArc{want.name[a.from], a.symbol, want.name[a.to]}] = true
	}
	is := map[int]int{0: want.name[0]} // states of got → of want
	for _, a := range got.Arcs() {
		name := "END"
		if a.Symbol != encoders.End {
			name = got.names[a.Symbol]
		}
		to := want.goes(is[a.From], name)
		if have, ok := is[a.To]; to < 0 || ok && have != to {
			t.Fatalf("%d %s %d leads to %d\n%s\nnaive: %v", a.From, name, a.To, to, got, arcs)
		}
		is[a.To] = to
	}
	if len(arcs) != len(got.Arcs()) {
		t.Fatalf("%d arcs\n%s\nnaive: %d, %v", len(got.Arcs()), got, len(arcs), arcs)
	}
}
