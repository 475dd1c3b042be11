package structure

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/internal/enctest"
)

// A DAG has a node for each different subtree, with the statistics of all that
// are equal to it.
func TestDAGNodesAreTheDistinctSubtrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		forest, in, times := enctest.Trees(t)
		e := NewDAGEncoder(enctest.Letters(), 0, encoders.Limits{})
		e.Append(in, times)
		g := e.Encode().(*Grammar)
		want := map[string]*encoders.Stats{}
		for _, root := range forest {
			root.Walk(nil, func(n *enctest.Tree, _ []encoders.Symbol) {
				if want[n.String()] == nil {
					want[n.String()] = &encoders.Stats{}
				}
				want[n.String()].Add(n.Took)
			})
		}
		if g.Rules()-1 != len(want) {
			t.Fatalf("%s\nhas %d nodes for %d subtrees", g, g.Rules()-1, len(want))
		}
		var calls int64
		for p := 1; p < g.Rules(); p++ {
			var b strings.Builder
			g.derive(p, func(s encoders.Symbol) bool {
				if s == encoders.Return {
					b.WriteString(")")
				} else {
					fmt.Fprint(&b, s, "(")
				}
				return true
			})
			if s := want[b.String()]; s == nil || *s != g.stats[p] {
				t.Fatalf("%s\nnode %d, %s: %+v, want %+v", g, p, b.String(), g.stats[p], s)
			}
			calls += g.stats[p].Count
		}
		if calls != int64(len(in)/2) {
			t.Fatalf("%d calls, %d counted", len(in)/2, calls)
		}
	})
}

// A profile counts what a walk of the tree with its stack counts.
func TestProfile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		forest, in, times := enctest.Trees(t)
		n := rapid.IntRange(1, 6).Draw(t, "n")
		e := encoders.NewNLevelEncoder(enctest.Letters(), n, encoders.Limits{})
		cut := rapid.IntRange(0, len(in)).Draw(t, "cut")
		e.Append(in[:cut], times[:cut])
		e.Encode()
		e.Append(in[cut:], times[cut:])
		want := map[string]*encoders.Stats{}
		for _, root := range forest {
			root.Walk(nil, func(c *enctest.Tree, stack []encoders.Symbol) {
				for i := 1; i <= min(n, len(stack)); i++ {
					key := fmt.Sprint(stack[len(stack)-i:])
					if want[key] == nil {
						want[key] = &encoders.Stats{}
					}
					want[key].Add(c.Took)
				}
			})
		}
		got := e.Encode().(*encoders.Profile)
		if len(got.Tuples()) != len(want) {
			t.Fatalf("%s\nhas %d tuples of %d", got, len(got.Tuples()), len(want))
		}
		for _, tuple := range got.Tuples() {
			if s := want[fmt.Sprint(tuple.Calls)]; s == nil || *s != tuple.Stats {
				t.Fatalf("%s\n%v: %+v, want %+v", got, tuple.Calls, tuple.Stats, s)
			}
		}
		// Threads add up, in any order.
		one, two := encoders.NewNLevelEncoder(enctest.Letters(), n, encoders.Limits{}), encoders.NewNLevelEncoder(enctest.Letters(), n, encoders.Limits{})
		one.Append(in, times)
		two.Append(in[:cut], times[:cut])
		ab, err := one.Encode().(encoders.Mergeable).Merge([]encoders.Encoding{two.Encode()})
		if err != nil {
			t.Fatal(err)
		}
		ba, _ := two.Encode().(encoders.Mergeable).Merge([]encoders.Encoding{one.Encode()})
		if ab.String() != ba.String() {
			t.Fatalf("%s\nthe other way round:\n%s", ab, ba)
		}
	})
}

// A recursion that is very deep needs no deep stack of ours.
func TestDAGOfDeepRecursion(t *testing.T) {
	const depth = 100_000
	e := NewDAGEncoder(enctest.Letters(), 0, encoders.Limits{})
	e.Append(slices.Repeat([]encoders.Symbol{1}, depth), nil)
	e.Append(make([]encoders.Symbol, depth/2), nil)
	g := e.Encode().(*Grammar)
	if g.Rules() != depth+1 {
		t.Errorf("%d rules", g.Rules())
	}
	if err := encoders.Verify(g); err != nil {
		t.Error(err)
	}
}
