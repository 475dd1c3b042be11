package operators

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func unionOf(ins ...plan.Node) *plan.Union {
	return &plan.Union{Ins: ins, Out: ins[0].Schema()}
}

// Rows wait until every input's watermark has passed them, and come in order
// of time, equal times in order of arrival. An input that has ended is not
// waited for.
func TestUnion(t *testing.T) {
	got := play(t, unionOf(relation("t:timestamp s:varchar"), relation("t:timestamp s:varchar")), Options{}, `
		0: 1 a
		0: 3 b
		0: 5 c
		0: wm 6
		1: 2 x
		1: 3 y
		1: --
		1: 8 z
		1: wm 4
		1: wm 7
		0: 8 d
		0: 6 e
		1: wm 9
		0: close
		1: 9 last
		1: close`)
	expect(t, got, `
		1 a
		2 x
		3 b
		3 y
		wm 4
		5 c
		wm 6
		6 e
		8 z
		8 d
		wm 9
		9 last
		close`)
}

// Rows out of order within an input, and rows without time, lose nothing.
func TestUnionDisorder(t *testing.T) {
	got := play(t, unionOf(relation("t:bigint s:varchar"), relation("t:bigint s:varchar")), Options{}, `
		0: 5 a
		0: 3 b
		0: null c
		0: 4 d
		1: wm 10
		0: wm 5
		1: 2 late
		1: --
		0: 2 late
		0: close
		1: close`)
	expect(t, got, `
		null c
		3 b
		4 d
		5 a
		wm 5
		2 late
		2 late
		wm 10
		close`)
}

// Without a time column nothing waits.
func TestUnionWithoutTime(t *testing.T) {
	got := play(t, unionOf(relation("x:bigint"), relation("x:bigint")), Options{}, `
		0: 1
		0: flush
		1: 2
		1: close
		0: 3
		0: close`)
	expect(t, got, "1\nflush\n2\n3\nclose")
}

// A Gap passes at once, a Tick when all open inputs have had it, a Flush
// behind the rows that it completes.
func TestUnionSignals(t *testing.T) {
	got := play(t, unionOf(relation("t:bigint"), relation("t:bigint")), Options{}, `
		0: 4
		0: gap full 2
		0: flush
		0: tick 100
		0: preview 50
		1: wm 3
		1: preview 50
		1: tick 100
		0: wm 5
		1: wm 5
		0: tick 200
		1: close
		0: close`)
	expect(t, got, `
		gap full 2
		preview 50
		tick 100
		wm 3
		4
		flush
		wm 5
		tick 200
		close`)
}

// Everything of an epoch comes before its barrier, everything after it later,
// whatever the rows' times.
func TestUnionBarrier(t *testing.T) {
	got := play(t, unionOf(relation("t:bigint s:varchar"), relation("t:bigint s:varchar")), Options{}, `
		0: 5 a
		0: barrier 1
		0: 1 next
		0: wm 9
		1: 7 b
		1: wm 9
		1: 8 c
		1: barrier 1
		1: 2 next
		0: close
		1: close`)
	expect(t, got, `
		5 a
		7 b
		wm 1
		8 c
		barrier 1
		1 next
		wm 9
		2 next
		close`)
}

func TestUnionMemoryLimit(t *testing.T) {
	got := play(t, unionOf(relation("t:bigint"), relation("t:bigint")), Options{MemoryLimit: 40}, `
		0: 1
		0: 2
		0: 3
		0: wm 3`)
	expect(t, got, `
		error: UNION ALL holds more than 40 bytes of rows (hint: one of its inputs does not go on, and the others wait for it)`)
}

// For inputs in order the result is the stable merge of all rows, and at each
// watermark exactly the rows that no input can precede are out.
func TestUnionAgreesWithDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const inputs = 3
		leaves := make([]plan.Node, inputs)
		for i := range leaves {
			leaves[i] = relation("t:bigint n:bigint s:varchar")
		}
		k := &keeper{}
		g, err := Build(unionOf(leaves...), k, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		var now [inputs]int64
		marks := [inputs]int64{noTime, noTime, noTime}
		type row struct{ t, n int64 }
		var all []row
		pools := [inputs]*batch.Pool{}
		for i := range pools {
			pools[i] = newPool(leaves[i])
		}
		taken := func() (out []row) {
			for _, b := range k.kept {
				for i := range b.Len() {
					r := b.Row(i)
					if s := fmt.Sprint(b.Cols[1].Int[r] % 5); b.Cols[2].Value(r).S != s {
						t.Fatalf("row %d has text %q", b.Cols[1].Int[r], b.Cols[2].Value(r).S)
					}
					out = append(out, row{b.Cols[0].Int[r], b.Cols[1].Int[r]})
				}
			}
			return out
		}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			i := rapid.IntRange(0, inputs-1).Draw(t, "input")
			op, port := g.Leaves[i].Op, g.Leaves[i].Port
			if rapid.Bool().Draw(t, "watermark") {
				marks[i] = now[i]
				if _, err := op.Signal(t.Context(), port, Signal{Kind: Watermark, Time: now[i]}); err != nil {
					t.Fatal(err)
				}
				least := slices.Min(marks[:])
				out := taken()
				for _, r := range all {
					if r.t <= least && !slices.Contains(out, r) {
						t.Fatalf("row %v waits at watermark %d", r, least)
					}
				}
				continue
			}
			b := pools[i].Get()
			step := rapid.SampledFrom([]int64{0, 1, 50}).Draw(t, "step")
			for range rapid.SampledFrom([]int{1, 3, 400}).Draw(t, "rows") {
				now[i] += step
				r := row{now[i], int64(len(all))}
				all = append(all, r)
				b.AppendRow(types.Int(r.t), types.Int(r.n), types.Str(fmt.Sprint(r.n%5)))
			}
			if _, err := op.Push(t.Context(), port, b); err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		for _, l := range g.Leaves {
			if err := l.Op.Close(t.Context(), l.Port); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortStableFunc(all, func(a, b row) int { return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.n, b.n)) })
		if got := taken(); !slices.Equal(got, all) {
			t.Fatalf("got %v, want %v", got, all)
		}
	})
}

// Interleaved strings of many dictionaries end in one that does not grow for
// ever.
func TestUnionBoundsDictionary(t *testing.T) {
	g := newGatherer([]types.Type{types.Varchar})
	var last *batch.Dict
	changed := 0
	for i := range 200 {
		b := batch.New([]types.Type{types.Varchar})
		for j := range batch.MaxRows {
			b.AppendRow(types.Str(fmt.Sprint(i, " ", j)))
		}
		g.add(b, rowsOf(b))
		out := g.take()
		if got := out.Cols[0].Value(7).S; got != fmt.Sprint(i, " 7") {
			t.Fatalf("row is %q", got)
		}
		if n := out.Cols[0].Dict.Len(); n > maxDict+batch.MaxRows {
			t.Fatalf("%d strings", n)
		}
		if out.Cols[0].Dict != last {
			last = out.Cols[0].Dict
			changed++
		}
		out.Release()
	}
	if changed != 4 {
		t.Errorf("%d dictionaries", changed)
	}
	if len(g.tr[0].tables) > maxTables {
		t.Errorf("%d tables", len(g.tr[0].tables))
	}
}
