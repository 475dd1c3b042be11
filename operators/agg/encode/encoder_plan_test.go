package encode_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"endoscope/operators"
	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/operators/graph"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func TestEncoderOfGroups(t *testing.T) {
	in := testplan.Relation("g:bigint s:varchar")
	testplan.Expect(t, play.Run(t, testplan.Encode(in, "g", "rle", "s"), operators.Options{}, `
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
	testplan.Expect(t, play.Run(t, testplan.Encode(in, "", "rle", "s k=2"), operators.Options{}, `
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
	testplan.Expect(t, play.Run(t, testplan.Encode(in, "", "rle", "s"), operators.Options{}, `
		close
	`), `
		null
		flush
		close
	`)
}

// Rows with different values of an argument belong to different sequences; NULL is
// one of the values.
func TestEncoderOfSequences(t *testing.T) {
	for _, by := range []string{"varchar", "bigint"} {
		in := testplan.Relation("id:" + by + " s:varchar")
		got := play.Run(t, testplan.Encode(in, "", "grammar", "s sequence=id"), operators.Options{}, `
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
		testplan.Expect(t, got, `
			S0 -> R1 R1
			S1 -> R1 R1
			S2 -> X Y
			R1 -> A B
			flush
			close
		`)
	}
}

// A sequence may have a birth and a death: addresses are reused, and rows without
// a begun sequence belong to none.
func TestEncoderOfObjects(t *testing.T) {
	for _, typ := range []string{"bigint", "varchar"} {
		in := testplan.Relation("this:" + typ + " f:varchar birth:boolean death:boolean")
		got := play.Run(t, testplan.Encode(in, "", "rle", "f sequence=this born=birth dies=death"), operators.Options{}, `
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
		testplan.Expect(t, got, `
			Stack 2:push ~Stack
			Stack pop
			Queue ~Queue
			Once
			flush
			close
		`)
	}
	// Of one thing only: each request is a sequence.
	in := testplan.Relation("f:varchar birth:boolean")
	testplan.Expect(t, play.Run(t, testplan.Encode(in, "", "grammar", "f born=birth"), operators.Options{}, `
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
	in := testplan.Relation("t:timestamp tid:bigint event:varchar f:varchar")
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
	testplan.Expect(t, play.Run(t, testplan.Encode(in, "", "callstring", "event f sequence=tid"), operators.Options{}, script), `
		main f < f < <
		f <
		flush
		close
	`)
	testplan.Expect(t, play.Run(t, testplan.Encode(in, "", "nlevel", "event f sequence=tid n=2"), operators.Options{}, script), `
		-- calls total mean deviation callers...
		3 70ns 23ns 15ns f
		1 60ns 60ns 0s main
		2 30ns 15ns 7ns main f
		flush
		close
	`)
	testplan.Expect(t, play.Run(t, testplan.Encode(in, "tid", "grammar", "event f balanced=full"), operators.Options{}, script), `
		1 R0 -> main 2:R1 <
		R1 -> f <
		2 R0 -> f <
		flush
		close
	`)
	// Without a timestamp calls are not timed.
	testplan.Expect(t, play.Run(t, testplan.Encode(testplan.Relation("event:varchar f:varchar"), "", "nlevel", "event f n=1"), operators.Options{}, `
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
	root := testplan.Encode(testplan.Relation("event:varchar f:varchar"), "", "callstring", "event f")
	_, err := play.Perform(root, operators.Options{}, "ENTER f\n? f\nclose", false)
	if want := "callstring(event, f) encodes calls: '?' is no ENTER, LEAVE, UNWIND or GAP"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// Each window is a sequence of its own, in the order of its rows.
func TestEncoderOfWindows(t *testing.T) {
	in := testplan.Relation("t:timestamp s:varchar")
	w := testplan.Window(in, testplan.Hopping(10, 20), false)
	testplan.Expect(t, play.Run(t, testplan.Encode(w, "window_end", "rle", "s"), operators.Options{}, `
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
	in := testplan.Relation("tid:bigint event:varchar f:varchar")
	root := testplan.Encode(in, "", "callstring", "event f sequence=tid")
	script := `
		1 ENTER f
		2 ENTER g
		1 GAP null
		1 LEAVE f
		2 LEAVE g
		1 ENTER f
		close
	`
	testplan.Expect(t, play.Run(t, root, operators.Options{}, script), `
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

// lastEncoding runs a plan and returns the encoding in its last row.
func lastEncoding(t *testing.T, root *plan.Aggregate, script string) encoders.Encoding {
	t.Helper()
	a := &aggregateResult{Agg: len(root.Keys)}
	s := strings.TrimSpace(testplan.Unindent(script))
	op, err := agg.New(root, a, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := testplan.NewPool(root.Input).Get()
	for line := range strings.Lines(s) {
		cells := strings.Fields(line)
		if cells[0] == "close" {
			break
		}
		vs := make([]types.Value, len(cells))
		for i, c := range cells {
			vs[i] = testplan.Value(root.Input.Schema().Fields[i].Type, c)
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

func (a *aggregateResult) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	a.encoding, _ = b.Cols[a.Agg].Any[b.Len()-1].(encoders.Encoding)
	return operators.More, nil
}

func (a *aggregateResult) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	return operators.More, nil
}

func (a *aggregateResult) Close(context.Context, int) error { return nil }

// The time of a token is an argument; that of a call is the time since the
// previous event, so that a rule has the sum of its symbols' times.
func TestEncoderTimes(t *testing.T) {
	tokens := lastEncoding(t, testplan.Encode(testplan.Relation("s:varchar d:bigint"), "", "rle", "s time=d"), `
		A 5
		A 7
		A null
		B 9
	`)
	calls := lastEncoding(t, testplan.Encode(testplan.Relation("t:timestamp event:varchar f:varchar"), "", "rle", "event f"), `
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
	in := testplan.Relation("g:bigint s:varchar")
	var script strings.Builder
	for i := range 5000 {
		script.WriteString([]string{"1 A", "2 B", "1 C", "2 D", "1 E"}[(i+i*i/7)%5] + "\n")
		if i%500 == 499 {
			script.WriteString("--\n")
		}
	}
	got := play.Run(t, testplan.Encode(in, "g", "rle", "s"), operators.Options{EncoderBudget: 1 << 14}, script.String()+"close\n")
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

// The table of the language and what is implemented are the same.
func TestEncodersComplete(t *testing.T) {
	in := testplan.Relation("event:varchar f:varchar")
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
		if _, err := graph.Build(testplan.Encode(in, "", f.Name, columns), &testplan.Recorder{}, &operators.Options{}); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}
