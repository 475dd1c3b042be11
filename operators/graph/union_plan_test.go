package graph_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Rows wait until every input's watermark has passed them, and come in order
// of time, equal times in order of arrival. An input that has ended is not
// waited for.
func TestUnion(t *testing.T) {
	got := play.Run(t, testplan.UnionOf(testplan.Relation("t:timestamp s:varchar"), testplan.Relation("t:timestamp s:varchar")), operators.Options{}, `
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
	testplan.Expect(t, got, `
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
	got := play.Run(t, testplan.UnionOf(testplan.Relation("t:bigint s:varchar"), testplan.Relation("t:bigint s:varchar")), operators.Options{}, `
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
	testplan.Expect(t, got, `
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
	got := play.Run(t, testplan.UnionOf(testplan.Relation("x:bigint"), testplan.Relation("x:bigint")), operators.Options{}, `
		0: 1
		0: flush
		1: 2
		1: close
		0: 3
		0: close`)
	testplan.Expect(t, got, "1\nflush\n2\n3\nclose")
}

// A Gap passes at once, a Tick when all open inputs have had it, a Flush
// behind the rows that it completes.
func TestUnionSignals(t *testing.T) {
	got := play.Run(t, testplan.UnionOf(testplan.Relation("t:bigint"), testplan.Relation("t:bigint")), operators.Options{}, `
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
	testplan.Expect(t, got, `
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
	got := play.Run(t, testplan.UnionOf(testplan.Relation("t:bigint s:varchar"), testplan.Relation("t:bigint s:varchar")), operators.Options{}, `
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
	testplan.Expect(t, got, `
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
	got := play.Run(t, testplan.UnionOf(testplan.Relation("t:bigint"), testplan.Relation("t:bigint")), operators.Options{MemoryLimit: 40}, `
		0: 1
		0: 2
		0: 3
		0: wm 3`)
	testplan.Expect(t, got, `
		error: UNION ALL holds more than 40 bytes of rows (hint: one of its inputs makes no progress, and the others wait for it)`)
}

// For inputs in order the result is the stable merge of all rows, and at each
// watermark exactly the rows that no input can precede are out.
func TestUnionAgreesWithDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const inputs = 3
		leaves := make([]plan.Node, inputs)
		for i := range leaves {
			leaves[i] = testplan.Relation("t:bigint n:bigint s:varchar")
		}
		k := &testplan.Keeper{}
		g, err := graph.Build(testplan.UnionOf(leaves...), k, &operators.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var now [inputs]int64
		marks := [inputs]int64{operators.NoTime, operators.NoTime, operators.NoTime}
		type row struct{ t, n int64 }
		var all []row
		pools := [inputs]*batch.Pool{}
		for i := range pools {
			pools[i] = testplan.NewPool(leaves[i])
		}
		taken := func() (out []row) {
			for _, b := range k.Kept {
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
				if _, err := op.Signal(t.Context(), port, operators.Signal{Kind: operators.Watermark, Time: now[i]}); err != nil {
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
