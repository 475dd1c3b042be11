package agg

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"endoscope/operators"
	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// A string has one group, whatever dictionary it arrives in; and when the strings
// of closed windows are dropped, the open ones keep theirs.
func TestAggregateCompactsKeys(t *testing.T) {
	in := testplan.Relation("window_start:bigint window_end:bigint s:varchar z:varchar")
	for _, keys := range []string{"window_start window_end s", "window_start window_end s z", "s window_end z window_start"} {
		n := testplan.GroupBy(in, keys, "count(*)")
		rec := &testplan.Recorder{Schema: n.Schema()}
		op, err := New(n, rec, &operators.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, a := context.Background(), op
		largest := 0
		for w := range int64(100) {
			b := batch.New(in.Out.Types()) // with dictionaries of its own
			for i := range 1000 {
				s := fmt.Sprint("s", w, "-", i)
				b.AppendRow(types.Int(10*w), types.Int(10*w+20), types.Str(s), types.Str("z"))
			}
			b.AppendRow(types.Int(0), types.Int(10_000), types.Str("stays"), types.Str("z"))
			if _, err := op.Push(ctx, 0, b); err != nil {
				t.Fatal(err)
			}
			if _, err := op.Signal(ctx, 0, operators.Signal{Kind: operators.Watermark, Time: 10 * w}); err != nil {
				t.Fatal(err)
			}
			largest = max(largest, a.keys[0].Space.Size())
		}
		if err := op.Close(ctx, 0); err != nil {
			t.Fatal(err)
		}
		text := rec.Text.String()
		if largest > rowstore.MaxDict+10_000 {
			t.Errorf("by %s: %d strings kept", keys, largest)
		}
		if n := strings.Count(text, "stays"); n != 1 || !strings.Contains(text, " 100\nflush\nclose") {
			t.Errorf("by %s: the long window has %d groups", keys, n)
		}
		if n := strings.Count(text, "\n") - strings.Count(text, "wm") - strings.Count(text, "flush"); n != 100_000+1+1 {
			t.Errorf("by %s: %d groups", keys, n)
		}
	}
}

// The aggregates of the language and those implemented are the same.
func TestAggregateFunctionsComplete(t *testing.T) {
	for _, f := range plan.AggFuncs {
		kinds := f.Args
		if kinds == nil {
			kinds = []types.Type{types.Null}
		}
		for _, arg := range kinds {
			if arg == plan.AnyType {
				arg = types.List
			}
			a := plan.Agg{Fn: f.Name, T: f.Result(arg), Star: f.Args == nil}
			if f.Optional == 0 {
				for _, p := range f.Params {
					a.Params = append(a.Params, types.Value{Type: p, I: 1, F: 0.5})
				}
			}
			if _, err := newAccumulator(&a, arg, &fold.Lanes{}); err != nil {
				t.Errorf("%s(%s): %v", f.Name, arg, err)
			}
		}
	}
}

// After the first batches nothing is allocated, for all functions.
func TestAggregateAllocatesNothing(t *testing.T) {
	in := testplan.Relation("t:bigint s:varchar i:bigint f:double")
	for _, keys := range []string{"", "s", "i", "s i"} {
		n := testplan.GroupBy(in, keys, "count(*); sum(i); avg(f); min(s); max(i); stddev(i); variance(f); "+
			"quantile(f, 0.9); count(distinct s); topk(i, 3); histogram(i); first(s); last(f); rate(*)")
		n.Aggs[1].Filter = testplan.Call(types.Boolean, ">", testplan.Column(in, "i"), testplan.Literal(types.Int(1)))
		op, err := New(n, &testplan.Recorder{}, &operators.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b := batch.New(in.Out.Types())
		for i := range int64(batch.MaxRows) {
			b.AppendRow(types.Int(i), types.Str(fmt.Sprint(i%7)), types.Int(i%5), types.Float(float64(i)))
		}
		ctx := context.Background()
		push := func() {
			if _, err := op.Push(ctx, 0, b); err != nil {
				t.Fatal(err)
			}
		}
		push()
		if n := testing.AllocsPerRun(100, push); n >= 1 {
			t.Errorf("by %q: %v allocations per batch", keys, n)
		}
	}
}
