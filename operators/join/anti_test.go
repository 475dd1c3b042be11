package join

import (
	"context"
	"slices"
	"testing"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// gathered records the second column of its input, and the gaps.
type gathered struct {
	values []int64
	lost   uint64
}

func (g *gathered) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	for _, r := range batch.RowsOf(b) {
		g.values = append(g.values, b.Cols[1].Int[r])
	}
	return operators.More, nil
}

func (g *gathered) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Gap {
		g.lost += s.N
	}
	return operators.More, nil
}

func (g *gathered) Close(context.Context, int) error { return nil }

// TestAntiJoinKeepsWhatHasNoPartner runs a program that allocates and releases, and leaks
// one block in a thousand, for longer than there is memory for all allocations: an anti
// join with an hour's window finds exactly the leaked blocks, and loses nothing. Addresses
// are reused, as by allocators.
func TestAntiJoinKeepsWhatHasNoPartner(t *testing.T) {
	in := testplan.Relation("t:timestamp k:bigint v:bigint")
	j := plan.Join{Left: in, Right: in, Kind: plan.LeftWindowJoin, Within: time.Hour, Followed: 1, Anti: true,
		On: &plan.Call{Fn: "=", T: types.Boolean, Args: []plan.Expr{testplan.Column(in, "k"), &plan.Col{Index: 4, Name: "k", T: types.Bigint}}}}
	sink := &gathered{}
	const memory = 1 << 20
	op, err := New(plan.NewJoin(j), sink, &operators.Options{JoinMemory: memory})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	pool := testplan.NewPool(in)
	const rounds = 300
	var leaked []int64
	now := int64(0)
	push := func(port int, keys []int64) {
		b := pool.Get()
		defer b.Release()
		for _, k := range keys {
			now += int64(100 * time.Microsecond)
			b.AppendRow(types.Time(now), types.Int(k), types.Int(0))
		}
		if _, err := op.Push(ctx, port, b); err != nil {
			t.Fatal(err)
		}
	}
	for round := range int64(rounds) {
		var allocated, released []int64
		for k := range int64(batch.MaxRows) {
			if k%1000 == 500 {
				k += 1_000_000 * (round + 1)
				leaked = append(leaked, k)
			} else {
				released = append(released, k)
			}
			allocated = append(allocated, k)
		}
		push(left, allocated)
		push(right, released)
		for port := range 2 {
			if _, err := op.Signal(ctx, port, operators.Signal{Kind: operators.Watermark, Time: now}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for port := range 2 {
		if err := op.Close(ctx, port); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(sink.values)
	slices.Sort(leaked)
	if sink.lost != 0 || !slices.Equal(sink.values, leaked) {
		t.Errorf("%d rows without partner, %d lost, want %d and none", len(sink.values), sink.lost, len(leaked))
	}
	if all := int64(rounds * batch.MaxRows * 24); all < 4*memory {
		t.Fatalf("%d bytes of rows would fit", all)
	}
}
