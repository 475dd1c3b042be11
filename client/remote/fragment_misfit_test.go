package remote

import (
	"context"
	"errors"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/plan/planpb"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// grouped is the fragment of SELECT c0, count(*), sum(c1) FROM ... WHERE c1 > 3 GROUP BY c0.
func grouped() *plan.Fragment {
	in := types.Schema{Time: -1, Fields: []types.Field{{Name: "c0", Type: types.Varchar}, {Name: "c1", Type: types.Bigint}}}
	name, n := &plan.Col{Index: 0, Name: "c0", T: types.Varchar}, &plan.Col{Index: 1, Name: "c1", T: types.Bigint}
	aggs := []plan.Agg{{Fn: "count", Star: true, T: types.Bigint}, {Fn: "sum", Args: []plan.Expr{n}, T: types.Bigint}}
	first, _ := plan.NewPartial([]plan.Expr{name}, aggs, 0)
	return &plan.Fragment{
		Lower: &plan.Filter{Input: &plan.Acquire{Stream: plan.FragmentStream, Out: in},
			Cond: &plan.Call{Fn: ">", Args: []plan.Expr{n, &plan.Const{V: types.Int(3)}}, T: types.Boolean}},
		Upper: &plan.Aggregate{Input: &plan.Acquire{Stream: plan.FragmentStream, Out: in, Partial: first}, Keys: []plan.Expr{name}, Aggs: aggs,
			Out: types.Schema{Time: -1, Fields: []types.Field{{Name: "c0", Type: types.Varchar}, {Name: "count", Type: types.Bigint}, {Name: "sum", Type: types.Bigint}}}},
	}
}

// groupedColumns are those of its result.
var groupedColumns = []wire.Column{{Name: "c0", Type: types.Varchar}, {Name: "count", Type: types.Bigint}, {Name: "sum", Type: types.Bigint}}

func encoded(t testing.TB, f *plan.Fragment) []byte {
	t.Helper()
	b, err := planpb.Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// released releases the events of a fragment.
func released(ev wire.Event) error {
	if ev.Batch != nil {
		ev.Batch.Release()
	}
	return nil
}

// columnsOf names columns of these types.
func columnsOf(kinds []types.Type) (out []wire.Column) {
	for _, t := range kinds {
		out = append(out, wire.Column{Name: "c", Type: t})
	}
	return out
}

// Records are read by a fragment only if they have the columns that its plan has.
func TestRecordsFitTheFragment(t *testing.T) {
	f, err := newFragment(&wire.Fragment{Plan: encoded(t, grouped()), Columns: groupedColumns}, released)
	if err != nil {
		t.Fatal(err)
	}
	defer f.abandon()
	row := []types.Type{types.Varchar, types.Bigint}
	states := []types.Type{types.Timestamp, types.Varchar, types.Bigint, types.Bigint, types.Bigint, types.Bigint}
	for _, c := range []struct {
		port    wire.Port
		types   []types.Type
		accepts bool
	}{
		{wire.PortResult, []types.Type{types.Varchar, types.Bigint, types.Bigint}, true},
		{wire.PortResult, row, false},
		{wire.PortRows, row, true},
		{wire.PortRows, []types.Type{types.Varchar, types.Varchar}, false},
		{wire.PortRows, row[:1], false},
		{wire.PortRows, nil, false},
		{wire.PortLowered, row, true},
		{wire.PortLowered, []types.Type{types.Bigint, types.Bigint}, false},
		{wire.PortStates, states, true},
		{wire.PortStates, states[:3], false},
		{wire.Ports, row, false},
	} {
		if got := f.accepts(c.port, columnsOf(c.types)); got != c.accepts {
			t.Errorf("port %d takes %v: %t, want %t", c.port, c.types, got, c.accepts)
		}
	}
	if _, err := newFragment(&wire.Fragment{Plan: encoded(t, grouped()), Columns: groupedColumns[:2]}, released); !errors.Is(err, errMisfit) {
		t.Errorf("a result of other columns: %v", err)
	}
}

// A record that would have an operator fail fails the result, and not the program.
func TestFragmentsFailAlone(t *testing.T) {
	f, err := newFragment(&wire.Fragment{Plan: encoded(t, grouped()), Columns: groupedColumns}, released)
	if err != nil {
		t.Fatal(err)
	}
	defer f.abandon()
	b := batch.New([]types.Type{types.Varchar, types.Varchar})
	b.AppendRow(types.Str("a"), types.Str("b"))
	if err := f.push(context.Background(), wire.PortRows, b); err == nil {
		t.Error("text is compared with a number")
	}
	b.Release()
}

// A RATE uses the time that the query ran, however late its client reads the end.
func TestRateIsOfTheQuerysTime(t *testing.T) {
	in := types.Schema{Time: -1, Fields: []types.Field{{Name: "c0", Type: types.Bigint}}}
	leaf := plan.Acquire{Stream: plan.FragmentStream, Out: in}
	rate := &plan.Fragment{
		Lower: &leaf,
		Upper: &plan.Aggregate{Input: &leaf, Aggs: []plan.Agg{{Fn: "rate", Star: true, T: types.Double}},
			Out: types.Schema{Time: -1, Fields: []types.Field{{Name: "rate", Type: types.Double}}}},
	}
	var got []float64
	f, err := newFragment(&wire.Fragment{Plan: encoded(t, rate), Columns: []wire.Column{{Name: "rate", Type: types.Double}}}, func(ev wire.Event) error {
		if ev.Kind == wire.Rows {
			got = append(got, ev.Batch.Cols[0].Float...)
		}
		return released(ev)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.abandon()
	b := batch.New([]types.Type{types.Bigint})
	for i := range int64(10) {
		b.AppendRow(types.Int(i))
	}
	if err := f.push(t.Context(), wire.PortRows, b); err != nil {
		t.Fatal(err)
	}
	b.Release()
	if err := f.cue(t.Context(), wire.Cue{Kind: wire.CueEnd, Time: 2e9}); err != nil {
		t.Fatal(err)
	}
	if err := f.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0] != 5 {
		t.Errorf("10 rows in 2 s: %v per second, want 5", got)
	}
}

// FuzzFragment executes any bytes as a server's fragment: the outcome is a result
// or an error.
func FuzzFragment(f *testing.F) {
	f.Add(encoded(f, grouped()))
	plain := grouped()
	plain.Upper = &plan.Limit{Input: &plan.Acquire{Stream: plan.FragmentStream, Out: plain.Lowered()}, N: 2}
	f.Add(encoded(f, plain))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := planpb.Decode(b)
		if err != nil {
			return
		}
		fr, err := newFragment(&wire.Fragment{Plan: b, Columns: columnsOf(d.Upper.Schema().Types())}, released)
		if err != nil {
			return
		}
		defer fr.abandon()
		for port, kinds := range fr.types {
			if kinds == nil || wire.Port(port) == wire.PortResult {
				continue
			}
			rows := batch.New(kinds)
			row := make([]types.Value, len(kinds))
			for i, typ := range kinds {
				row[i] = types.NullOf(typ)
				if typ.Physical() == types.PhysInt {
					row[i] = types.Value{Type: typ, I: 1}
				}
			}
			rows.AppendRow(row...)
			err := fr.push(t.Context(), wire.Port(port), rows)
			rows.Release()
			if err != nil {
				return
			}
		}
		_ = fr.cue(t.Context(), wire.Cue{Kind: wire.CueTick, Time: 1})
		_ = fr.close(t.Context())
	})
}
