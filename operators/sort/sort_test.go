package sort_test

import (
	"cmp"
	"fmt"
	"math"
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
	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// sortedResult puts a node above a leaf so that Flush divides the output into results:
// ORDER BY above it sorts each of them.
func sortedResult(in *plan.Acquire) plan.Node {
	return &plan.Sort{Input: in, Emit: plan.Emit{}}
}

// NULLs come last in ASC and first in DESC; equal rows keep their order; the
// end completes the result.
func TestSort(t *testing.T) {
	got := play.Run(t, testplan.OrderBy(testplan.Relation("x:bigint s:varchar"), "x", "s desc"), operators.Options{}, `
		3 a
		null b
		-2 a
		--
		3 null
		3 abcdefghi
		3 abcdefghj
		3 abcdefgh
		null null
		close`)
	testplan.Expect(t, got, `
		-2 a
		3 null
		3 abcdefghj
		3 abcdefghi
		3 abcdefgh
		3 a
		null null
		null b
		flush
		close`)
}

func TestSortIsStable(t *testing.T) {
	got := play.Run(t, testplan.OrderBy(testplan.Relation("x:bigint n:bigint"), "x desc"), operators.Options{}, `
		1 1
		2 2
		1 3
		2 4
		--
		1 5
		2 6
		close`)
	testplan.Expect(t, got, `
		2 2
		2 4
		2 6
		1 1
		1 3
		1 5
		flush
		close`)
}

// Enough rows that they are not sorted by insertion, which is stable in any case.
func TestSortOfManyIsStable(t *testing.T) {
	var rows strings.Builder
	want := [3]string{}
	for i := range 200 {
		row := fmt.Sprintf("%d %d\n", i%3, i)
		rows.WriteString(row)
		want[i%3] += row
	}
	got := play.Run(t, testplan.OrderBy(testplan.Relation("x:bigint n:bigint"), "x"), operators.Options{}, rows.String()+"close")
	testplan.Expect(t, got, want[0]+want[1]+want[2]+"flush\nclose")
}

// Keys need not be columns of the result.
func TestSortByExpression(t *testing.T) {
	in := testplan.Relation("x:bigint")
	s := &plan.Sort{Input: in, Keys: []plan.SortKey{{X: testplan.Call(types.Bigint, "%", testplan.Column(in, "x"), testplan.Literal(types.Int(10)))}}}
	testplan.Expect(t, play.Run(t, s, operators.Options{}, `
		19
		25
		--
		31
		close`), `
		31
		25
		19
		flush
		close`)
}

// Each result between Flushes is sorted separately. A sort ignores Ticks if its
// input answers them itself.
func TestSortEachResult(t *testing.T) {
	got := play.Run(t, testplan.OrderBy(sortedResult(testplan.Relation("x:bigint")), "x desc"), operators.Options{}, `
		1
		2
		flush
		3
		preview 5
		4
		flush
		close`)
	testplan.Expect(t, got, `
		2
		1
		flush
		3
		flush preview
		preview 5
		4
		3
		flush
		flush
		close`)
}

// Over a stream without results of its own, EMIT EVERY emits all rows so far at
// each Tick, and a preview shows them.
func TestSortEvery(t *testing.T) {
	s := testplan.OrderBy(testplan.Relation("x:bigint"), "x")
	s.Emit = plan.Emit{Mode: plan.Every, Every: time.Second}
	s.Limit = 2
	got := play.Run(t, s, operators.Options{}, `
		3
		2
		preview 1
		tick 2
		1
		9
		tick 3
		close`)
	testplan.Expect(t, got, `
		2
		3
		flush preview
		preview 1
		2
		3
		flush
		tick 2
		1
		2
		flush
		tick 3
		1
		2
		flush
		close`)
}

// Without EMIT EVERY a Tick does not end a result, but a preview is emitted.
func TestSortFinal(t *testing.T) {
	got := play.Run(t, testplan.OrderBy(testplan.Relation("x:bigint"), "x"), operators.Options{}, `
		2
		tick 1
		1
		preview 2
		close`)
	testplan.Expect(t, got, `
		tick 1
		1
		2
		flush preview
		preview 2
		1
		2
		flush
		close`)
}

func TestSortMemoryLimit(t *testing.T) {
	got := play.Run(t, testplan.OrderBy(testplan.Relation("x:bigint s:varchar"), "x"), operators.Options{MemoryLimit: 400}, `
		1 a
		--
		2 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
		--
		3 ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc
		--
		4 ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd
		close`)
	testplan.Expect(t, got, `
		error: ORDER BY holds more than 400 bytes of rows (hint: LIMIT keeps only the first rows)`)
}

// A top-n keeps n rows, however many arrive.
func TestTopNStaysSmall(t *testing.T) {
	s := testplan.OrderBy(testplan.Relation("x:bigint"), "x desc")
	s.Limit = 3
	var script, want strings.Builder
	for i := range 5000 {
		fmt.Fprintln(&script, i)
	}
	fmt.Fprintln(&want, "4999\n4998\n4997\nflush\nclose")
	testplan.Expect(t, play.Run(t, s, operators.Options{MemoryLimit: 100}, strings.ReplaceAll(script.String(), "00\n", "00\n--\n")+"--\nclose"), want.String())
}

// Sort and top-n agree with a stable sort of the rows by the definition of the
// order, for every type, direction and mixture of NULLs.
func TestSortAgreesWithDefinition(t *testing.T) {
	kinds := []types.Type{types.Bigint, types.Double, types.Varchar, types.Boolean}
	rapid.Check(t, func(t *rapid.T) {
		in := testplan.Relation("a:bigint b:double c:varchar d:boolean n:bigint")
		s := &plan.Sort{Input: in, Limit: rapid.SampledFrom([]int64{0, 1, 3, 10, 100}).Draw(t, "limit")}
		var desc []bool
		perm := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "keys")
		perm = perm[:rapid.IntRange(1, 4).Draw(t, "nkeys")]
		for _, k := range perm {
			desc = append(desc, rapid.Bool().Draw(t, "desc"))
			s.Keys = append(s.Keys, plan.SortKey{Desc: desc[len(desc)-1],
				X: &plan.Col{Index: k, Name: in.Out.Fields[k].Name, T: kinds[k]}})
		}
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []types.Value { return testplan.DrawRow(t, kinds) }), 0, 60).Draw(t, "rows")
		rec := &testplan.Keeper{}
		g, err := graph.Build(s, rec, &operators.Options{})
		if err != nil {
			t.Fatal(err)
		}
		op := g.Leaves[0].Op
		for i, r := range rows {
			b := batch.New(in.Out.Types())
			b.AppendRow(append(slices.Clone(r), types.Int(int64(i)))...)
			if _, err := op.Push(t.Context(), 0, b); err != nil {
				t.Fatal(err)
			}
		}
		if err := op.Close(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		want := make([]int, len(rows))
		for i := range want {
			want[i] = i
		}
		slices.SortStableFunc(want, func(x, y int) int {
			for i, k := range perm {
				c := valueOrder(rows[x][k], rows[y][k])
				if desc[i] {
					c = -c
				}
				if c != 0 {
					return c
				}
			}
			return 0
		})
		if s.Limit > 0 {
			want = want[:min(len(want), int(s.Limit))]
		}
		got := []int{}
		for _, b := range rec.Kept {
			for i := range b.Len() {
				got = append(got, int(b.Cols[4].Value(b.Row(i)).I))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("order %v, want %v", got, want)
		}
	})
}

// valueOrder is the definition: NULL above all, NaN above all numbers.
func valueOrder(a, b types.Value) int {
	if a.IsNull || b.IsNull {
		return bool2int(a.IsNull) - bool2int(b.IsNull)
	}
	if a.Type == types.Double {
		an, bn := math.IsNaN(a.F), math.IsNaN(b.F)
		if an || bn {
			return bool2int(an) - bool2int(bn)
		}
	}
	return cmp.Or(cmp.Compare(a.I, b.I), cmp.Compare(a.F, b.F), cmp.Compare(a.S, b.S))
}

func bool2int(b bool) int {
	if b {
		return 1
	}
	return 0
}
