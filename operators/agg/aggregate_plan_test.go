package agg_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func TestAggregateFinal(t *testing.T) {
	in := testplan.Relation("s:varchar x:bigint")
	root := testplan.GroupBy(in, "s", "count(*); count(x); sum(x); min(x); max(x)")
	testplan.Expect(t, play.Run(t, root, operators.Options{}, `
		b 1
		a 2
		null 7
		b null
		--
		c 3
		b 4
		null 1
		wm 9
		close
	`), `
		wm 9
		b 3 2 5 1 4
		a 1 1 2 2 2
		null 2 2 8 1 7
		c 1 1 3 3 3
		flush
		close
	`)
}

// Without GROUP BY there is a result even without rows; with GROUP BY there is
// none.
func TestAggregateOfNothing(t *testing.T) {
	in := testplan.Relation("s:varchar x:bigint d:duration f:double")
	all := "count(*); count(x); count(distinct s); sum(x); avg(x); avg(d); min(s); max(f); stddev(x); variance(f); " +
		"quantile(x, 0.5); median(d); histogram(x); topk(s, 3); first(s); last(x); rate(*)"
	testplan.Expect(t, play.Run(t, testplan.GroupBy(in, "", all), operators.Options{}, "close"), `
		0 0 0 null null null null null null null null null null null null null 0
		flush
		close
	`)
	testplan.Expect(t, play.Run(t, testplan.GroupBy(in, "s", all), operators.Options{}, "close"), `
		flush
		close
	`)
}

// EMIT EVERY emits the totals since the start at each Tick, and at the end if rows
// have arrived since the last Tick.
func TestAggregateEvery(t *testing.T) {
	in := testplan.Relation("s:varchar x:bigint")
	root := testplan.Every(testplan.GroupBy(in, "s", "sum(x)"), plan.Every)
	testplan.Expect(t, play.Run(t, root, operators.Options{}, `
		a 1
		tick 10
		tick 20
		b 2
		a 1
		close
	`), `
		a 1
		flush
		tick 10
		a 1
		flush
		tick 20
		a 2
		b 2
		flush
		close
	`)
	testplan.Expect(t, play.Run(t, root, operators.Options{}, `
		a 1
		tick 10
		close
	`), `
		a 1
		flush
		tick 10
		close
	`)
}

// EMIT CHANGES emits each group that a batch changed once, with its totals.
func TestAggregateChanges(t *testing.T) {
	in := testplan.Relation("s:varchar x:bigint")
	root := testplan.Every(testplan.GroupBy(in, "s", "sum(x)"), plan.Changes)
	testplan.Expect(t, play.Run(t, root, operators.Options{}, `
		a 1
		b 2
		a 1
		--
		b 3
		tick 10
		preview 11
		close
	`), `
		a 2
		b 2
		b 5
		tick 10
		preview 11
		close
	`)
}

// A preview does not change the state.
func TestAggregatePreview(t *testing.T) {
	in := testplan.Relation("s:varchar x:bigint")
	root := testplan.GroupBy(in, "s", "sum(x)")
	testplan.Expect(t, play.Run(t, root, operators.Options{}, `
		a 1
		preview 10
		tick 10
		a 1
		close
	`), `
		a 1
		flush preview
		preview 10
		tick 10
		a 2
		flush
		close
	`)
}

// Windows are emitted in the order of their ends, each followed by Flush, when the
// watermark passes; rows behind the watermark are late.
func TestAggregateWindows(t *testing.T) {
	in := testplan.Relation("t:bigint s:varchar window_start:bigint window_end:bigint")
	root := testplan.GroupBy(in, "s window_start window_end", "count(*); rate(*); last(t)")
	testplan.Expect(t, play.Run(t, root, operators.Options{}, `
		12 a 10 20
		3 b 0 10
		4 a 0 10
		13 a 10 20
		wm 10
		5 a 0 10
		14 b 10 20
		33 c 30 40
		6 a 0 10
		wm 35
		close
	`), `
		b 0 10 1 1e+08 3
		a 0 10 1 1e+08 4
		flush
		wm 10
		gap late 2
		a 10 20 2 2e+08 13
		b 10 20 1 1e+08 14
		flush
		wm 35
		c 30 40 1 1e+08 33
		flush
		close
	`)
}

// Sessions may end together and have begun apart: they are different windows.
func TestAggregateSessions(t *testing.T) {
	in := testplan.Relation("t:bigint s:varchar window_start:bigint window_end:bigint")
	root := testplan.GroupBy(in, "window_end s window_start", "count(*)")
	testplan.Expect(t, play.Run(t, root, operators.Options{}, `
		12 a 10 20
		15 b 15 20
		16 a 10 20
		close
	`), `
		20 a 10 2
		flush
		20 b 15 1
		flush
		close
	`)
}

// Without other keys a window exists as soon as it has a row.
func TestAggregateWindowsWithoutKeys(t *testing.T) {
	in := testplan.Relation("t:bigint window_start:bigint window_end:bigint")
	root := testplan.GroupBy(in, "window_start window_end", "count(*)")
	testplan.Expect(t, play.Run(t, root, operators.Options{}, `
		wm 7
		12 10 20
		25 20 30
		13 10 20
		close
	`), `
		wm 7
		10 20 2
		flush
		20 30 1
		flush
		close
	`)
}

func TestAggregateFilterClause(t *testing.T) {
	in := testplan.Relation("s:varchar x:bigint")
	root := testplan.GroupBy(in, "s", "count(*); count(*); sum(x)")
	for i := range root.Aggs[1:] {
		root.Aggs[1+i].Filter = testplan.Call(types.Boolean, ">", testplan.Column(in, "x"), testplan.Literal(types.Int(1)))
	}
	testplan.Expect(t, play.Run(t, root, operators.Options{}, `
		a 1
		a 2
		b 1
		a null
		a 5
		close
	`), `
		a 4 2 7
		b 1 0 null
		flush
		close
	`)
}

// Keys of every type, alone and together, with NULLs; 0 equals -0.
func TestAggregateKeys(t *testing.T) {
	in := testplan.Relation("i:bigint f:double b:boolean s:varchar z:varchar l:list")
	rows := `
		1 0 true a x p,q
		null -0 null a y null
		1 null true null x p
		0 NaN false a x p,q
		null NaN null '' x null
		1 0 true a x p
		close
	`
	for _, c := range []struct{ keys, want string }{
		{"i", "1 3\nnull 2\n0 1"},
		{"f", "0 3\nnull 1\nNaN 2"},
		{"b", "true 3\nnull 2\nfalse 1"},
		{"s", "a 4\nnull 1\n'' 1"},
		{"l", "p,q 2\nnull 2\np 2"},
		{"l i", "p,q 1 1\nnull null 2\np 1 2\np,q 0 1"},
		{"s z", "a x 3\na y 1\nnull x 1\n'' x 1"},
		{"b s", "true a 2\nnull a 1\ntrue null 1\nfalse a 1\nnull '' 1"},
		{"i b", "1 true 3\nnull null 2\n0 false 1"},
		{"s f i", "a 0 1 2\na 0 null 1\nnull null 1 1\na NaN 0 1\n'' NaN null 1"},
	} {
		t.Run(c.keys, func(t *testing.T) {
			got := play.Run(t, testplan.GroupBy(in, c.keys, "count(*)"), operators.Options{}, rows)
			testplan.Expect(t, got, c.want+"\nflush\nclose")
		})
	}
}

// Equal stacks of a stream share one value: a known list is identified by its
// address, an equal one by its text; an array of other lists is different.
func TestAggregateSharedLists(t *testing.T) {
	root := testplan.GroupBy(testplan.Relation("l:list"), "l", "count(*)")
	rec := &testplan.Recorder{Schema: root.Schema()}
	g, err := graph.Build(root, rec, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Abandon()
	all := []types.Value{types.Str("leaf"), types.Str("middle"), types.Str("root")}
	lists := [][]types.Value{all, all[:2], slices.Clone(all), all[1:]}
	ctx := context.Background()
	leaf := g.Leaves[0]
	for range 2 {
		b := batch.New(leaf.Acquire.Out.Types())
		for range 100 {
			for _, l := range lists {
				b.AppendRow(types.ListOf(l))
			}
		}
		if _, err := leaf.Op.Push(ctx, leaf.Port, b); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if err := leaf.Op.Close(ctx, leaf.Port); err != nil {
		t.Fatal(err)
	}
	testplan.Expect(t, rec.Text.String(), "leaf,middle,root 400\nleaf,middle 200\nmiddle,root 200\nflush\nclose")
}

// What no group is left for is counted, and the groups there are go on.
func TestAggregateGroupsFull(t *testing.T) {
	in := testplan.Relation("s:varchar i:bigint f:double")
	for _, key := range []string{"s", "i", "s i f"} {
		root := testplan.GroupBy(in, key, "count(*)")
		// Two groups' worth of memory.
		limit := int64(48 * (1 + len(root.Keys) + 1) * 2)
		got := play.Run(t, root, operators.Options{MemoryLimit: limit}, `
			1 1 1
			2 2 2
			3 3 3
			1 1 1
			4 4 4
			close
		`)
		if want := "gap groups full 2\n"; !strings.HasPrefix(got, want) || !strings.Contains(got, "1 2\n") {
			t.Errorf("by %s: got\n%s", key, got)
		}
	}
}

func TestAggregateDrains(t *testing.T) {
	in := testplan.Relation("t:bigint window_start:bigint window_end:bigint")
	root := &plan.Limit{Input: testplan.GroupBy(in, "window_start window_end", "count(*)"), N: 1}
	testplan.Expect(t, play.Run(t, root, operators.Options{}, `
		5 0 10
		15 10 20
		wm 30
		35 30 40
		close
	`), `
		0 10 1
		flush
		wm 30
		drain 0
		close
	`)
}

func TestAggregateRefusals(t *testing.T) {
	in := testplan.Relation("x:bigint")
	for text, want := range map[string]string{
		"quantile(x, 1.5)":              "between 0 and 1",
		"topk(x, 0)":                    "1 to 10000 values",
		"histogram(x, 10.0, 0.0, 1.0)":  "lo must be less than hi",
		"histogram(x, 0.0, 10.0, 0.0)":  "lo must be less than hi",
		"histogram(x, 0.0, 10.0, -1.0)": "lo must be less than hi",
	} {
		_, err := graph.Build(testplan.GroupBy(in, "", text), &testplan.Recorder{}, &operators.Options{})
		if _, ok := err.(*plan.Error); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
