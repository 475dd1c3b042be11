package encoders

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// tree is a call with what it calls.
type tree struct {
	function Symbol
	calls    []*tree
	began    int64
	took     int64
}

func (t *tree) String() string {
	var b strings.Builder
	fmt.Fprint(&b, t.function, "(")
	for _, c := range t.calls {
		b.WriteString(c.String())
	}
	return b.String() + ")"
}

// trees draws calls that all return, as a string with the moments of its
// symbols.
func trees(t *rapid.T) (forest []*tree, in []Symbol, times []int64) {
	now := int64(1000)
	note := func(s Symbol) {
		now += rapid.Int64Range(0, 1e6).Draw(t, "ns")
		in, times = append(in, s), append(times, now)
	}
	var grow func(depth int) *tree
	grow = func(depth int) *tree {
		n := &tree{function: rapid.Uint32Range(1, 3).Draw(t, "function")}
		note(n.function)
		n.began = now
		if depth < 4 {
			for range rapid.IntRange(0, 4-depth).Draw(t, "calls") {
				n.calls = append(n.calls, grow(depth+1))
			}
		}
		note(Return)
		n.took = now - n.began
		return n
	}
	for range rapid.IntRange(0, 4).Draw(t, "roots") {
		forest = append(forest, grow(0))
	}
	return forest, in, times
}

func (t *tree) walk(stack []Symbol, visit func(t *tree, stack []Symbol)) {
	stack = append(slices.Clone(stack), t.function)
	visit(t, stack)
	for _, c := range t.calls {
		c.walk(stack, visit)
	}
}

// A DAG has a node for each different subtree, with the statistics of all that
// are equal to it.
func TestDAGNodesAreTheDistinctSubtrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		forest, in, times := trees(t)
		e := NewDAGEncoder(letters(), 0, Limits{})
		e.Append(in, times)
		g := e.Encode().(*Grammar)
		want := map[string]*Stats{}
		for _, root := range forest {
			root.walk(nil, func(n *tree, _ []Symbol) {
				if want[n.String()] == nil {
					want[n.String()] = &Stats{}
				}
				want[n.String()].Add(n.took)
			})
		}
		if g.Rules()-1 != len(want) {
			t.Fatalf("%s\nhas %d nodes for %d subtrees", g, g.Rules()-1, len(want))
		}
		var calls int64
		for p := 1; p < g.Rules(); p++ {
			var b strings.Builder
			g.derive(p, func(s Symbol) bool {
				if s == Return {
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
		forest, in, times := trees(t)
		n := rapid.IntRange(1, 6).Draw(t, "n")
		e := NewNLevelEncoder(letters(), n, Limits{})
		cut := rapid.IntRange(0, len(in)).Draw(t, "cut")
		e.Append(in[:cut], times[:cut])
		e.Encode()
		e.Append(in[cut:], times[cut:])
		want := map[string]*Stats{}
		for _, root := range forest {
			root.walk(nil, func(c *tree, stack []Symbol) {
				for i := 1; i <= min(n, len(stack)); i++ {
					key := fmt.Sprint(stack[len(stack)-i:])
					if want[key] == nil {
						want[key] = &Stats{}
					}
					want[key].Add(c.took)
				}
			})
		}
		got := e.Encode().(*Profile)
		if len(got.Tuples()) != len(want) {
			t.Fatalf("%s\nhas %d tuples of %d", got, len(got.Tuples()), len(want))
		}
		for _, tuple := range got.Tuples() {
			if s := want[fmt.Sprint(tuple.Calls)]; s == nil || *s != tuple.Stats {
				t.Fatalf("%s\n%v: %+v, want %+v", got, tuple.Calls, tuple.Stats, s)
			}
		}
		// Threads add up, in any order.
		one, two := NewNLevelEncoder(letters(), n, Limits{}), NewNLevelEncoder(letters(), n, Limits{})
		one.Append(in, times)
		two.Append(in[:cut], times[:cut])
		ab, err := one.Encode().(Mergeable).Merge([]Encoding{two.Encode()})
		if err != nil {
			t.Fatal(err)
		}
		ba, _ := two.Encode().(Mergeable).Merge([]Encoding{one.Encode()})
		if ab.String() != ba.String() {
			t.Fatalf("%s\nthe other way round:\n%s", ab, ba)
		}
	})
}

// A recursion that is very deep needs no deep stack of ours.
func TestDAGOfDeepRecursion(t *testing.T) {
	const depth = 100_000
	e := NewDAGEncoder(letters(), 0, Limits{})
	e.Append(slices.Repeat([]Symbol{1}, depth), nil)
	e.Append(make([]Symbol, depth/2), nil)
	g := e.Encode().(*Grammar)
	if g.Rules() != depth+1 {
		t.Errorf("%d rules", g.Rules())
	}
	if err := Verify(g); err != nil {
		t.Error(err)
	}
}
