package graph

import (
	"context"
	"slices"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// taken collects the first column of what reaches a leaf, and the kinds of signals.
type taken struct {
	rows    []int64
	signals []operators.SignalKind
}

func (k *taken) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	for _, row := range batch.RowsOf(b) {
		k.rows = append(k.rows, b.Cols[0].Int[row])
	}
	return operators.More, nil
}

func (k *taken) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	k.signals = append(k.signals, s.Kind)
	return operators.More, nil
}

func (k *taken) Close(context.Context, int) error { return nil }

// TestReporting suspends everything, one thread, both, and what was aggregated.
func TestReporting(t *testing.T) {
	schema := types.Schema{Time: 0, Fields: []types.Field{{Name: "timestamp", Type: types.Timestamp}, {Name: "thread_name", Type: types.Varchar}}}
	for _, c := range []struct {
		name       string
		said       []operators.Signal
		filterOnly []int
		want       []int64
		partial    bool // whether partial rows pass
	}{
		{"nothing", nil, nil, []int64{1, 2, 3}, true},
		{"all", []operators.Signal{{Kind: operators.Suspend}}, nil, nil, false},
		{"all, and resumed", []operators.Signal{{Kind: operators.Suspend}, {Kind: operators.Resume}}, nil, []int64{1, 2, 3}, true},
		{"a thread", []operators.Signal{{Kind: operators.Suspend, Thread: "a"}}, nil, []int64{2, 3}, true},
		{"each thread", []operators.Signal{{Kind: operators.Suspend, Thread: "a"}, {Kind: operators.Suspend, Thread: "b"}}, nil, []int64{3}, true},
		{"a thread, and another resumed", []operators.Signal{{Kind: operators.Suspend, Thread: "a"}, {Kind: operators.Resume, Thread: "b"}}, nil, []int64{2, 3}, true},
		{"a thread is not all", []operators.Signal{{Kind: operators.Suspend}, {Kind: operators.Suspend, Thread: "a"}, {Kind: operators.Resume}}, nil, []int64{2, 3}, true},
		{"names that are not sent", []operators.Signal{{Kind: operators.Suspend, Thread: "a"}}, []int{1}, []int64{1, 2, 3}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rows, partial taken
			leaf := reportingOf(Leaf{Acquire: &plan.Acquire{Out: schema, FilterOnly: c.filterOnly}, Op: &rows, Partial: &partial})
			ctx := context.Background()
			for _, s := range c.said {
				if _, err := leaf.Op.Signal(ctx, 0, s); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := leaf.Op.Signal(ctx, 0, operators.Signal{Kind: operators.Watermark}); err != nil {
				t.Fatal(err)
			}
			b := batch.New(schema.Types())
			b.AppendRow(types.Time(1), types.Str("a"))
			b.AppendRow(types.Time(2), types.Str("b"))
			b.AppendRow(types.Time(3), types.NullOf(types.Varchar))
			b.Cols[1].Values = b.Cols[1].Dict.Values()
			for _, op := range []operators.Operator{leaf.Op, leaf.Partial} {
				if _, err := op.Push(ctx, 0, b); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(rows.rows, c.want) || len(partial.rows) > 0 != c.partial {
				t.Errorf("%v pass, want %v; partial rows: %v", rows.rows, c.want, partial.rows)
			}
			if !slices.Equal(rows.signals, []operators.SignalKind{operators.Watermark}) {
				t.Errorf("signals %v pass", rows.signals)
			}
		})
	}
}
