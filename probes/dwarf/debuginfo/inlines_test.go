package debuginfo

import (
	"cmp"
	"strings"
	"testing"
)

// The calls that were inlined at each address, and their places, are those of addr2line.
func TestInlined(t *testing.T) {
	for _, way := range sourceWays {
		t.Run(way, func(t *testing.T) {
			program := compileSource(t, way)
			s, f := openSource(t, program)
			addrs := textOf(f, maxWitnessed)
			told, wrong, deepest := witnessed(t, witnessOf(way), program, addrs), 0, 0
			for i, addr := range addrs {
				inlined, outer := s.Inlined(addr, true)
				var got []call
				for _, in := range inlined {
					got = append(got, call{cmp.Or(in.Linkage, in.Name), in.Position.String()})
				}
				got = append(got, call{"", outer.String()})
				if at, _ := s.Line(addr); at.String() != got[0].at {
					t.Fatalf("%#x: line %v, and of the inlined call there %v", addr, at, got[0].at)
				}
				want := told[i]
				deepest = max(deepest, len(got))
				if outer == (Position{}) && len(got) == 1 && len(want) == 1 && !strings.Contains(want[0].at, "/") {
					continue // the file that a symbol is of
				}
				want[len(want)-1].function = ""
				if !same(got, want) {
					if wrong++; wrong < 4 {
						t.Errorf("%#x: %v, by addr2line %v", addr, got, want)
					}
				}
			}
			if wrong > 0 || deepest < 3 {
				t.Errorf("%d of %d differ; at most %d calls", wrong, len(addrs), deepest)
			}
			if err := s.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

func same(got, want []call) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		// Without a name of a symbol, addr2line says the name without its namespaces.
		if got[i].at != want[i].at || got[i].function != want[i].function && !strings.HasSuffix(got[i].function, "::"+want[i].function) {
			return false
		}
	}
	return true
}
