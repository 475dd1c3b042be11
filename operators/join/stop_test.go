package join

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// enough is a consumer that calls a function for each batch and returns its status.
type enough struct {
	testplan.Nothing
	batches int
	answer  func() operators.Status
}

func (e *enough) Push(context.Context, int, *batch.Batch) (operators.Status, error) {
	e.batches++
	return e.answer(), nil
}

// A join whose rows are not needed any more stops within the batch that has a million
// pairs, whether its consumer is drained or the query is abandoned.
func TestJoinStopsWithinABatch(t *testing.T) {
	for _, kind := range []plan.JoinKind{plan.WindowJoin, plan.LeftWindowJoin, plan.ValueJoin} {
		for _, keyed := range []bool{false, true} {
			for _, abandoned := range []bool{false, true} {
				t.Run(fmt.Sprint(kind, "/keyed=", keyed, "/abandoned=", abandoned), func(t *testing.T) {
					checkStopsWithinBatch(t, kind, keyed, abandoned)
				})
			}
		}
	}
}

func checkStopsWithinBatch(t *testing.T, kind plan.JoinKind, keyed, abandoned bool) {
	in, other := testplan.Relation("t:timestamp k:bigint"), testplan.Relation("t:timestamp k:bigint")
	other.OnDemand = kind == plan.ValueJoin
	j := plan.Join{Left: in, Right: other, Kind: kind, Within: time.Second}
	if keyed {
		j.On = testplan.Call(types.Boolean, "=", testplan.Column(in, "k"), &plan.Col{Index: 3, Name: "k", T: types.Bigint})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	full := testplan.NewPool(in).Get()
	defer full.Release()
	for range batch.MaxRows {
		full.AppendRow(types.Time(0), types.Int(1))
	}
	sink := &enough{answer: func() operators.Status {
		if abandoned {
			cancel()
			return operators.More
		}
		return operators.Drain
	}}
	var op operators.Operator
	give := func() {
		if _, err := op.Push(ctx, right, full); err != nil {
			t.Fatal(err)
		}
	}
	op, err := New(plan.NewJoin(j), sink, &operators.Options{Demand: func(*plan.Acquire) func(context.Context) error {
		return func(context.Context) error { give(); return nil }
	}})
	if err != nil {
		t.Fatal(err)
	}
	if kind != plan.ValueJoin {
		give()
	}
	st, err := op.Push(ctx, left, full)
	if abandoned && !errors.Is(err, context.Canceled) || !abandoned && (err != nil || st != operators.Drain) {
		t.Errorf("%v, %v", st, err)
	}
	if sink.batches != 1 {
		t.Errorf("%d batches of pairs were given", sink.batches)
	}
}

// It also stops searching if there is nothing to emit.
func TestJoinStopsLooking(t *testing.T) {
	in := testplan.Relation("t:timestamp k:bigint")
	op, err := New(plan.NewJoin(plan.Join{Left: in, Right: testplan.Relation("t:timestamp k:bigint"), Kind: plan.WindowJoin, Within: time.Second}), &testplan.Nothing{}, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := testplan.NewPool(in).Get()
	defer b.Release()
	b.AppendRow(types.Time(0), types.Int(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := op.Push(ctx, left, b); !errors.Is(err, context.Canceled) {
		t.Errorf("an abandoned query goes on: %v", err)
	}
}

// abandonedAt is a context that is done after a number of checks.
type abandonedAt struct {
	context.Context
	asks, last int
}

func (c *abandonedAt) Err() error {
	if c.asks++; c.asks >= c.last {
		return context.Canceled
	}
	return nil
}

// Searching many rows of one key, all of them outside the window, is interrupted.
func TestJoinStopsLookingAmongMany(t *testing.T) {
	in, other := testplan.Relation("t:timestamp k:bigint"), testplan.Relation("t:timestamp k:bigint")
	j := plan.Join{Left: in, Right: other, Kind: plan.WindowJoin, Within: time.Second}
	j.On = testplan.Call(types.Boolean, "=", testplan.Column(in, "k"), &plan.Col{Index: 3, Name: "k", T: types.Bigint})
	op, err := New(plan.NewJoin(j), &testplan.Nothing{}, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := testplan.NewPool(in).Get()
	defer b.Release()
	for range batch.MaxRows {
		b.AppendRow(types.Time(0), types.Int(1))
	}
	for range 16 {
		if _, err := op.Push(t.Context(), right, b); err != nil {
			t.Fatal(err)
		}
	}
	for i := range b.Cols[0].Int {
		b.Cols[0].Int[i] = int64(time.Hour)
	}
	ctx := &abandonedAt{Context: t.Context(), last: 5}
	if _, err := op.Push(ctx, left, b); !errors.Is(err, context.Canceled) || ctx.asks != 5 {
		t.Errorf("it asked %d times: %v", ctx.asks, err)
	}
}
