package structure

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
)

// adversaries are sequences that are hard on inference of structure, each of
// about n symbols.
var adversaries = map[string]func(n int) []encoders.Symbol{
	"runs": func(n int) (s []encoders.Symbol) {
		for r := 1; len(s) < n; r++ {
			for range r {
				s = append(s, encoders.Symbol(1+r%3))
			}
		}
		return s
	},
	"one symbol": func(n int) []encoders.Symbol { return slices.Repeat([]encoders.Symbol{1}, n) },
	"Fibonacci": func(n int) []encoders.Symbol {
		a, b := []encoders.Symbol{1}, []encoders.Symbol{1, 2}
		for len(b) < n {
			a, b = b, append(slices.Clone(b), a...)
		}
		return b
	},
	"Thue-Morse": func(n int) []encoders.Symbol {
		s := []encoders.Symbol{1}
		for len(s) < n {
			for _, x := range s[:len(s):len(s)] {
				s = append(s, 3-x)
			}
		}
		return s
	},
	"de Bruijn": func(n int) []encoders.Symbol { // every word of 2 symbols of length k once
		k := 1
		for 1<<k < n {
			k++
		}
		seen := make([]bool, 1<<k)
		var s []encoders.Symbol
		for w := 0; !seen[w]; {
			seen[w] = true
			s = append(s, encoders.Symbol(1+w&1))
			next := (w<<1 | 1) & (1<<k - 1)
			if seen[next] {
				next = w << 1 & (1<<k - 1)
			}
			w = next
		}
		return s
	},
	"counters": func(n int) (s []encoders.Symbol) { // all numbers in base 3, after each other
		for i := 0; len(s) < n; i++ {
			for x := i; x > 0; x /= 3 {
				s = append(s, encoders.Symbol(1+x%3))
			}
			s = append(s, 4)
		}
		return s
	},
	"nested loops": func(n int) (s []encoders.Symbol) {
		for i := 0; len(s) < n; i++ {
			s = append(s, 1)
			for j := range 2 + i%3 {
				s = append(s, 2)
				for range 1 + (i+j)%4 {
					s = append(s, 3, 4)
				}
			}
			s = append(s, 5)
		}
		return s
	},
	"deep recursion": func(n int) []encoders.Symbol {
		return append(slices.Repeat([]encoders.Symbol{1}, n/2), make([]encoders.Symbol, n/2)...)
	},
	"unbalanced calls": func(n int) (s []encoders.Symbol) {
		x := uint32(1)
		for len(s) < n {
			x = x*1664525 + 1013904223
			s = append(s, []encoders.Symbol{0, 0, 1, 2, 0, 3, 1, 0}[x>>29])
		}
		return s
	},
}

// sequence draws a sequence: part of an adversary, or random over few symbols.
func sequence(t *rapid.T) []encoders.Symbol {
	if rapid.Bool().Draw(t, "random") {
		k := rapid.Uint32Range(1, 4).Draw(t, "symbols")
		return rapid.SliceOfN(rapid.Uint32Range(0, k), 0, 300).Draw(t, "sequence")
	}
	names := make([]string, 0, len(adversaries))
	for name := range adversaries {
		names = append(names, name)
	}
	slices.Sort(names)
	s := adversaries[rapid.SampledFrom(names).Draw(t, "adversary")](rapid.IntRange(4, 2000).Draw(t, "length"))
	from := rapid.IntRange(0, len(s)).Draw(t, "from")
	return s[from:rapid.IntRange(from, len(s)).Draw(t, "to")]
}

// noise are symbols below k, and copies of pieces of what was there before.
func noise(random *rand.Rand, k uint32, n int) (s []encoders.Symbol) {
	for len(s) < n {
		if len(s) == 0 || random.IntN(3) > 0 {
			s = append(s, random.Uint32N(k))
			continue
		}
		from := random.IntN(len(s))
		s = append(s, s[from:from+1+random.IntN(len(s)-from)]...)
	}
	return s
}

// wellFormed checks all that sequitur promises.
func (g *sequitur) wellFormed() error {
	uses := make([]uint32, len(g.rules))
	used := 0 // nodes
	digrams := map[[2]uint32]uint32{}
	for r := range g.rules {
		guard := g.rules[r].guard
		if r > 0 && guard == 0 {
			continue
		}
		n, bal := 0, balance{}
		for x := g.nodes[guard].next; x != guard; x = g.nodes[x].next {
			n++
			v, next := g.nodes[x].value, g.nodes[x].next
			if g.nodes[next].prev != x {
				return fmt.Errorf("rule %d: links", r)
			}
			bal = bal.then(g.balanceOf(v))
			if isRule(v) {
				uses[v&^ruleBit]++
			}
			w := g.nodes[next].value
			if isGuard(w) || g.restricted && g.balanceOf(v).then(g.balanceOf(w)).min < 0 {
				continue
			}
			at, _ := g.digrams.find(g.nodes, v, w)
			if at == 0 {
				return fmt.Errorf("rule %d: the digram %x %x is not indexed", r, v, w)
			}
			first, seen := digrams[[2]uint32{v, w}]
			switch {
			case !seen:
				digrams[[2]uint32{v, w}] = x
			case g.nodes[first].next != x && g.nodes[x].next != first:
				return fmt.Errorf("rule %d: the digram %x %x occurs twice", r, v, w)
			}
		}
		if r > 0 && n < 2 {
			return fmt.Errorf("rule %d has %d symbols", r, n)
		}
		if r > 0 && bal != g.rules[r].balance {
			return fmt.Errorf("rule %d has balance %v, not %v", r, bal, g.rules[r].balance)
		}
		if r > 0 && g.restricted && bal.min < 0 {
			return fmt.Errorf("rule %d closes what it has not opened", r)
		}
		used += n + 1
	}
	for r := 1; r < len(uses); r++ {
		if g.rules[r].guard == 0 {
			continue
		}
		if uses[r] < 2 || uses[r] != g.rules[r].uses {
			return fmt.Errorf("rule %d is used %d times (counted: %d)", r, uses[r], g.rules[r].uses)
		}
	}
	if len(digrams) != g.digrams.n {
		return fmt.Errorf("%d digrams, %d in the index", len(digrams), g.digrams.n)
	}
	for n := g.freeNode; n != 0; n = g.nodes[n].next {
		used++
	}
	if used != len(g.nodes) {
		return fmt.Errorf("%d nodes of %d are lost", len(g.nodes)-used, len(g.nodes))
	}
	return nil
}

func TestSequiturInvariants(t *testing.T) {
	for name, adversary := range adversaries {
		t.Run(name, func(t *testing.T) {
			for _, restricted := range []bool{false, true} {
				g := newSequitur(restricted)
				for i, s := range adversary(1500) {
					g.append(s, 0)
					if err := g.wellFormed(); err != nil {
						t.Fatalf("after %d symbols, restricted %t: %v", i+1, restricted, err)
					}
				}
			}
		})
	}
	t.Run("noise", func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		for round := range 1500 {
			g := newSequitur(round%2 == 1)
			k := 1 + uint32(round%7)
			in := noise(random, k, 300)
			for i, s := range in {
				g.append(s, 0)
				if round < 40 || i == len(in)-1 {
					if err := g.wellFormed(); err != nil {
						t.Fatalf("round %d, after %d symbols of %d: %v", round, i+1, k, err)
					}
				}
			}
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		g := newSequitur(rapid.Bool().Draw(t, "restricted"))
		in := sequence(t)
		for i, s := range in {
			g.append(s, 0)
			if len(in) < 100 {
				if err := g.wellFormed(); err != nil {
					t.Fatalf("after %d symbols: %v", i+1, err)
				}
			}
		}
		if err := g.wellFormed(); err != nil {
			t.Fatal(err)
		}
	})
}
