package operators

import (
	"math/rand/v2"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// BenchmarkJoin joins two streams of a row every 2 µs each, so that 10,000 rows
// lie in the window of 5 ms before and after, 10 % of them out of order; one
// row in a hundred finds a partner.
func BenchmarkJoin(b *testing.B) {
	for _, k := range []struct {
		name string
		kind plan.JoinKind
		on   bool
	}{{"window", plan.WindowJoin, true}, {"left", plan.LeftWindowJoin, true}, {"asof", plan.AsOfJoin, true}, {"asof-any", plan.AsOfJoin, false}} {
		b.Run(k.name, func(b *testing.B) { joinRate(b, k.kind, k.on) })
	}
}

func joinRate(b *testing.B, kind plan.JoinKind, on bool) {
	in := relation("t:timestamp k:bigint v:bigint")
	j := plan.Join{Left: in, Right: relation("t:timestamp k:bigint v:bigint"), Kind: kind, Within: 5 * time.Millisecond}
	n := plan.NewJoin(j)
	if on {
		j.On = &plan.Call{Fn: "=", T: batch.Boolean, Args: []plan.Expr{column(n, "k"), &plan.Col{Index: 4, Name: "k", T: batch.Bigint}}}
		n = plan.NewJoin(j)
	}
	sink := &nothing{}
	op, err := newJoin(n, sink, &Options{})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	pool := newPool(in)
	const every = 2000 // ns
	var ports [2]*batch.Batch
	for port := range ports {
		ports[port] = pool.Get()
		for range batch.MaxRows {
			ports[port].AppendRow(batch.Time(0), batch.Int(0), batch.Int(0))
		}
	}
	b.ReportAllocs()
	now := int64(0)
	for b.Loop() {
		for port, e := range ports {
			for i := range int64(batch.MaxRows) {
				t := now + i*every
				e.Cols[1].Int[i] = t | int64(port) // keys that no other row has,
				if port == right && rng.IntN(100) == 0 {
					e.Cols[1].Int[i] = t // but for these
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
			if _, err := op.Signal(b.Context(), port, Signal{Kind: Watermark, Time: now - int64(time.Millisecond)}); err != nil {
				b.Fatal(err)
			}
		}
	}
	rate(b, 2*batch.MaxRows)
	if sink.rows == 0 && b.N > 10 {
		b.Fatal("no row found a partner")
	}
}
