package graph_test

import (
	"context"
	"slices"
	"testing"

	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// foldByFirstStage is fold as FirstStage does it (TestStagesAgreeWithOracle).
func foldByFirstStage(a *plan.Acquire, rows [][]types.Value) (out [][]types.Value, err error) {
	s, err := agg.NewFirstStage(a.Partial, a.Out)
	if err != nil {
		return nil, err
	}
	for part := range slices.Chunk(rows, batch.MaxRows) {
		b := batch.New(a.Out.Types())
		for _, vs := range part {
			b.AppendRow(vs...)
		}
		if a.Filter != nil {
			f, err := expr.CompileFilter(a.Filter, a.Out.Types())
			if err != nil {
				return nil, err
			}
			if b.Sel, err = f.Select(b, []uint16{}); err != nil {
				return nil, err
			}
		}
		if err := s.Push(context.Background(), b); err != nil {
			return nil, err
		}
	}
	err = s.Emit(func(b *batch.Batch) error {
		for i := range b.N {
			vs := make([]types.Value, len(b.Cols))
			for c := range vs {
				vs[c] = b.Cols[c].Value(i)
			}
			out = append(out, vs)
		}
		b.Release()
		return nil
	})
	return out, err
}

// What was given is forgotten, and nothing is given of nothing.
func TestFirstStageForgets(t *testing.T) {
	in := types.Schema{Time: -1, Fields: []types.Field{{Name: "s", Type: types.Varchar}, {Name: "x", Type: types.Bigint}}}
	col := func(i int) plan.Expr { return &plan.Col{Index: i, Name: in.Fields[i].Name, T: in.Fields[i].Type} }
	p, ok := plan.NewPartial([]plan.Expr{col(0)}, []plan.Agg{{Fn: "count", Star: true, T: types.Bigint}, {Fn: "histogram", Args: []plan.Expr{col(1)}, T: types.List}, {Fn: "median", Args: []plan.Expr{col(1)}, T: types.Double}}, 0)
	if !ok {
		t.Fatal("no partial rows")
	}
	s, err := agg.NewFirstStage(p, in)
	if err != nil {
		t.Fatal(err)
	}
	for round, word := range []string{"a", "b"} {
		b := batch.New(in.Types())
		for i := range 3 {
			b.AppendRow(types.Str(word), types.Int(int64(round+i%2)))
		}
		if err := s.Push(t.Context(), b); err != nil || s.Groups() != 1 {
			t.Fatal(s.Groups(), err)
		}
		var got []string
		for range 2 {
			if err := s.Emit(func(b *batch.Batch) error {
				for i := range b.N {
					got = append(got, rowText(b, i))
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		// Samples are integers (01): the least one, how many there are of it, the next one.
		want := [][]string{
			{"'a' 3 0 0 0 0 3 '\x01\x00\x04\x01\x02'", "'a' 0 0 2 0 0 0 null", "'a' 0 1 1 0 0 0 null"},
			{"'b' 3 0 0 0 0 3 '\x01\x02\x04\x01\x02'", "'b' 0 1 2 0 0 0 null", "'b' 0 2 1 0 0 0 null"},
		}[round]
		if !slices.Equal(got, want) {
			t.Errorf("round %d: %q, want %q", round, got, want)
		}
	}
}

// rowText is a partial row without its pane.
func rowText(b *batch.Batch, row int) (text string) {
	for c := range b.Cols[1:] {
		v := b.Cols[1+c].Value(row)
		if c > 0 {
			text += " "
		}
		text += plan.FormatValue(v)
	}
	return text
}

// BenchmarkFirstStage folds rows of 100 groups, and gives their states each 64
// batches.
func BenchmarkFirstStage(b *testing.B) {
	in := types.Schema{Time: -1, Fields: []types.Field{{Name: "s", Type: types.Bigint}, {Name: "x", Type: types.Bigint}}}
	col := func(i int) plan.Expr { return &plan.Col{Index: i, Name: in.Fields[i].Name, T: in.Fields[i].Type} }
	p, _ := plan.NewPartial([]plan.Expr{col(0)}, []plan.Agg{{Fn: "count", Star: true, T: types.Bigint}, {Fn: "sum", Args: []plan.Expr{col(1)}, T: types.Bigint}}, 0)
	s, err := agg.NewFirstStage(p, in)
	if err != nil {
		b.Fatal(err)
	}
	rows := batch.New(in.Types())
	for i := range int64(batch.MaxRows) {
		rows.AppendRow(types.Int(i%100), types.Int(i))
	}
	for b.Loop() {
		for range 64 {
			if err := s.Push(b.Context(), rows); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Emit(func(b *batch.Batch) error { b.Release(); return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(64*batch.MaxRows), "ns/row")
}
