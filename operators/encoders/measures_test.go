package encoders_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/internal/enctest"
)

// sequencesOf draws sequences over lettersUpTo(n).
func sequencesOf(t *rapid.T, n, most int) [][]encoders.Symbol {
	one := rapid.SliceOfN(rapid.Uint32Range(1, uint32(n)), 0, most)
	return rapid.SliceOfN(one, 1, 3).Draw(t, "sequences")
}

// encodeAll merges the encodings of sequences, each appended in two parts.
func encodeAll(t *rapid.T, sequences [][]encoders.Symbol, encoder func() encoders.Encoder) encoders.Encoding {
	var all []encoders.Encoding
	for _, s := range sequences {
		e := encoder()
		cut := rapid.IntRange(0, len(s)).Draw(t, "cut")
		e.Append(s[:cut], nil)
		e.Append(s[cut:], nil)
		all = append(all, e.Encode())
	}
	m, err := all[0].(encoders.Mergeable).Merge(all[1:])
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The locality for every window, against the windows themselves.
func TestLocalityIsTheMeanOverWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := enctest.LettersUpTo(6)
		sequences := sequencesOf(t, 6, 40)
		l := encodeAll(t, sequences, func() encoders.Encoder {
			e, _ := encoders.NewLocalityEncoder(a, 0, encoders.Limits{})
			return e
		}).(*encoders.Locality)
		distinct := map[encoders.Symbol]bool{}
		for w := 1; w <= 45; w++ {
			sum, windows := 0.0, int64(0)
			for _, s := range sequences {
				for i := 0; i+w <= len(s); i++ {
					in := map[encoders.Symbol]bool{}
					for _, x := range s[i : i+w] {
						in[x], distinct[x] = true, true
					}
					sum += float64(len(in)) / float64(w)
					windows++
				}
			}
			got := l.Mean(w)
			if l.Windows(w) != windows || windows == 0 && !math.IsNaN(got) || windows > 0 && math.Abs(got-sum/float64(windows)) > 1e-9 {
				t.Fatalf("windows of %d: %g of %d windows, want %g of %d", w, got, l.Windows(w), sum/float64(windows), windows)
			}
		}
		if l.Distinct() != len(distinct) || l.Window() != len(distinct) {
			t.Fatalf("%d different symbols, want %d; the window has %d", l.Distinct(), len(distinct), l.Window())
		}
	})
}

// The paper's figure 2 with windows of 12: 2/12 for classes, 7/12 for methods.
// The figure itself is lost; these calls have its classes and methods, and the
// loop-3 of the sixth to the fourteenth.
const treeTraversal = `ce.setValue stack.push stack.empty stack.pop ce.setOK
	ce.hasomeChildren ce.nextChild stack.push ce.hasomeChildren ce.nextChild stack.push ce.hasomeChildren ce.nextChild stack.push`

func TestLocalityOfThePaper(t *testing.T) {
	a := encoders.NewAlphabet()
	methods, _ := encoders.NewLocalityEncoder(a, 12, encoders.Limits{})
	classes, _ := encoders.NewLocalityEncoder(a, 12, encoders.Limits{})
	for _, call := range strings.Fields(treeTraversal)[:12] {
		class, _, _ := strings.Cut(call, ".")
		methods.Append([]encoders.Symbol{a.Symbol(call)}, nil)
		classes.Append([]encoders.Symbol{a.Symbol(class)}, nil)
	}
	for want, e := range map[string]*encoders.LocalityEncoder{"0.5833 of windows of 12": methods, "0.1667 of windows of 12": classes} {
		if got := e.Encode().String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	got, _ := json.Marshal(methods.Encode())
	if want := `{"encoding":"locality","sequences":1,"symbols":12,"window":12,"windows":1,"distinct":7,"locality":0.5833333333333334}`; string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	short, _ := encoders.NewLocalityEncoder(a, 5, encoders.Limits{})
	if got := short.Encode().String(); got != "no window of 5 symbols" {
		t.Error(got)
	}
}

func TestLoopOfThePaper(t *testing.T) {
	a := encoders.NewAlphabet()
	e, _ := encoders.NewLoopEncoder(a, []int{1, 3}, encoders.Limits{})
	for _, call := range strings.Fields(treeTraversal) {
		e.Append([]encoders.Symbol{a.Symbol(call)}, nil)
	}
	want := "loop-1: 0 hit (0 of 13), 0 covered (0 of 14)\n" +
		"loop-3: 0.5455 hit (6 of 11), 0.6429 covered (9 of 14)"
	if got := e.Encode().String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestLoopsOfEveryPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := enctest.LettersUpTo(3)
		periods := []int{1, 2, 3, 5, 8}
		sequences := sequencesOf(t, 3, 30)
		got := encodeAll(t, sequences, func() encoders.Encoder {
			e, _ := encoders.NewLoopEncoder(a, periods, encoders.Limits{})
			return e
		}).(*encoders.Loops)
		for i, n := range periods {
			var hits, tried, covered, length int64
			for _, s := range sequences {
				in := map[int]bool{}
				for j := n; j < len(s); j++ {
					tried++
					if s[j] == s[j-n] {
						hits++
						for p := j - n; p <= j; p++ {
							in[p] = true
						}
					}
				}
				covered += int64(len(in))
				length += int64(len(s))
			}
			l := got.Loops()[i]
			if l.Hits != hits || l.Tried != tried || l.Covered != covered || l.Symbols != length {
				t.Fatalf("loop-%d: %+v, want %d hits of %d, %d covered of %d", n, l, hits, tried, covered, length)
			}
		}
	})
}

func TestMeasuresRefuseBadParameters(t *testing.T) {
	a := enctest.LettersUpTo(1)
	for _, w := range []int{-1, encoders.MaxWindow + 1} {
		if _, err := encoders.NewLocalityEncoder(a, w, encoders.Limits{}); err == nil {
			t.Errorf("a window of %d is accepted", w)
		}
	}
	for _, n := range []int{0, -1, encoders.MaxLoop + 1} {
		if _, err := encoders.NewLoopEncoder(a, []int{n}, encoders.Limits{}); err == nil {
			t.Errorf("a period of %d is accepted", n)
		}
	}
}

// The four calls of the paper's figure 4: every pair stays in the hierarchy of
// Component, half of them in one class.
func TestHierarchyConsecutiveOfThePaper(t *testing.T) {
	h := encoders.NewHierarchy()
	for _, pair := range [][2]string{{"Component", "Object"}, {"TextComponent", "Component"}, {"TextArea", "TextComponent"}, {"Button", "Component"}} {
		if err := h.Derive(h.Class(pair[0]), h.Class(pair[1])); err != nil {
			t.Fatal(err)
		}
	}
	a := encoders.NewAlphabet()
	e := encoders.NewHierarchyEncoder(a, h, encoders.Limits{})
	for _, class := range []string{"Component", "Component", "TextArea", "TextArea", "Button", "Unknown"} {
		e.Append([]encoders.Symbol{a.Symbol(class)}, nil)
	}
	want := "hierarchy-consecutive: 0.6 hit (3 of 5), 0.6667 covered (4 of 6)"
	if got := e.Encode().String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if d := h.Distance(h.Class("TextArea"), h.Class("Component")); d != 2 {
		t.Errorf("the lookup distance of TextArea.enable() is %d, not 2", d)
	}
}

// The paper's figure 8: left and right numbers of a hierarchy.
func TestRelativeNumbersOfThePaper(t *testing.T) {
	h := encoders.NewHierarchy()
	for _, pair := range []string{"BA", "CB", "EA", "DE", "FE", "GA"} {
		if err := h.Derive(h.Class(pair[:1]), h.Class(pair[1:])); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][2]int{"A": {0, 6}, "B": {1, 2}, "C": {2, 2}, "E": {3, 5}, "F": {5, 5}, "G": {6, 6}} {
		left, right := h.Numbers(h.Class(name))
		if left != want[0] || right != want[1] {
			t.Errorf("%s has %d and %d, not %v", name, left, right, want)
		}
	}
	if !h.Includes(h.Class("A"), h.Class("F")) || h.Includes(h.Class("E"), h.Class("C")) {
		t.Error("F is a subclass of A, C is none of E")
	}
	if h.Derive(h.Class("A"), h.Class("F")) == nil || h.Derive(h.Class("A"), h.Class("A")) == nil {
		t.Error("a cycle is accepted")
	}
}

// Classes added in any order, with one or several bases: inclusion and distance equal the
// result of a search up the bases, at any time.
func TestHierarchyWhileItGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := encoders.NewHierarchy()
		n := rapid.IntRange(2, 40).Draw(t, "classes")
		bases := make([][]int, n)
		distance := func(from, to int) int {
			level, seen := []int{from}, map[int]bool{}
			for d := 0; len(level) > 0; d++ {
				var up []int
				for _, c := range level {
					if c == to {
						return d
					}
					if !seen[c] {
						seen[c] = true
						up = append(up, bases[c]...)
					}
				}
				level = up
			}
			return -1
		}
		name := func(c int) string { return fmt.Sprint("class", c) }
		for range rapid.IntRange(0, 60).Draw(t, "derivations") {
			c, b := rapid.IntRange(0, n-1).Draw(t, "class"), rapid.IntRange(0, n-1).Draw(t, "base")
			if len(bases[c]) > 0 && rapid.IntRange(0, 3).Draw(t, "several") > 0 {
				continue
			}
			err := h.Derive(h.Class(name(c)), h.Class(name(b)))
			if (err != nil) != (distance(b, c) >= 0) && !slices.Contains(bases[c], b) {
				t.Fatalf("%d from %d: %v", c, b, err)
			}
			if err == nil {
				bases[c] = append(bases[c], b)
			}
		}
		for a := range n {
			for b := range n {
				want := distance(a, b)
				x, y := h.Class(name(a)), h.Class(name(b))
				if got := h.Distance(x, y); got != want || h.Includes(y, x) != (want >= 0) {
					t.Fatalf("%d to %d: distance %d, want %d; included: %v", a, b, got, want, h.Includes(y, x))
				}
			}
		}
	})
}

// A long chain of classes, and a class with many: numbers run out and classes are
// renumbered.
func TestHierarchyRunsOutOfNumbers(t *testing.T) {
	h := encoders.NewHierarchy()
	for i := range 300 {
		for _, pair := range [][2]string{{fmt.Sprint("deep", i+1), fmt.Sprint("deep", i)}, {fmt.Sprint("wide", i+1), "wide0"}} {
			if err := h.Derive(h.Class(pair[0]), h.Class(pair[1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 301 {
		d, w := h.Class(fmt.Sprint("deep", i)), h.Class(fmt.Sprint("wide", i))
		if !h.Includes(h.Class("deep0"), d) || !h.Includes(d, h.Class("deep300")) || i < 300 && h.Includes(h.Class("deep300"), d) {
			t.Fatalf("deep%d is out of order", i)
		}
		if !h.Includes(h.Class("wide0"), w) || h.Includes(w, d) || h.Includes(d, w) || i > 1 && h.Related(w, h.Class("wide1")) {
			t.Fatalf("wide%d is out of order", i)
		}
	}
}

func TestSuccession(t *testing.T) {
	a := enctest.LettersUpTo(4)
	e := encoders.NewSuccessionEncoder(a, encoders.Limits{})
	e.Append([]encoders.Symbol{1, 2, 3, 4, 2, 3, 1, 2}, nil)
	want := `B 3: before A 0.667 D 0.333; after C 0.667
A 2: before C 0.5; after B 1
C 2: before B 1; after A 0.5 D 0.5
D 1: before C 1; after B 1`
	if got := e.Encode().String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// Every probability is a ratio of counts, and sides add up but for the first
// and the last symbol of a sequence.
func TestSuccessionCountsPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := enctest.LettersUpTo(4)
		sequences := sequencesOf(t, 4, 20)
		got := encodeAll(t, sequences, func() encoders.Encoder { return encoders.NewSuccessionEncoder(a, encoders.Limits{}) }).(*encoders.Succession)
		for _, n := range got.Symbols() {
			for _, b := range n.After {
				var pairs int64
				for _, s := range sequences {
					for i := range len(s) - 1 {
						if a.Names()[s[i]] == n.Name && a.Names()[s[i+1]] == b.Name {
							pairs++
						}
					}
				}
				if b.Count != pairs || b.Probability != float64(pairs)/float64(n.Count) {
					t.Fatalf("%s after %s: %d, want %d", b.Name, n.Name, b.Count, pairs)
				}
			}
		}
		var pairs, all int64
		for _, s := range sequences {
			all += int64(max(0, len(s)-1))
		}
		for _, n := range got.Symbols() {
			for _, b := range n.Before {
				pairs += b.Count
			}
		}
		if pairs != all {
			t.Fatalf("%d pairs, want %d", pairs, all)
		}
	})
}

func BenchmarkMeasures(b *testing.B) {
	names := encoders.NewAlphabet()
	for i := range 300 {
		names.Symbol(fmt.Sprint("f", i+1))
	}
	in := enctest.CallTrace(1e6)
	for name, encoder := range map[string]func() encoders.Encoder{
		"locality": func() encoders.Encoder { e, _ := encoders.NewLocalityEncoder(names, 0, encoders.Limits{}); return e },
		"loop-3":   func() encoders.Encoder { e, _ := encoders.NewLoopEncoder(names, []int{3}, encoders.Limits{}); return e },
		"loop-1..8": func() encoders.Encoder {
			e, _ := encoders.NewLoopEncoder(names, []int{1, 2, 3, 4, 5, 6, 7, 8}, encoders.Limits{})
			return e
		},
		"hierarchy": func() encoders.Encoder {
			return encoders.NewHierarchyEncoder(names, encoders.NewHierarchy(), encoders.Limits{})
		},
		"succession": func() encoders.Encoder { return encoders.NewSuccessionEncoder(names, encoders.Limits{}) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				e := encoder()
				e.Append(in, nil)
				e.Encode()
			}
			b.ReportMetric(float64(len(in))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msymbols/s")
		})
	}
}
