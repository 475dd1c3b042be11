package operators

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// encode is an aggregate node with one encoder: columns are the arguments,
// separated by spaces, "time=x" and "sequence=x" those by name, "k=3" options.
func encode(in plan.Node, keys, fn, columns string) *plan.Aggregate {
	n := groupBy(in, keys, "count(*)")
	f := plan.Agg{Fn: fn, T: types.Encoding}
	for _, c := range strings.Fields(columns) {
		name, x, named := strings.Cut(c, "=")
		switch {
		case !named:
			f.Args, f.ArgNames = append(f.Args, column(in, c)), append(f.ArgNames, "")
		case slices.Contains([]string{plan.TimeArgument, plan.SequenceArgument, plan.BornArgument, plan.DiesArgument}, name):
			f.Args, f.ArgNames = append(f.Args, column(in, x)), append(f.ArgNames, name)
		default:
			v := types.Str(x)
			if x[0] <= '9' {
				v = value(types.Bigint, x)
			}
			f.Options = append(f.Options, plan.NamedValue{Name: name, V: v, Text: x})
		}
	}
	n.Aggs[0] = f
	n.Out.Fields[len(n.Keys)] = types.Field{Name: fn, Type: types.Encoding}
	return n
}

func TestEncoderOfGroups(t *testing.T) {
	in := relation("g:bigint s:varchar")
	expect(t, play(t, encode(in, "g", "rle", "s"), Options{}, `
		1 A
		2 X
		1 B
		1 null
		1 B
		--
		2 X
		3 null
		1 B
		2 Y
		close
	`), `
		1 A 3:B
		2 2:X Y
		3 null
		flush
		close
	`)
	expect(t, play(t, encode(in, "", "rle", "s k=2"), Options{}, `
		1 A
		1 A
		2 B
		--
		2 B
		3 B
		close
	`), `
		2:A B*
		flush
		close
	`)
	expect(t, play(t, encode(in, "", "rle", "s"), Options{}, `
		close
	`), `
		null
		flush
		close
	`)
}

// Rows of different values of an argument are of different sequences, NULL
// being one of them.
func TestEncoderOfSequences(t *testing.T) {
	for _, by := range []string{"varchar", "bigint"} {
		in := relation("id:" + by + " s:varchar")
		got := play(t, encode(in, "", "grammar", "s sequence=id"), Options{}, `
			1 A
			1 B
			2 A
			2 B
			null X
			2 A
			--
			2 B
			1 A
			null Y
			1 B
			close
		`)
		expect(t, got, `
			S0 -> R1 R1
			S1 -> R1 R1
			S2 -> X Y
			R1 -> A B
			flush
			close
		`)
	}
}

// A sequence may have a birth and a death: addresses are used again, and rows
// of what was not born are of none.
func TestEncoderOfObjects(t *testing.T) {
	for _, typ := range []string{"bigint", "varchar"} {
		in := relation("this:" + typ + " f:varchar birth:boolean death:boolean")
		got := play(t, encode(in, "", "rle", "f sequence=this born=birth dies=death"), Options{}, `
			100 push false false
			100 Stack true false
			200 Stack true false
			100 push false false
			--
			100 push false null
			100 ~Stack false true
			100 push false false
			200 pop false false
			100 Queue true false
			null Stack null false
			--
			100 ~Queue false true
			100 Once true true
			100 pop false false
			close
		`)
		expect(t, got, `
			Stack 2:push ~Stack
			Stack pop
			Queue ~Queue
			Once
			flush
			close
		`)
	}
	// Of one thing only: each request is a sequence.
	in := relation("f:varchar birth:boolean")
	expect(t, play(t, encode(in, "", "grammar", "f born=birth"), Options{}, `
		start false
		request true
		read false
		request true
		read false
		request true
		close
	`), `
		S0 -> request read
		S1 -> request read
		S2 -> request
		flush
		close
	`)
}

func TestEncoderOfCalls(t *testing.T) {
	in := relation("t:timestamp tid:bigint event:varchar f:varchar")
	script := `
		10 1 ENTER main
		20 1 ENTER f
		25 2 ENTER f
		30 1 LEAVE f
		40 1 ENTER f
		--
		60 1 LEAVE f
		65 2 LEAVE f
		70 1 UNWIND main
		80 2 ENTER null
		close
	`
	expect(t, play(t, encode(in, "", "callstring", "event f sequence=tid"), Options{}, script), `
		main f < f < <
		f <
		flush
		close
	`)
	expect(t, play(t, encode(in, "", "nlevel", "event f sequence=tid n=2"), Options{}, script), `
		-- calls total mean deviation callers...
		3 70ns 23ns 15ns f
		1 60ns 60ns 0s main
		2 30ns 15ns 7ns main f
		flush
		close
	`)
	expect(t, play(t, encode(in, "tid", "grammar", "event f balanced=full"), Options{}, script), `
		1 R0 -> main 2:R1 <
		R1 -> f <
		2 R0 -> f <
		flush
		close
	`)
	// Without a timestamp calls are not timed.
	expect(t, play(t, encode(relation("event:varchar f:varchar"), "", "nlevel", "event f n=1"), Options{}, `
		ENTER f
		LEAVE f
		close
	`), `
		-- calls callers...
		1 f
		flush
		close
	`)
}

func TestEncoderOfWhatIsNoCall(t *testing.T) {
	root := encode(relation("event:varchar f:varchar"), "", "callstring", "event f")
	_, err := perform(root, Options{}, "ENTER f\n? f\nclose", false)
	if want := "callstring(event, f) encodes calls: '?' is no ENTER, LEAVE, UNWIND or GAP"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// Each window is a sequence of its own, in the order of its rows.
func TestEncoderOfWindows(t *testing.T) {
	in := relation("t:timestamp s:varchar")
	w := window(in, hopping(10, 20), false)
	expect(t, play(t, encode(w, "window_end", "rle", "s"), Options{}, `
		1 A
		2 B
		11 A
		--
		12 A
		21 C
		close
	`), `
		10 A B
		flush
		20 A B 2:A
		flush
		30 2:A C
		flush
		40 C
		flush
		close
	`)
}

// Where events are missing a sequence ends, and another one begins.
func TestEncoderGap(t *testing.T) {
	in := relation("tid:bigint event:varchar f:varchar")
	root := encode(in, "", "callstring", "event f sequence=tid")
	script := `
		1 ENTER f
		2 ENTER g
		1 GAP null
		1 LEAVE f
		2 LEAVE g
		1 ENTER f
		close
	`
	expect(t, play(t, root, Options{}, script), `
		f
		g <
		< f
		flush
		close
	`)
	e := lastEncoding(t, root, script)
	if of := e.Of(); of.Sequences != 3 || of.Truncated != 1 || of.Symbols != 5 {
		t.Errorf("%+v", of)
	}
}

// lastEncoding runs a plan and gives the encoding in its last row.
func lastEncoding(t *testing.T, root *plan.Aggregate, script string) encoders.Encoding {
	t.Helper()
	a := &aggregateResult{Agg: len(root.Keys)}
	s := strings.TrimSpace(unindent(script))
	op, err := newAggregate(root, a, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := newPool(root.Input).Get()
	for line := range strings.Lines(s) {
		cells := strings.Fields(line)
		if cells[0] == "close" {
			break
		}
		vs := make([]types.Value, len(cells))
		for i, c := range cells {
			vs[i] = value(root.Input.Schema().Fields[i].Type, c)
		}
		b.AppendRow(vs...)
	}
	if _, err := op.Push(context.Background(), 0, b); err != nil {
		t.Fatal(err)
	}
	if err := op.Close(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	return a.encoding
}

type aggregateResult struct {
	Agg      int
	encoding encoders.Encoding
}

func (a *aggregateResult) Push(_ context.Context, _ int, b *batch.Batch) (Status, error) {
	a.encoding, _ = b.Cols[a.Agg].Any[b.Len()-1].(encoders.Encoding)
	return More, nil
}
func (a *aggregateResult) Signal(context.Context, int, Signal) (Status, error) { return More, nil }
func (a *aggregateResult) Close(context.Context, int) error                    { return nil }

// The time of a token is an argument; that of a call is since the event before,
// so that a rule takes the sum of its symbols' times.
func TestEncoderTimes(t *testing.T) {
	tokens := lastEncoding(t, encode(relation("s:varchar d:bigint"), "", "rle", "s time=d"), `
		A 5
		A 7
		A null
		B 9
	`)
	calls := lastEncoding(t, encode(relation("t:timestamp event:varchar f:varchar"), "", "rle", "event f"), `
		100 ENTER f
		150 LEAVE f
		175 LEAVE g
	`)
	for _, c := range []struct {
		e    encoders.Encoding
		want string
	}{
		{tokens, `"runs":[[{"symbol":"A","n":3,"stats":{"count":3,"timed":2,"sum_ns":12,"sumsq_ns2":74}},{"symbol":"B","n":1,"stats":{"count":1,"timed":1,"sum_ns":9,"sumsq_ns2":81}}]]`},
		{calls, `"runs":[[{"symbol":"f","n":1,"stats":{"count":1}},{"symbol":"<","n":2,"stats":{"count":2,"timed":2,"sum_ns":75,"sumsq_ns2":3125}}]]`},
	} {
		text, err := c.e.MarshalJSON()
		if err != nil || !strings.Contains(string(text), c.want) {
			t.Errorf("%s, %v\nwant %s", text, err, c.want)
		}
	}
}

// All encoders of an aggregate share the budget; what is past it is counted.
func TestEncoderBudget(t *testing.T) {
	in := relation("g:bigint s:varchar")
	var script strings.Builder
	for i := range 5000 {
		script.WriteString([]string{"1 A", "2 B", "1 C", "2 D", "1 E"}[(i+i*i/7)%5] + "\n")
		if i%500 == 499 {
			script.WriteString("--\n")
		}
	}
	got := play(t, encode(in, "g", "rle", "s"), Options{EncoderBudget: 1 << 14}, script.String()+"close\n")
	if n := strings.Count(got, "encoder_budget is used up"); n != 2 {
		t.Errorf("%d encodings say that they are prefixes:\n%.2000s", n, got)
	}
	var lost, encoded, n int
	for line := range strings.Lines(got) {
		if _, err := fmt.Sscanf(line, "gap encoder budget used up %d", &n); err == nil {
			lost += n
		}
		if _, err := fmt.Sscanf(line, "-- the first %d of", &n); err == nil {
			encoded += n
		}
	}
	if lost == 0 || lost+encoded != 5000 {
		t.Errorf("%d lost, %d encoded, of 5000", lost, encoded)
	}
}

// Previews of what takes long to encode are not given each time.
func TestEncoderPreview(t *testing.T) {
	root := encode(relation("s:varchar"), "", "rle", "s")
	acc, err := newEncoding(&root.Aggs[0], 0, false)
	if err != nil {
		t.Fatal(err)
	}
	e := acc.(*encoding)
	e.grow(1)
	push := func(token string) {
		c := batch.Column{Type: types.Varchar, Dict: batch.NewDict()}
		c.Append(0, types.Str(token))
		e.update(&folding{rows: []uint16{0}, groups: make([]uint32, 1), alone: true, arg: &c})
	}
	shows := func(preview bool, want string) {
		t.Helper()
		out := batch.Column{Type: types.Encoding}
		if err := e.output([]uint32{0}, &out, instant{preview: preview}); err != nil {
			t.Fatal(err)
		}
		if got := out.Any[0].(encoders.Encoding).String(); got != want {
			t.Errorf("preview %t: %s, want %s", preview, got, want)
		}
	}
	push("A")
	shows(true, "A")
	e.nextPreview = time.Now().Add(time.Hour)
	push("B")
	shows(true, "A")
	shows(false, "A B")
	shows(true, "A B")
	push("C")
	e.nextPreview = time.Time{}
	shows(true, "A B C")
}

// The table of the language and what is implemented are the same.
func TestEncodersComplete(t *testing.T) {
	in := relation("event:varchar f:varchar")
	for _, f := range plan.Encoders {
		if f.Encoder.Model {
			continue // it needs one
		}
		columns := "f"
		if f.Encoder.Calls {
			columns = "event f"
		}
		for _, o := range f.Encoder.Options {
			if o.Required {
				columns += " " + o.Name + "=1"
			}
		}
		if _, err := Build(encode(in, "", f.Name, columns), &recorder{}, &Options{}); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

// What makes encoders has none that the planner does not know.
func TestEncodersDeclared(t *testing.T) {
	for name := range encoderMakers {
		if !slices.ContainsFunc(plan.Encoders, func(f plan.AggFunc) bool { return f.Name == name }) {
			t.Errorf("%s is not in plan.Encoders", name)
		}
	}
}
