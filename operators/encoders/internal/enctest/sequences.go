package enctest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
)

// Tree is a call and the calls it makes.
type Tree struct {
	Function encoders.Symbol
	Calls    []*Tree
	began    int64
	Took     int64
}

func (t *Tree) String() string {
	var b strings.Builder
	fmt.Fprint(&b, t.Function, "(")
	for _, c := range t.Calls {
		b.WriteString(c.String())
	}
	return b.String() + ")"
}

// Trees draws a forest of complete calls, and returns it also as a call string with the
// times of its symbols.
func Trees(t *rapid.T) (forest []*Tree, in []encoders.Symbol, times []int64) {
	now := int64(1000)
	note := func(s encoders.Symbol) {
		now += rapid.Int64Range(0, 1e6).Draw(t, "ns")
		in, times = append(in, s), append(times, now)
	}
	var grow func(depth int) *Tree
	grow = func(depth int) *Tree {
		n := &Tree{Function: rapid.Uint32Range(1, 3).Draw(t, "function")}
		note(n.Function)
		n.began = now
		if depth < 4 {
			for range rapid.IntRange(0, 4-depth).Draw(t, "calls") {
				n.Calls = append(n.Calls, grow(depth+1))
			}
		}
		note(encoders.Return)
		n.Took = now - n.began
		return n
	}
	for range rapid.IntRange(0, 4).Draw(t, "roots") {
		forest = append(forest, grow(0))
	}
	return forest, in, times
}

func (t *Tree) Walk(stack []encoders.Symbol, visit func(t *Tree, stack []encoders.Symbol)) {
	stack = append(slices.Clone(stack), t.Function)
	visit(t, stack)
	for _, c := range t.Calls {
		c.Walk(stack, visit)
	}
}

// Letters returns an alphabet for the symbols of adversarial sequences.
func Letters() *encoders.Alphabet {
	a := encoders.NewAlphabet()
	for _, c := range "ABCDE" {
		a.Symbol(string(c))
	}
	return a
}

// LettersUpTo returns an alphabet with the symbols 1 to n, named A, B, ...
func LettersUpTo(n int) *encoders.Alphabet {
	a := encoders.NewAlphabet()
	for i := range n {
		a.Symbol(string(rune('A' + i)))
	}
	return a
}

// CallTrace returns the call string of a synthetic program: nested loops over a few hundred
// functions, with slightly varying bounds and branches.
func CallTrace(n int) []encoders.Symbol {
	random := rand.New(rand.NewPCG(7, 11))
	var s []encoders.Symbol
	var call func(f encoders.Symbol, depth int)
	call = func(f encoders.Symbol, depth int) {
		if len(s) >= n {
			return
		}
		s = append(s, f)
		if depth < 7 {
			loops := 1 + int(f*2654435761>>30)
			if random.IntN(8) == 0 {
				loops += random.IntN(3)
			}
			for i := range loops {
				for j := range 1 + f%3 {
					if random.IntN(20) == 0 {
						continue
					}
					call(1+(f*7+j*13+uint32(i%2))%300, depth+1)
				}
			}
		}
		s = append(s, encoders.Return)
	}
	for f := uint32(1); len(s) < n; f = f*31%300 + 1 {
		call(f, 0)
	}
	return s[:n]
}
