package duckdbpeer

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// What joins are measured on: two streams of a row every 2 µs each, so that
// 10,000 rows lie in the window of 5 ms before and after; 10 % come up to 1 ms
// late.
const (
	joinRows  = 1 << 20 // of each stream
	joinEvery = 2 * time.Microsecond
	joinLate  = time.Millisecond
	joinReach = 5 * time.Millisecond
	joinKeys  = 1000
)

// stream is one of two, in order of arrival.
type stream struct{ t, k, v []int64 }

// streams are a left one with 1,000 keys, and a right one of whose rows that
// many in a hundred have one of these.
func streams(matching int) (both [2]stream) {
	rng := rand.New(rand.NewPCG(3, uint64(matching)))
	for side := range both {
		s := &both[side]
		for i := range int64(joinRows) {
			t, k := i*int64(joinEvery), rng.Int64N(joinKeys)
			if side == 1 && rng.IntN(100) >= matching {
				k += joinKeys
			}
			if rng.IntN(10) == 0 {
				t -= rng.Int64N(int64(joinLate))
			}
			s.t, s.k, s.v = append(s.t, t), append(s.k, k), append(s.v, rng.Int64N(1000))
		}
	}
	return both
}

// pairs is the result of a join, by which the two engines are compared.
type pairs struct{ count, left, right int64 }

// pairSink reads pairs of rows (t, k, v).
type pairSink struct{ pairs }

func (s *pairSink) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	s.count += int64(b.Len())
	for i := range b.Len() {
		s.left += b.Cols[2].Int[b.Row(i)]
		s.right += b.Cols[5].Int[b.Row(i)]
	}
	return operators.More, nil
}

func (s *pairSink) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	return operators.More, nil
}

func (s *pairSink) Close(context.Context, int) error { return nil }

func acquired(name string) *plan.Acquire {
	return &plan.Acquire{Stream: name, Out: types.Schema{Time: 0, Fields: []types.Field{
		{Name: "t", Type: types.Timestamp}, {Name: "k", Type: types.Bigint}, {Name: "v", Type: types.Bigint}}}}
}

// join is left JOIN right ON left.k = right.k, of a kind, over rows as they
// arrive.
func join(ctx context.Context, kind plan.JoinKind, both *[2]stream) (pairs, error) {
	equal := &plan.Call{Fn: "=", T: types.Boolean, Args: []plan.Expr{
		&plan.Col{Index: 1, Name: "k", T: types.Bigint}, &plan.Col{Index: 4, Name: "k", T: types.Bigint}}}
	root := plan.NewJoin(plan.Join{Left: acquired("left"), Right: acquired("right"), Kind: kind, Within: joinReach, On: equal})
	out := &pairSink{}
	g, err := graph.Build(root, out, &operators.Options{})
	if err != nil {
		return pairs{}, err
	}
	pool := batch.NewPool(acquired("").Out.Types())
	for from := 0; from < joinRows; from += batch.MaxRows {
		to := from + batch.MaxRows
		for side, leaf := range g.Leaves {
			s, b := &both[side], pool.Get()
			b.N = batch.MaxRows
			b.Cols[0].Int, b.Cols[1].Int, b.Cols[2].Int = s.t[from:to], s.k[from:to], s.v[from:to]
			_, err := leaf.Op.Push(ctx, leaf.Port, b)
			if err != nil {
				return pairs{}, err
			}
			b.Release()
		}
		mark := operators.Signal{Kind: operators.Watermark, Time: int64(to)*int64(joinEvery) - int64(joinLate)}
		for _, leaf := range g.Leaves {
			if _, err := leaf.Op.Signal(ctx, leaf.Port, mark); err != nil {
				return pairs{}, err
			}
		}
	}
	for _, leaf := range g.Leaves {
		if err := leaf.Op.Close(ctx, leaf.Port); err != nil {
			return pairs{}, err
		}
	}
	return out.pairs, nil
}

// DuckDB's queries; the times are in columns of its kind.
var (
	duckRange = fmt.Sprintf(`SELECT count(*), coalesce(sum(l.v), 0)::BIGINT, coalesce(sum(r.v), 0)::BIGINT FROM l JOIN r
	ON l.k = r.k AND r.t BETWEEN l.t - %d AND l.t + %[1]d`, joinReach.Nanoseconds())
	duckAsOf = `SELECT count(*), coalesce(sum(l.v), 0)::BIGINT, coalesce(sum(r.v), 0)::BIGINT FROM l ASOF JOIN r ON l.k = r.k AND l.t >= r.t`
)

// BenchmarkJoin measures both engines' joins on the same rows, in million rows of
// both streams; it fails if the results differ.
func BenchmarkJoin(b *testing.B) {
	for _, c := range []struct {
		name     string
		kind     plan.JoinKind
		matching int
		query    string
	}{
		{"range", plan.WindowJoin, 1, duckRange},
		{"asof", plan.AsOfJoin, 1, duckAsOf},
		{"asof-all-match", plan.AsOfJoin, 100, duckAsOf},
	} {
		b.Run(c.name, func(b *testing.B) {
			both := streams(c.matching)
			db := open(b)
			for side, table := range []string{"l", "r"} {
				s := both[side]
				fill(b, db, table, "t BIGINT, k BIGINT, v BIGINT", joinRows, func(i int) []driver.Value { return []driver.Value{s.t[i], s.k[i], s.v[i]} })
			}
			alternate(b, 2*joinRows, []engine[pairs]{
				{"duckdb", func() (p pairs, err error) {
					err = db.QueryRow(c.query).Scan(&p.count, &p.left, &p.right)
					return p, err
				}},
				{"ours", func() (pairs, error) { return join(b.Context(), c.kind, &both) }},
			})
		})
	}
}
