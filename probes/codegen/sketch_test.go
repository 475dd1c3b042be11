package codegen

import (
	"math"
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// The kernel finds the same buckets of quantiles as BucketOf, on both sides of
// every boundary.
func TestBoundariesInTheKernel(t *testing.T) {
	testenv.NeedRoot(t)
	b := newBench(t)
	p, _ := plan.NewPartial(nil, []plan.Agg{{Fn: "median", Args: []plan.Expr{column(colArg0)}}}, 0)
	a, ok := CompileAggregate(p, (&functions{}).layout(), colEnd, "boundaries")
	if !ok {
		t.Fatal("not compiled")
	}
	prog := b.load(t, a)
	defer prog.Close()
	table, _ := Boundaries()
	check := func(x int64) {
		var m moment
		putNumber(m.memory[columns[colArg0].at.Offset:], x)
		words, ok := b.run(t, prog, m.memory[:], []uint64{0})
		if !ok {
			t.Fatalf("%d is left to the engine", x)
		}
		if _, got := DecodeBucket(words[bucketAt]); got != BucketOf(table, x) {
			t.Fatalf("%d is in bucket %d, want %d", x, got, BucketOf(table, x))
		}
	}
	n := 0
	for i := 0; i < len(table); i += 2 {
		boundary := int64(table[i])
		if table[i] > math.MaxInt64 {
			continue
		}
		n++
		check(boundary)
		check(-boundary)
		check(boundary - 1)
		check(1 - boundary)
	}
	if n < 1900 {
		t.Errorf("%d boundaries between the cells' ends", n)
	}
	for _, x := range []int64{0, 1, -1, 127, 128, 129, math.MaxInt64, math.MinInt64, math.MinInt64 + 1} {
		check(x)
	}
	for i := range cells {
		first, last := cell(uint64(i))
		if last <= math.MaxInt64 {
			check(int64(first))
			check(int64(last))
		}
	}
}

// An aggregate that the kernel cannot compute is refused as a whole.
func TestAggregatesThatAreRefused(t *testing.T) {
	x, y := column(colArg0), column(colArg1)
	star := plan.Agg{Fn: "count", Star: true}
	many := make([]plan.Expr, MaxKeys+1)
	var large []plan.Agg
	for i := range many {
		many[i] = call(types.Bigint, "+", x, lit(types.Int(int64(i))))
		large = append(large, plan.Agg{Fn: "variance", Args: []plan.Expr{many[i]}})
	}
	for _, c := range []struct {
		name string
		keys []plan.Expr
		aggs []plan.Agg
	}{
		{"a path as key", []plan.Expr{column(colExe)}, []plan.Agg{star}},
		{"text that is computed", []plan.Expr{call(types.Varchar, "upper", column(colThread))}, []plan.Agg{star}},
		{"too many keys", many, []plan.Agg{star}},
		{"what may be NULL", nil, []plan.Agg{{Fn: "sum", Args: []plan.Expr{call(types.Bigint, "/", x, y)}}}},
		{"a function of the engine", nil, []plan.Agg{{Fn: "count", Args: []plan.Expr{call(types.Bigint, "abs", x)}}}},
		{"a filter of the engine", nil, []plan.Agg{{Fn: "count", Star: true, Filter: cond("=", column(colExe), lit(types.Str("a")))}}},
		{"too large a state", nil, large},
		{"too many sketches", nil, []plan.Agg{
			{Fn: "median", Args: []plan.Expr{x}}, {Fn: "median", Args: []plan.Expr{y}},
			{Fn: "histogram", Args: []plan.Expr{x}}, {Fn: "histogram", Args: []plan.Expr{y}},
		}},
	} {
		p, ok := plan.NewPartial(c.keys, c.aggs, 0)
		if !ok {
			t.Fatalf("%s: no states", c.name)
		}
		if _, ok := CompileAggregate(p, (&functions{}).layout(), colEnd, "boundaries"); ok {
			t.Errorf("%s is compiled", c.name)
		}
	}
	p, _ := plan.NewPartial(nil, []plan.Agg{{Fn: "first", Args: []plan.Expr{x}}}, 0)
	if _, ok := CompileAggregate(p, (&functions{}).layout(), -1, "boundaries"); ok {
		t.Error("FIRST is compiled where there is no time")
	}
}

// Aggregates of one argument share its words.
func TestStatesAreSmall(t *testing.T) {
	x := []plan.Expr{column(colArg0)}
	for _, c := range []struct {
		aggs             []plan.Agg
		states, sketches int
		lone             bool
	}{
		{nil, 1, 0, true},
		{[]plan.Agg{{Fn: "count", Star: true}, {Fn: "rate", Star: true}, {Fn: "count", Args: x}}, 1, 0, true},
		{[]plan.Agg{{Fn: "sum", Args: x}, {Fn: "avg", Args: x}, {Fn: "count", Star: true}}, 4, 0, false},
		{[]plan.Agg{{Fn: "stddev", Args: x}, {Fn: "variance", Args: x}, {Fn: "avg", Args: x}}, 7, 0, false},
		{[]plan.Agg{{Fn: "quantile", Args: x}, {Fn: "median", Args: x}}, 2, 1, true},
		{[]plan.Agg{{Fn: "histogram", Args: x}}, 0, 1, true},
		{[]plan.Agg{{Fn: "median", Args: x, Filter: cond(">", column(colArg1), lit(types.Int(0)))}}, 2, 1, true},
		{[]plan.Agg{{Fn: "median", Args: x}, {Fn: "histogram", Args: x}, {Fn: "count", Star: true}}, 2, 2, true},
		{[]plan.Agg{{Fn: "median", Args: x}, {Fn: "max", Args: x}}, 4, 1, false},
	} {
		p, _ := plan.NewPartial(nil, c.aggs, 0)
		a, ok := CompileAggregate(p, (&functions{}).layout(), colEnd, "boundaries")
		if !ok || a.StateWords != c.states || a.Sketches != c.sketches || (a.Update == nil) != c.lone {
			t.Errorf("%v: %d words, %d sketches, update %v", c.aggs, a.StateWords, a.Sketches, a.Update != nil)
		}
	}
}
