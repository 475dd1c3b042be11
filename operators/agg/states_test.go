package agg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/operators"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/operators/encoders/structure"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// stateColumns are the input columns of the aggregates; those named in the
// documentation of an aggregate have the documented meaning.
const stateColumns = "t:timestamp g:bigint b:boolean i:bigint f:double s:varchar at:timestamp d:duration y:bytes l:list " +
	"q:bigint call:varchar lineage:varchar event:varchar entity_id:varchar parent_id:varchar other_id:varchar thread_id:varchar " +
	"type_name:varchar name:varchar thread_name:varchar category:varchar stack:list state:varchar syscall:varchar sketch:bytes"

// argumentColumns have a value of each type.
var argumentColumns = map[types.Type]string{types.Boolean: "b", types.Bigint: "i", types.Double: "f", types.Varchar: "s",
	types.Timestamp: "at", types.Duration: "d", types.Bytes: "sketch", types.List: "l"}

// stateCases are the ways of calling an aggregate that the catalog allows.
func stateCases(in plan.Node, f *plan.AggFunc) (cases []plan.Agg) {
	col := func(name string) plan.Expr { return testplan.Column(in, name) }
	add := func(a plan.Agg, arg types.Type) {
		a.Fn, a.T = f.Name, f.Result(arg)
		cases = append(cases, a)
	}
	switch named := regexp.MustCompile(`^[A-Z_]+\(([a-z_, ]+)\)`).FindStringSubmatch(f.Doc); {
	case f.Encoder != nil:
		var options []plan.NamedValue
		for _, o := range f.Encoder.Options {
			if o.Required || o.RequiredLive {
				options = append(options, plan.NamedValue{Name: o.Name, V: types.Int(max(o.Min, 2))})
			}
		}
		if f.Encoder.Model {
			options = append(options, plan.NamedValue{Name: plan.ModelOption, V: types.Value{Type: types.Encoding, A: callModel()}})
		}
		tokens := plan.Agg{Args: []plan.Expr{col("s"), col("q")}, ArgNames: []string{"", plan.SequenceArgument}, Options: options}
		calls := plan.Agg{Args: []plan.Expr{col("call"), col("s"), col("q")}, ArgNames: []string{"", "", plan.SequenceArgument}, Options: options}
		if f.Encoder.Lineage {
			tokens.Args, tokens.ArgNames = append(tokens.Args, col("lineage")), append(tokens.ArgNames, plan.LineageArgument)
		}
		if !f.Encoder.Calls {
			add(tokens, types.Varchar)
			timed := tokens
			timed.Args, timed.ArgNames = append(slices.Clone(timed.Args), col("d")), append(slices.Clone(timed.ArgNames), plan.TimeArgument)
			add(timed, types.Varchar)
			dying := tokens
			dying.Args, dying.ArgNames = append(slices.Clone(dying.Args), col("b")), append(slices.Clone(dying.ArgNames), plan.DiesArgument)
			add(dying, types.Varchar)
		}
		add(calls, types.Varchar)
		inner := calls
		inner.Args, inner.ArgNames = append(slices.Clone(inner.Args), col("q")), append(slices.Clone(inner.ArgNames), plan.InnerArgument)
		add(inner, types.Varchar)
	case named != nil && f.More != nil:
		var a plan.Agg
		for _, name := range strings.Split(named[1], ", ") {
			a.Args = append(a.Args, col(name))
		}
		add(a, a.Args[0].Type())
	default:
		if f.Star {
			add(plan.Agg{Star: true}, types.Invalid)
		}
		for t, name := range argumentColumns {
			if f.Args == nil || !slices.Contains(f.Args, t) && !slices.Contains(f.Args, plan.AnyType) {
				continue
			}
			for _, params := range stateParams(f) {
				for _, distinct := range []bool{false, true} {
					if f.Distinct || !distinct {
						add(plan.Agg{Args: []plan.Expr{col(name)}, Params: params, Distinct: distinct}, t)
					}
				}
			}
		}
	}
	return cases
}

func stateParams(f *plan.AggFunc) [][]types.Value {
	var params []types.Value
	for i, t := range f.Params {
		v := types.Int(3)
		if t == types.Double {
			v = types.Float([]float64{0.25, 20, 2.5}[i])
		}
		params = append(params, v)
	}
	if f.Optional > 0 {
		return [][]types.Value{params, nil}
	}
	return [][]types.Value{params}
}

// callModel is a model that some of the sequences of the test conform to.
func callModel() *structure.Model {
	a := encoders.NewAlphabet()
	e, err := structure.NewAutomatonEncoder(a, structure.AutomatonOptions{K: 1}, encoders.Limits{})
	if err != nil {
		panic(err)
	}
	e.Append([]encoders.Symbol{a.Symbol("s0"), a.Symbol("s1"), a.Symbol("s0"), a.Symbol("s0")}, nil)
	m, err := structure.NewModel(e.Encode())
	if err != nil {
		panic(err)
	}
	return m
}

// draws is a test with its random numbers.
type draws struct {
	*testing.T
	*rand.Rand
}

// double draws a double of any size, mostly those in the range of a fixedSum.
func (t *draws) double() float64 {
	switch t.IntN(20) {
	case 0:
		return []float64{math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1), 0, math.Inf(1), math.Inf(-1), math.NaN()}[t.IntN(8)]
	case 1:
		return math.Ldexp(t.Float64()-0.5, t.IntN(2000)-1000)
	}
	return math.Ldexp(t.Float64()-0.5, t.IntN(20))
}

// drawStateRow draws a row of a place. Sequences and entities are of one place.
func drawStateRow(t *draws, schema types.Schema, place int, when int64) []types.Value {
	n := func(most int) int64 { return int64(t.IntN(most + 1)) }
	row := make([]types.Value, len(schema.Fields))
	in := map[string]int{} // where columns are
	for i, f := range schema.Fields {
		in[f.Name] = i
		v := types.Value{Type: f.Type}
		switch f.Name {
		case "t":
			v.I = when
		case "g":
			v.I = n(1)
		case "q": // of one group, since calls within others are followed over all groups
			v.I = int64(place)*10 + 2*n(1) + row[1].I
		case "call":
			v.S = []string{"ENTER", "LEAVE"}[n(1)]
		case "lineage":
			if class := row[in["s"]].S; class != "" { // which says what all its rows say
				v.S = map[string]string{"s0": "s0 < s1 < s3", "s1": "s1 < s3", "s2": "s2 < s3", "s3": "s3"}[class]
			}
		case "event":
			v.S = []string{"CREATE", "RECLAIM", "ENTER", "LEAVE", "ACQUIRE", "RELEASE", "BEGIN_WAIT", "END_WAIT", "REFERENCE"}[n(8)]
		case "entity_id", "parent_id", "other_id", "thread_id":
			v.S = fmt.Sprint(place, "-", n(3))
		case "category":
			v.S = []string{"OBJECT", "THREAD", "INVOCATION", ""}[n(3)]
		case "type_name", "name", "thread_name":
			v.S = fmt.Sprint("name", n(3))
		case "stack":
			var frames []types.Value
			for range 1 + n(2) {
				frames = append(frames, types.ListOf([]types.Value{types.Str(fmt.Sprint("f", n(3))), types.Str("program"), types.Str([]string{"user", "system"}[n(1)])}))
			}
			v.A = frames
		case "state":
			v.S = []string{"R", "S"}[n(1)]
		case "syscall":
			v.S = []string{"", "read", "futex"}[n(2)]
		case "sketch":
			a := newSamples([]types.Type{types.Bigint, types.Double, types.Ubigint}[n(2)])
			a.Grow(1)
			for range 1 + n(3) {
				a.add(0, n(50))
			}
			v.S = string(a.encode(nil, 0))
		case "f":
			v.F = t.double()
		case "s":
			v.S = fmt.Sprint("s", n(3))
		case "l":
			v.A = []types.Value{types.Int(n(2)), types.Str("x")}
		case "d": // its deviation is a DURATION, too
			v.I = n(1000) - 500
		case "b":
			v.I = n(1)
		default:
			v.I = n(20) - 5
		}
		if i > 0 && !slices.Contains([]string{"g", "q", "call", "lineage", "entity_id", "thread_id", "other_id"}, f.Name) && n(9) == 0 {
			v = types.NullOf(f.Type)
		}
		row[i] = v
	}
	return row
}

// The result does not depend on the site of rows, on how states are divided and
// merged, nor on their order of arrival: it equals the result of one site. This
// holds for every aggregate of the catalog and every type of argument.
func TestStatesOfEveryAggregate(t *testing.T) {
	in := testplan.Relation(stateColumns)
	seeds := uint64(10)
	if testing.Short() {
		seeds = 5
	}
	for _, table := range [][]plan.AggFunc{plan.AggFuncs, plan.Encoders, plan.StackAggs, plan.PresentAggs, plan.SketchAggs} {
		for i := range table {
			f := &table[i]
			cases := stateCases(in, f)
			if len(cases) == 0 {
				t.Errorf("%s: nothing is known of how it is called", f.Name)
			}
			for _, a := range cases {
				t.Run(fmt.Sprint(&a, " of ", argumentTypes(&a)), func(t *testing.T) {
					for seed := range seeds {
						statesAgree(&draws{t, rand.New(rand.NewPCG(seed, 1))}, in.Out, a)
					}
				})
			}
		}
	}
}

func argumentTypes(a *plan.Agg) (ts []types.Type) {
	for _, x := range a.Args {
		ts = append(ts, x.Type())
	}
	return ts
}

func statesAgree(t *draws, in types.Schema, a plan.Agg) {
	n := &plan.Aggregate{Input: &plan.Acquire{Stream: "stream", Out: in}, Aggs: []plan.Agg{a}, Out: types.Schema{Time: -1}}
	key := plan.Expr(&plan.Col{Index: 1, Name: "g", T: types.Bigint})
	n.Keys = []plan.Expr{key}
	n.Out.Fields = []types.Field{{Name: "g", Type: types.Bigint}, {Name: "result", Type: a.T}}
	ordered := states.InOrder(&a)
	var all [][]types.Value
	places := make([][][]types.Value, 1+t.IntN(4))
	when := int64(0)
	for range t.IntN(60 + 1) {
		p := t.IntN(len(places))
		if ordered || (t.IntN(2) == 0) {
			when++
		}
		row := drawStateRow(t, in, p, when)
		all, places[p] = append(all, row), append(places[p], row)
	}
	want := resultsOf(t, n, nil, func(op *Aggregate, _ operators.Operator) { pushRows(t, op, in, all) })

	p, ok := plan.NewPartial(n.Keys, n.Aggs, 0)
	if !ok {
		t.Fatalf("%s has no state", &a)
	}
	got := resultsOf(t, n, p, func(op *Aggregate, port operators.Operator) {
		origins := plan.IsEncoder(a.Fn) && (t.IntN(2) == 0)
		queues := make([][]func(), len(places))
		for i, rows := range places {
			origin := uint64(0)
			if origins {
				origin = uint64(1 + i)
			}
			if !origins && t.IntN(3+1) == 0 {
				queues[i] = []func(){func() { pushRows(t, op, in, rows) }}
				continue
			}
			for _, b := range stateBatches(t, p, in, origin, rows) {
				queues[i] = append(queues[i], func() {
					if _, err := port.Push(t.Context(), 0, b); err != nil {
						t.Fatal(err)
					}
					b.Release()
				})
			}
		}
		for left := slices.Concat(queues...); len(left) > 0; left = left[1:] {
			i := t.IntN(len(queues))
			for len(queues[i]) == 0 {
				i = (i + 1) % len(queues)
			}
			queues[i][0]()
			queues[i] = queues[i][1:]
		}
	})
	if got != want {
		t.Fatalf("of the states:\n%s\nof the rows:\n%s", got, want)
	}
}

// stateBatches returns the states of the rows of one site, emitted from time to
// time, and possibly merged.
func stateBatches(t *draws, p *plan.Partial, in types.Schema, origin uint64, rows [][]types.Value) (out []*batch.Batch) {
	s, err := NewFirstStageAt(origin, p, in)
	if err != nil {
		t.Fatal(err)
	}
	for len(rows) > 0 {
		n := 1 + t.IntN(len(rows))
		b := batch.New(in.Types())
		for _, vs := range rows[:n] {
			b.AppendRow(vs...)
		}
		rows = rows[n:]
		if err := s.Push(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if len(rows) > 0 && (t.IntN(2) == 0) {
			continue
		}
		if err := s.Emit(func(b *batch.Batch) error { out = append(out, b); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if t.IntN(2) == 0 {
		out = MergePartials(p, out)
	}
	return out
}

func pushRows(t *draws, op *Aggregate, in types.Schema, rows [][]types.Value) {
	for part := range slices.Chunk(rows, 7) {
		b := batch.New(in.Types())
		for _, vs := range part {
			b.AppendRow(vs...)
		}
		if _, err := op.Push(t.Context(), 0, b); err != nil {
			t.Fatal(err)
		}
	}
}

// resultsOf are the results of an aggregate by group, as text.
func resultsOf(t *draws, n *plan.Aggregate, p *plan.Partial, feed func(*Aggregate, operators.Operator)) string {
	got := &results{}
	op, err := New(n, got, &operators.Options{Clock: func() int64 { return int64(time.Second) }})
	if err != nil {
		t.Fatal(err)
	}
	var port operators.Operator
	if p != nil {
		if port, err = NewPartials(op, p); err != nil {
			t.Fatal(err)
		}
	}
	feed(op, port)
	if err := op.Close(t.Context(), 0); err != nil {
		return err.Error()
	}
	var lines []string
	for _, row := range got.rows {
		if len(row) == 2 {
			lines = append(lines, plan.FormatValue(row[0])+": "+exactText(t, row[1]))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// exactText is a value with all its digits.
func exactText(t *draws, v types.Value) string {
	if e, ok := v.A.(encoders.Encoding); ok && !v.IsNull {
		if _, rows := e.(*encoders.InvocationGraph); rows { // in order of arrival
			return strings.Join(slices.Sorted(strings.SplitSeq(e.String(), "\n")), "\n")
		}
		return e.String()
	}
	if v.Type == types.Double && !v.IsNull {
		return fmt.Sprintf("%x", math.Float64bits(v.F))
	}
	return fmt.Sprint(v)
}

// States of an unknown version are an error, and damaged ones end no process.
func TestDamagedStates(t *testing.T) {
	in := testplan.Relation(stateColumns)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, table := range [][]plan.AggFunc{plan.AggFuncs, plan.Encoders, plan.StackAggs, plan.PresentAggs, plan.SketchAggs} {
		for i := range table {
			for _, a := range stateCases(in, &table[i]) {
				fields, _ := plan.StateFields(&a)
				column := func(name string) int {
					return slices.IndexFunc(fields, func(f types.Field) bool { return f.Name == name })
				}
				stateAt, countAt := column(plan.OpaqueState), column(plan.StateCount)
				if stateAt < 0 {
					continue
				}
				p, _ := plan.NewPartial(nil, []plan.Agg{a}, 0)
				d := &draws{t, rng}
				var rows [][]types.Value
				for when := range int64(20) {
					rows = append(rows, drawStateRow(d, in.Out, 0, when))
				}
				n := &plan.Aggregate{Input: &plan.Acquire{Out: in.Out}, Aggs: []plan.Agg{a}, Out: types.Schema{Fields: []types.Field{{Type: a.T}}, Time: -1}}
				push := func(state string, count int64) error {
					op, err := New(n, &results{}, &operators.Options{})
					if err != nil {
						t.Fatal(err)
					}
					port, err := NewPartials(op, p)
					if err != nil {
						t.Fatal(err)
					}
					b := batch.New(p.Out.Types())
					row := []types.Value{types.Time(0)}
					for _, f := range fields {
						row = append(row, types.Value{Type: f.Type})
					}
					row[1+stateAt].S, row[1+countAt].I = state, count
					b.AppendRow(row...)
					_, err = port.Push(t.Context(), 0, b)
					return err
				}
				for _, b := range stateBatches(d, p, in.Out, 0, rows) {
					state, count := b.Cols[1+stateAt].Value(0).S, b.Cols[1+countAt].Int[0]
					if count == 0 {
						continue
					}
					if err := push(state, count); err != nil {
						t.Errorf("%s: %v", &a, err)
					}
					for range testenv.Times(30) {
						push(state[:rng.IntN(len(state))], count) // a prefix may be a valid state
						changed := []byte(state)
						changed[rng.IntN(len(changed))] ^= byte(1 << rng.IntN(8))
						push(string(changed), count) // it may be a valid state of something else
					}
					if push("\xff"+state[1:], count) == nil {
						t.Errorf("%s: a state of an unknown version is merged", &a)
					}
				}
			}
		}
	}
}

// A sequence of one origin is not that of another which has the same key: each is
// encoded, and the encodings merge.
func TestStatesOfOrigins(t *testing.T) {
	in := testplan.Relation("t:timestamp q:bigint s:varchar")
	n := testplan.Encode(in, "", "rle", "s sequence=q")
	p, ok := plan.NewPartial(nil, n.Aggs, 0)
	if !ok {
		t.Fatal("no state")
	}
	got := &results{}
	op, err := New(n, got, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	port, err := NewPartials(op, p)
	if err != nil {
		t.Fatal(err)
	}
	// The second site's states arrive first; its sequence began later.
	for _, place := range []struct {
		origin uint64
		rows   [][]types.Value
	}{
		{2, [][]types.Value{{types.Time(2), types.Int(7), types.Str("B")}, {types.Time(4), types.Int(7), types.Str("C")}}},
		{1, [][]types.Value{{types.Time(1), types.Int(7), types.Str("A")}, {types.Time(3), types.Int(7), types.Str("A")}}},
	} {
		s, err := NewFirstStageAt(place.origin, p, in.Out)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range place.rows { // each in a state of its own
			b := batch.New(in.Out.Types())
			b.AppendRow(row...)
			if err := s.Push(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if err := s.Emit(func(b *batch.Batch) error {
				_, err := port.Push(t.Context(), 0, b)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := op.Close(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(got.rows[0][0].A); text != "2:A\nB C" {
		t.Errorf("%s", text)
	}
}
