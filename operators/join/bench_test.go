package join

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// BenchmarkJoin joins two streams of a row every 2 µs each, so that 10,000 rows
// lie in the window of 5 ms before and after, 10 % of them out of order. Of 1,000
// keys those of one right row in a hundred are left rows' too; of keys that are
// ever new one left row in a hundred finds a partner. (An as-of join keeps the
// latest row of each key, so that ever new ones would fill its memory.)
func BenchmarkJoin(b *testing.B) {
	for _, k := range []struct {
		name string
		kind plan.JoinKind
		on   bool
		keys int64
	}{
		{"window", plan.WindowJoin, true, 0}, {"window-1000-keys", plan.WindowJoin, true, 1000},
		{"left", plan.LeftWindowJoin, true, 0}, {"left-1000-keys", plan.LeftWindowJoin, true, 1000},
		{"asof-1000-keys", plan.AsOfJoin, true, 1000}, {"asof-any", plan.AsOfJoin, false, 1000},
	} {
		b.Run(k.name, func(b *testing.B) { joinRate(b, k.kind, k.on, k.keys) })
	}
}

// joinRate joins rows of so many keys, or, if that is 0, of ever new ones.
func joinRate(b *testing.B, kind plan.JoinKind, on bool, keys int64) {
	in := testplan.Relation("t:timestamp k:bigint v:bigint")
	j := plan.Join{Left: in, Right: testplan.Relation("t:timestamp k:bigint v:bigint"), Kind: kind, Within: 5 * time.Millisecond}
	n := plan.NewJoin(j)
	if on {
		j.On = &plan.Call{Fn: "=", T: types.Boolean, Args: []plan.Expr{testplan.Column(n, "k"), &plan.Col{Index: 4, Name: "k", T: types.Bigint}}}
		n = plan.NewJoin(j)
	}
	sink := &testplan.Nothing{}
	op, err := New(n, sink, &operators.Options{})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	pool := testplan.NewPool(in)
	const every = 2000 // ns
	var ports [2]*batch.Batch
	for port := range ports {
		ports[port] = pool.Get()
		for range batch.MaxRows {
			ports[port].AppendRow(types.Time(0), types.Int(0), types.Int(0))
		}
	}
	b.ReportAllocs()
	now := int64(0)
	for b.Loop() {
		for port, e := range ports {
			for i := range int64(batch.MaxRows) {
				t := now + i*every
				matches := port == left || rng.IntN(100) == 0
				switch {
				case keys == 0 && matches:
					e.Cols[1].Int[i] = t
				case keys == 0:
					e.Cols[1].Int[i] = t | 1
				case matches:
					e.Cols[1].Int[i] = rng.Int64N(keys)
				default:
					e.Cols[1].Int[i] = keys + rng.Int64N(keys)
				}
				if rng.IntN(10) == 0 {
					t -= rng.Int64N(int64(time.Millisecond))
				}
				e.Cols[0].Int[i] = t
			}
			if _, err := op.Push(b.Context(), port, e); err != nil {
				b.Fatal(err)
			}
		}
		now += batch.MaxRows * every
		for port := range ports {
			if _, err := op.Signal(b.Context(), port, operators.Signal{Kind: operators.Watermark, Time: now - int64(time.Millisecond)}); err != nil {
				b.Fatal(err)
			}
		}
	}
	testplan.Rate(b, 2*batch.MaxRows)
	if sink.Rows == 0 && b.N > 10 {
		b.Fatal("no row found a partner")
	}
}

// BenchmarkJoinMemory is an as-of join that holds as much as it may, 16 and 128 MiB,
// and forgets a row for each that comes: left promises nothing, so that what comes
// on the right waits. The rate should not depend on how much is held.
func BenchmarkJoinMemory(b *testing.B) {
	for _, limit := range []int64{16 << 20, 128 << 20} {
		b.Run(fmt.Sprintf("%dMiB", limit>>20), func(b *testing.B) {
			in := testplan.Relation("t:timestamp k:bigint v:bigint")
			op, err := New(plan.NewJoin(plan.Join{Left: in, Right: in, Kind: plan.AsOfJoin}), &testplan.Nothing{}, &operators.Options{JoinMemory: limit})
			if err != nil {
				b.Fatal(err)
			}
			e := testplan.NewPool(in).Get()
			for range batch.MaxRows {
				e.AppendRow(types.Time(0), types.Int(0), types.Int(0))
			}
			now := int64(0)
			push := func() {
				for i := range e.Cols[0].Int {
					now++
					e.Cols[0].Int[i] = now
				}
				if _, err := op.Push(b.Context(), right, e); err != nil {
					b.Fatal(err)
				}
			}
			for j := op.(*asOfJoin); j.sides[right].bytes() < limit-int64(batch.MaxRows)*64; {
				push()
			}
			for b.Loop() {
				push()
			}
			testplan.Rate(b, batch.MaxRows)
		})
	}
}
