package debuginfo

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// The calls that were inlined at each address, and their places, are those of addr2line.
func TestInlined(t *testing.T) {
	for _, way := range testenv.Few(2, sourceWays) {
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

// The inlined calls in the largest debug files of the distribution (the C library's, if they are
// installed) are those of llvm-addr2line: they have what small programs have not, such as calls
// that were inlined and left no code.
func TestInlinedInDebugFiles(t *testing.T) {
	files, _ := filepath.Glob("/usr/lib/debug/.build-id/*/*.debug")
	size := func(path string) int64 {
		st, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return st.Size()
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(size(b), size(a)) })
	if len(files) == 0 {
		testenv.Skip(t, "no debug files are installed")
	}
	for _, program := range files[:min(testenv.Times(3), len(files))] {
		s, f := openSource(t, program)
		addrs := textOf(f, 3000)
		told, wrong := witnessed(t, "llvm-addr2line", program, addrs), 0
		for i, addr := range addrs {
			inlined, outer := s.Inlined(addr, true)
			if outer.Line == 0 && len(inlined) == 0 {
				continue // the file that a symbol is of
			}
			var got []call
			for _, in := range inlined {
				got = append(got, call{cmp.Or(in.Linkage, in.Name), in.Position.String()})
			}
			got = append(got, call{"", outer.String()})
			want := told[i]
			want[len(want)-1].function = ""
			if !same(got, want) {
				if wrong++; wrong < 4 {
					t.Errorf("%s, %#x: %v, by llvm-addr2line %v", program, addr, got, want)
				}
			}
		}
		if err := s.Err(); err != nil || wrong > 0 {
			t.Errorf("%s: %d of %d differ, error %v", program, wrong, len(addrs), err)
		}
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
