package encoders_test

import (
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/internal/enctest"
	_ "endoscope/operators/optest/seeds" // the same cases in every run
)

func TestIntervals(t *testing.T) {
	a := encoders.NewAlphabet()
	main, list := a.Symbol("Main"), a.Symbol("List")
	e := encoders.NewIntervalEncoder(a, 4, encoders.Limits{})
	e.Append([]encoders.Symbol{main, list, encoders.Return, list}, []int64{0, 2, 5, 6})
	e.Allocate(list, 40, 6)
	e.Wait(7, 13)
	e.Append([]encoders.Symbol{encoders.Return, encoders.Return}, []int64{14, 15})
	// 16 ns in 4 parts; what crosses a border is cut there.
	want := `-- intervals of 4ns: begin calls time waiting allocations bytes class
0s 1 2ns 0s 0 0 List
0s 1 2ns 0s 0 0 Main
4ns 1 3ns 1ns 1 40 List
4ns 0 1ns 0s 0 0 Main
8ns 0 4ns 4ns 0 0 List
12ns 0 2ns 1ns 0 0 List
12ns 0 1ns 0s 0 0 Main`
	if got := e.Encode().String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// The own time of a call that waits is waiting, that of what it calls is not.
func TestIntervalsWaits(t *testing.T) {
	a := encoders.NewAlphabet()
	poll, handler := a.Symbol("poll"), a.Symbol("handler")
	e := encoders.NewIntervalEncoder(a, 4, encoders.Limits{})
	e.Append([]encoders.Symbol{poll}, []int64{0})
	e.Waits()
	e.Append([]encoders.Symbol{handler, encoders.Return, encoders.Return, poll, encoders.Return}, []int64{2, 5, 6, 6, 7})
	want := `-- intervals of 2ns: begin calls time waiting class
0s 1 2ns 2ns poll
2ns 1 2ns 0s handler
4ns 0 1ns 0s handler
4ns 0 1ns 1ns poll
6ns 1 1ns 0s poll`
	if got := e.Encode().String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// A run of two threads: one reads and waits, the other computes.
func TestPicturesOfIntervals(t *testing.T) {
	a := encoders.NewAlphabet()
	main, reader, solver := a.Symbol("Main"), a.Symbol("Reader"), a.Symbol("Solver")
	var parts []encoders.Encoding
	for thread, class := range []encoders.Symbol{reader, solver} {
		e := encoders.NewIntervalEncoder(a, 64, encoders.Limits{})
		e.Append([]encoders.Symbol{main}, []int64{0})
		at := int64(1000)
		for i := range int64(20) {
			took := (i%5 + 1) * 900
			e.Append([]encoders.Symbol{class}, []int64{at})
			if thread == 0 {
				e.Wait(at+100, at+took/2)
			} else {
				e.Allocate(class, 1<<i, at+50)
			}
			e.Append([]encoders.Symbol{encoders.Return}, []int64{at + took})
			at += 5000
		}
		e.Append([]encoders.Symbol{encoders.Return}, []int64{at})
		parts = append(parts, e.Encode())
	}
	m, err := parts[0].(encoders.Mergeable).Merge(parts[1:])
	if err != nil {
		t.Fatal(err)
	}
	x := m.(*encoders.Intervals)
	enctest.CheckGolden(t, "intervals.txt", x.Picture()+"\n")
	enctest.CheckGolden(t, "intervals.svg", x.SVG())
	if err := enctest.CheckSVG(x.SVG()); err != nil {
		t.Error(err)
	}
}

// However a run is cut, nothing is lost or counted twice: calls and exclusive
// times add up to those of the calls themselves.
func TestIntervalsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "n")
		var encodings []encoders.Encoding
		calls, own := map[encoders.Symbol]int64{}, map[encoders.Symbol]int64{}
		for range rapid.IntRange(1, 3).Draw(t, "threads") {
			forest, in, times := enctest.Trees(t)
			e := encoders.NewIntervalEncoder(enctest.Letters(), n, encoders.Limits{})
			e.Append(in, times)
			encodings = append(encodings, e.Encode())
			for _, root := range forest {
				root.Walk(nil, func(c *enctest.Tree, _ []encoders.Symbol) {
					calls[c.Function]++
					own[c.Function] += c.Took
					for _, callee := range c.Calls {
						own[c.Function] -= callee.Took
					}
				})
			}
		}
		merged, err := encodings[0].(encoders.Mergeable).Merge(encodings[1:])
		if err != nil {
			t.Fatal(err)
		}
		_, cells := merged.(*encoders.Intervals).Cells()
		for _, c := range cells {
			calls[c.Class] -= c.Calls
			own[c.Class] -= c.Time
			if c.Part >= n || c.Time > merged.(*encoders.Intervals).Length() {
				t.Fatalf("%s\n%+v", merged, c)
			}
		}
		for s := range calls {
			if calls[s] != 0 || own[s] != 0 {
				t.Fatalf("%s\nlacks %d calls and %d ns of %d", merged, calls[s], own[s], s)
			}
		}
	})
}
