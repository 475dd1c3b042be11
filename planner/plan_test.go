package planner

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"endoscope/operators/expr"
	"endoscope/operators/optest"
	"endoscope/parser"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// testEnv has one CSV file with event time and one without.
func testEnv() *Env {
	return &Env{
		Views: definitions.NewViews(), Contexts: definitions.NewContexts(),
		Eval: expr.EvalConst,
		File: func(path string) (types.Schema, error) {
			switch path {
			case "calls.csv":
				return types.Schema{Time: 0, Fields: []types.Field{{Name: "timestamp", Type: types.Timestamp},
					{Name: "name", Type: types.Varchar}, {Name: "ms", Type: types.Bigint}}}, nil
			case "lines.csv":
				return types.Schema{Time: 2, Fields: []types.Field{{Name: "token", Type: types.Varchar},
					{Name: "n", Type: types.Bigint}, {Name: "line", Type: types.Bigint}}}, nil
			}
			return types.Schema{}, plan.Errorf(0, 0, "there is no file '%s'", path)
		},
		Programs: func(t plan.Target) (plan.Target, error) {
			switch {
			case t.Matching == nil:
				t.Files = []string{"/lib/" + t.Files[0]}
			case t.By == "module":
				t.Files = []string{"/opt/liba.so", "/opt/b/liba.so"}
			case strings.Contains(t.Matching.String(), "nope"):
				return t, plan.Errorf(t.Start, t.Stop, "no program satisfies %s", t.Matching)
			default:
				t.Exes = []string{"/opt/a", "/opt/b"}
			}
			t.Matching, t.By = nil, ""
			return t, nil
		},
		Values: func(a *plan.Acquire) ([]types.Type, error) { // what names end with
			out := a.Out.Types()
			for i, f := range a.Out.Fields {
				switch {
				case f.Type != types.Null:
				case strings.HasSuffix(f.Name, "text"):
					out[i] = types.Varchar
				case strings.HasSuffix(f.Name, "flag"):
					out[i] = types.Boolean
				default:
					out[i] = types.Bigint
				}
			}
			return out, nil
		},
	}
}

// create defines a stream or a context, and returns the error.
func create(t *testing.T, text string, env *Env) string {
	switch c := mustParse(t, text).(type) {
	case *parser.CreateStream:
		if err := CheckView(c, text, env); err != nil {
			return err.Error()
		}
		env.Views.Put(mustParse(t, c.String()).(*parser.CreateStream), c.Name.Name, true)
	case *parser.CreateContext:
		if err := CheckContext(c, text, env); err != nil {
			return err.Error()
		}
		env.Contexts.Put(mustParse(t, c.String()).(*parser.CreateContext), c.Name.Name, true)
	default:
		t.Fatalf("%s creates nothing", text)
	}
	return ""
}

// TestPlans runs testdata/plan: each statement is planned and printed with the
// rules that fired. "create" defines a stream or a context, "use" sets the session's target.
func TestPlans(t *testing.T) {
	datadriven.Walk(t, "testdata/plan", func(t *testing.T, path string) {
		env := testEnv()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "use":
				env.Target = plan.Target{PIDs: []int{42}}
				return ""
			case "create":
				return create(t, d.Input, env)
			case "plan":
				return planText(t, d.Input, env)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// TestErrors runs testdata/errors: statements that parse and are rejected by the planner.
func TestErrors(t *testing.T) {
	datadriven.Walk(t, "testdata/errors", func(t *testing.T, path string) {
		env := testEnv()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "create":
				return create(t, d.Input, env)
			case "refused":
				_, err := planOf(t, d.Input, env)
				if err == nil {
					t.Fatalf("%s: %s was not refused", d.Pos, d.Input)
				}
				var pe *parser.Error
				if !errors.As(err, &pe) {
					t.Fatalf("%s: %T is not an error with a place: %v", d.Pos, err, err)
				}
				if pe.Pos.Start < 0 || pe.Src == "" {
					t.Errorf("%s: no place: %v", d.Pos, err)
				}
				return err.Error()
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func mustParse(t *testing.T, src string) parser.Statement {
	t.Helper()
	st, err := parser.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func planOf(t *testing.T, src string, env *Env) (*plan.Query, error) {
	t.Helper()
	switch st := mustParse(t, src).(type) {
	case *parser.Query:
		return Plan(st, src, env)
	case *parser.Insert:
		return PlanInsert(st, src, env)
	case *parser.CreateTrigger:
		_, err := PlanTrigger(st, src, env)
		return nil, err
	default:
		t.Fatalf("%T cannot be planned", st)
		return nil, nil
	}
}

func planText(t *testing.T, src string, env *Env) string {
	q, err := planOf(t, src, env)
	if err != nil {
		return err.Error()
	}
	checkPlan(t, q.Root)
	var b strings.Builder
	b.WriteString(optest.Tree(q.Root))
	if q.For > 0 {
		fmt.Fprintf(&b, "for %s\n", plan.FormatDuration(int64(q.For)))
	}
	if len(q.Fired) > 0 {
		fmt.Fprintf(&b, "rules: %s\n", strings.Join(q.Fired, ", "))
	}
	for _, n := range q.Notices {
		fmt.Fprintf(&b, "notice: %s\n", n)
	}
	return b.String()
}

// checkPlan fails if an expression reads a column that its input does not have, or with
// another type, which a wrong rewrite would cause.
func checkPlan(t *testing.T, n plan.Node) {
	t.Helper()
	check := func(e plan.Expr, in types.Schema) {
		plan.Walk(e, func(x plan.Expr) {
			c, ok := x.(*plan.Col)
			if !ok {
				return
			}
			if c.Index >= len(in.Fields) {
				t.Errorf("%s: column %s is number %d of %d", n.Describe(), c.Name, c.Index, len(in.Fields))
			} else if f := in.Fields[c.Index]; f.Type != c.T {
				t.Errorf("%s: column %s is taken for %s but is %s %s", n.Describe(), c.Name, c.T, f.Name, f.Type)
			}
		})
	}
	var in types.Schema
	if ins := n.Inputs(); len(ins) > 0 {
		in = ins[0].Schema()
	}
	switch n := n.(type) {
	case *plan.Acquire:
		check(n.Filter, n.Out)
	case *plan.Filter:
		check(n.Cond, in)
	case *plan.Project:
		for _, e := range n.Exprs {
			check(e, in)
		}
	case *plan.Window:
		if in.Time != n.Spec.Time {
			t.Errorf("%s: event time is column %d, not %d", n.Describe(), in.Time, n.Spec.Time)
		}
	case *plan.Aggregate:
		for _, e := range n.Keys {
			check(e, in)
		}
		for _, a := range n.Aggs {
			for _, e := range a.Args {
				check(e, in)
			}
			check(a.Filter, in)
		}
		if len(n.Out.Fields) != len(n.Keys)+n.Width()*(len(n.Aggs)+len(n.Derived)) {
			t.Errorf("%s: %d columns", n.Describe(), len(n.Out.Fields))
		}
	case *plan.Sort:
		for _, k := range n.Keys {
			check(k.X, in)
		}
	case *plan.Union:
		for _, u := range n.Ins {
			if len(u.Schema().Fields) != len(n.Out.Fields) || u.Schema().Time != n.Out.Time && n.Out.Time >= 0 {
				t.Errorf("%s: input %s does not fit", n.Describe(), u.Describe())
			}
		}
	}
	for _, i := range n.Inputs() {
		checkPlan(t, i)
	}
}
