package window_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Windows begin at multiples of their size, also before the epoch. A row
// without time is in none, and is reported.
func TestTumble(t *testing.T) {
	got := play.Run(t, testplan.Window(testplan.Relation("t:timestamp s:varchar"), testplan.Tumbling(10), false), operators.Options{}, `
		0 a
		9 b
		10 c
		-1 d
		-10 e
		-11 f
		null g
		null h
		wm 10
		5 late
		close`)
	testplan.Expect(t, got, `
		gap no timestamp 2
		0 a 0 10
		9 b 0 10
		10 c 10 20
		-1 d -10 0
		-10 e -10 0
		-11 f -20 -10
		wm 10
		5 late 0 10
		close`)
}

// In a file without timestamps, windows count lines.
func TestTumbleLines(t *testing.T) {
	n := testplan.Window(testplan.Relation("t:bigint"), testplan.Tumbling(2), false)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, "1\n2\n3\nclose"), `
		1 0 2
		2 2 4
		3 2 4
		close`)
}

// A row is emitted once for each window it lies in: size/slide times if that is whole,
// otherwise sometimes one less, and sometimes not at all where windows do not touch.
func TestHop(t *testing.T) {
	for _, c := range []struct {
		slide, size time.Duration
		want        string
	}{
		{5, 10, `
			0 0 10
			3 0 10
			9 5 15
			0 -5 5
			3 -5 5
			9 0 10
			close`},
		{4, 10, `
			0 0 10
			3 0 10
			9 8 18
			0 -4 6
			3 -4 6
			9 4 14
			0 -8 2
			9 0 10
			close`},
		{5, 3, `
			0 0 3
			close`},
	} {
		n := testplan.Window(testplan.Relation("t:bigint"), testplan.Hopping(c.slide, c.size), false)
		testplan.Expect(t, play.Run(t, n, operators.Options{}, "0\n3\n9\nclose"), c.want)
	}
}

// HOP shares its input columns between all windows of a row.
func TestHopCopiesNothing(t *testing.T) {
	in := testplan.Relation("t:bigint s:varchar")
	k := &testplan.Keeper{}
	g, err := graph.Build(testplan.Window(in, testplan.Hopping(1, 4), false), k, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := batch.New(in.Out.Types())
	b.AppendRow(types.Int(7), types.Str("x"))
	if _, err := g.Leaves[0].Op.Push(t.Context(), 0, b); err != nil {
		t.Fatal(err)
	}
	if len(k.Kept) != 4 {
		t.Fatalf("%d batches", len(k.Kept))
	}
	for _, d := range k.Kept {
		if &d.Cols[1].Code[0] != &b.Cols[1].Code[0] {
			t.Error("a column was copied")
		}
	}
}

func TestWindowRefusals(t *testing.T) {
	for spec, want := range map[*plan.WindowSpec]string{
		{Kind: plan.Tumble}:        "the size of a window must be greater than zero",
		{Kind: plan.Hop, Size: 10}: "the size of a window must be greater than zero",
		{Kind: plan.Session}:       "the gap of a SESSION window must be greater than zero",
	} {
		_, err := graph.Build(testplan.Window(testplan.Relation("t:bigint"), *spec, false), &testplan.Recorder{}, &operators.Options{})
		if err == nil || err.Error() != want {
			t.Errorf("%v: %v", spec, err)
		}
	}
}

// With Hold, rows wait for their window's end and are followed by Flush, windows in order.
// Held rows hold back the watermark. Close emits everything.
func TestHoldTumble(t *testing.T) {
	n := testplan.Window(testplan.Relation("t:bigint s:varchar"), testplan.Tumbling(10), true)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		12 a
		3 b
		5 c
		wm 9
		4 d
		wm 10
		9 late
		wm 15
		31 e
		11 f
		wm 30
		tick 77
		close`), `
		wm 0
		3 b 0 10
		5 c 0 10
		4 d 0 10
		flush
		wm 10
		gap late 1
		wm 10
		12 a 10 20
		11 f 10 20
		flush
		wm 30
		tick 77
		31 e 30 40
		flush
		close`)
}

// A row of HOP that arrives after any of its windows has closed is late once, and is still
// in the others.
func TestHoldHop(t *testing.T) {
	n := testplan.Window(testplan.Relation("t:bigint s:varchar"), testplan.Hopping(5, 10), true)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		1 a
		7 b
		wm 10
		8 c
		4 late
		close`), `
		1 a -5 5
		flush
		1 a 0 10
		7 b 0 10
		flush
		wm 5
		gap late 2
		7 b 5 15
		8 c 5 15
		flush
		close`)
}

// A window that closed while it was empty does not open again: its rows are late.
func TestHoldClosedEmptyWindow(t *testing.T) {
	n := testplan.Window(testplan.Relation("t:bigint"), testplan.Hopping(5, 10), true)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		wm 100
		96
		close`), `
		wm 100
		gap late 1
		96 95 105
		flush
		close`)
}

func TestHoldMemoryLimit(t *testing.T) {
	n := testplan.Window(testplan.Relation("t:bigint"), testplan.Tumbling(10), true)
	testplan.Expect(t, play.Run(t, n, operators.Options{MemoryLimit: 15}, "1\n2\n--"), `
		error: a window holds more than 15 bytes of rows (hint: use shorter windows, or filter in WHERE)`)
}

// Held windows agree with the definition: window [s, s+size) for every s that
// is a multiple of slide, in order, has exactly the rows of these times that
// came before it closed.
func TestHoldAgreesWithDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 12).Draw(t, "size")
		slide := rapid.Int64Range(1, 12).Draw(t, "slide")
		steps := rapid.SliceOfN(rapid.Int64Range(-30, 30), 0, 40).Draw(t, "rows")
		var script strings.Builder
		type arrival struct{ t, watermark int64 }
		var rows []arrival
		wm := int64(-100)
		for i, x := range steps {
			if i%4 == 3 {
				wm = max(wm, x)
				fmt.Fprintf(&script, "wm %d\n", x)
				continue
			}
			rows = append(rows, arrival{x, wm})
			fmt.Fprintln(&script, x)
		}
		script.WriteString("close\n")
		got, err := play.Perform(testplan.Window(testplan.Relation("t:bigint"), testplan.Hopping(time.Duration(slide), time.Duration(size)), true), operators.Options{}, script.String(), false)
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for s := operators.Floor(-60, slide); s <= 60; s += slide {
			var in []int64
			for _, r := range rows {
				if r.t >= s && r.t < s+size && s+size > r.watermark {
					in = append(in, r.t)
				}
			}
			slices.SortStableFunc(in, func(a, b int64) int { return int(operators.Floor(a, slide) - operators.Floor(b, slide)) })
			for _, x := range in {
				fmt.Fprintf(&want, "%d %d %d\n", x, s, s+size)
			}
			if len(in) > 0 {
				want.WriteString("flush\n")
			}
		}
		var rest strings.Builder
		for line := range strings.Lines(got) {
			if !strings.HasPrefix(line, "wm") && !strings.HasPrefix(line, "gap") && line != "close\n" {
				rest.WriteString(line)
			}
		}
		if rest.String() != want.String() {
			t.Fatalf("size %d slide %d\n%s\ngot\n%s\nwant\n%s", size, slide, script.String(), rest.String(), want.String())
		}
	})
}
