package planpb

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"endoscope/operators/optest"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func fields(kinds ...types.Type) (s types.Schema) {
	for i, t := range kinds {
		s.Fields = append(s.Fields, types.Field{Name: string(rune('a' + i)), Qualifier: "q", Type: t})
	}
	return s
}

// sample is a fragment with one of everything that travels.
func sample() *plan.Fragment {
	in := fields(types.Timestamp, types.Varchar, types.Bigint, types.Double)
	at := func(i int) plan.Expr {
		return &plan.Col{Index: i, Name: in.Fields[i].Name, T: in.Fields[i].Type}
	}
	yes := &plan.Const{V: types.Bool(true), Start: 3, Stop: 7}
	lower := plan.Node(&plan.Acquire{Stream: plan.FragmentStream, Out: in})
	lower = &plan.Filter{Input: lower, Cond: &plan.Call{Fn: "or", T: types.Boolean, Args: []plan.Expr{
		&plan.In{X: at(1), List: []plan.Const{{V: types.Str("x\x00\xff")}, {V: types.NullOf(types.Varchar)}}},
		&plan.Case{Whens: []plan.When{{Cond: yes, Then: yes}}, Else: &plan.Cast{X: at(2), T: types.Boolean}, T: types.Boolean}}}}
	out := types.Schema{Time: 0, Fields: append(fields(in.Types()...).Fields, fields(types.Timestamp, types.Timestamp).Fields...)}
	aggs := []plan.Agg{{Fn: "count", Star: true, T: types.Bigint},
		{Fn: "quantile", Args: []plan.Expr{at(2)}, Params: []types.Value{types.Float(-0.5)}, Filter: yes, T: types.Bigint},
		{Fn: "count", Distinct: true, Args: []plan.Expr{at(3)}, T: types.Bigint}}
	keys := []plan.Expr{&plan.Col{Index: 4, Name: "a", T: types.Timestamp}, &plan.Col{Index: 5, Name: "b", T: types.Timestamp}, at(1)}
	upper := plan.Node(&plan.Window{Input: &plan.Acquire{Stream: plan.FragmentStream, Out: in}, Out: out,
		Spec: plan.WindowSpec{Kind: plan.Hop, Size: time.Minute, Slide: time.Second, PartitionBy: []plan.Expr{at(1)}}})
	upper = &plan.Aggregate{Input: upper, Keys: keys, Aggs: aggs, Windowed: true, WindowEnd: 1, Emit: plan.Emit{Mode: plan.Every, Every: time.Second},
		Out: types.Schema{Time: -1, Fields: fields(types.Timestamp, types.Timestamp, types.Varchar, types.Bigint, types.Bigint, types.Bigint).Fields}}
	upper = &plan.Sort{Input: &plan.Distinct{Input: upper, PerFlush: true}, Keys: []plan.SortKey{{X: &plan.Col{Index: 2, Name: "c", T: types.Varchar}, Desc: true}}, Limit: 9}
	upper = &plan.Limit{Input: upper, N: 1 << 40, Skip: 7, PerFlush: true}
	upper = &plan.Project{Input: upper, Exprs: []plan.Expr{&plan.Const{V: types.Float(0.1)}}, Out: types.Schema{Time: -1, Fields: fields(types.Double).Fields}}
	return &plan.Fragment{Lower: lower, Upper: upper, Exchange: &plan.Exchange{Kind: plan.Gather, Again: plan.PerWindow, Pick: []int{2, 0, 300}, Time: 1, Start: 2, End: 3,
		Limit: 4, Gap: time.Hour, Spans: plan.Spans{First: 1, Last: 2, Count: 3, Partition: 4, Partitions: 5}, Notices: []string{"one", ""}}}
}

// estimates is a fragment over the states of hosts within an overhead.
func estimates(t testing.TB) *plan.Fragment {
	t.Helper()
	in := fields(types.Varchar)
	in.Time = -1
	keys := []plan.Expr{&plan.Col{Name: "a", T: types.Varchar}}
	aggs := []plan.Agg{{Fn: "count", Star: true, T: types.Bigint}}
	count := &plan.Col{Name: "n", T: types.Bigint}
	twice := &plan.Call{Fn: "+", Args: []plan.Expr{count, count}, T: types.Bigint}
	p, ok := plan.NewPartial(keys, aggs, 0)
	if !ok {
		t.Fatal("no states")
	}
	p = plan.NewEstimatedPartial(p, true)
	upper := plan.Node(&plan.Aggregate{Input: &plan.Acquire{Stream: plan.FragmentStream, Out: in, Partial: p}, Keys: keys, Aggs: aggs, Confidence: 0.95, Derived: []plan.Expr{twice},
		Out: types.Schema{Time: -1, Fields: slices.Concat(fields(types.Varchar).Fields, plan.EstimateFields("n", types.Bigint), plan.EstimateFields("n + n", types.Bigint))}})
	out := types.Schema{Time: -1, Fields: fields(types.Bigint, types.Bigint).Fields}
	out.Fields[1].Bound = types.Low
	upper = &plan.Project{Input: upper, Out: out, Exprs: []plan.Expr{&plan.Col{Index: 1, Name: "n", T: types.Bigint}, &plan.Col{Index: 2, Name: "low(n)", T: types.Bigint}}}
	return &plan.Fragment{Lower: &plan.Acquire{Stream: plan.FragmentStream, Out: in}, Upper: upper, Exchange: &plan.Exchange{Kind: plan.MergeStates, Pick: []int{0, 1}}}
}

func TestFragmentsTravel(t *testing.T) {
	f := estimates(t)
	back := travel(t, f)
	if !reflect.DeepEqual(f, back) {
		t.Errorf("sent\n%s\n%+v\ncame\n%s\n%+v", optest.Tree(f.Upper), f.Upper, optest.Tree(back.Upper), back.Upper)
	}
	spoilt := estimates(t)
	plan.Source(spoilt.Upper).Partial.Estimated = false // as readers take it that do not know the field
	if err := spoilt.Check(); err == nil {
		t.Error("keys without columns are accepted")
	}
	f = sample()
	b, err := Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	if back = travel(t, f); !reflect.DeepEqual(f, back) {
		t.Errorf("sent\n%s\n%+v\ncame\n%s\n%+v", optest.Tree(f.Upper), f.Exchange, optest.Tree(back.Upper), back.Exchange)
	}
	// Additional fields of a later version are skipped, wherever they are.
	more := protowire.AppendString(protowire.AppendTag(bytes.Clone(b), 99, protowire.BytesType), "later")
	more = protowire.AppendFixed32(protowire.AppendTag(more, 100, protowire.Fixed32Type), 1)
	if back, err = Decode(more); err != nil || !reflect.DeepEqual(f, back) {
		t.Errorf("with fields that are not known: %v", err)
	}
}

// travel returns what arrives of a fragment.
func travel(t testing.TB, f *plan.Fragment) *plan.Fragment {
	t.Helper()
	b, err := Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func TestOtherVersionsAreRefused(t *testing.T) {
	b, err := Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	later := protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), Version+1)
	if _, err := Decode(later); err == nil || !strings.Contains(err.Error(), "version 3") {
		t.Errorf("%v", err)
	}
	if _, err := Decode(nil); err == nil {
		t.Error("nothing is a fragment")
	}
}

func TestSomeThingsDoNotTravel(t *testing.T) {
	for what, spoil := range map[string]func(f *plan.Fragment){
		"a host's name": func(f *plan.Fragment) { f.Upper.(*plan.Project).Exprs[0] = &plan.Host{} },
		"a parameter":   func(f *plan.Fragment) { f.Upper.(*plan.Project).Exprs[0] = &plan.Const{Param: &plan.Param{}} },
		"a model": func(f *plan.Fragment) {
			f.Upper.(*plan.Project).Exprs[0] = &plan.Const{V: types.Value{Type: types.Encoding, A: "model"}}
		},
		"states":           func(f *plan.Fragment) { f.Upper = &plan.Aggregate{Input: f.Upper, States: true} },
		"more than it may": func(f *plan.Fragment) { f.Exchange.Notices = []string{strings.Repeat("x", MaxFragment)} },
	} {
		f := sample()
		spoil(f)
		if _, err := Marshal(f); err == nil {
			t.Errorf("%s is sent", what)
		}
	}
}

// FuzzDecode decodes any bytes: a fragment that is accepted can be encoded and
// decoded again unchanged.
func FuzzDecode(f *testing.F) {
	b, err := Encode(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{8, 1, 18, 0, 26, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Encode(d)
		if err != nil {
			t.Fatalf("it is not sent again: %v", err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := Encode(back); err != nil || !bytes.Equal(again, twice) {
			t.Errorf("it is not the same: %v", err)
		}
	})
}
