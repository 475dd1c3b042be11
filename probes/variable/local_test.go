package variable

import (
	"fmt"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
)

// local is a specification of all columns for variables of functions.
func local(pid int, functions string, names ...string) *plan.Acquire {
	spec := asked(pid, 0, names...)
	in := &plan.In{X: &plan.Col{Index: plan.Schema{Fields: Columns}.Index("function_name"), Name: "function_name", T: batch.Varchar}}
	for _, name := range strings.Fields(functions) {
		in.List = append(in.List, plan.Const{V: batch.Str(name)})
	}
	spec.Filter = &plan.Call{Fn: "and", Args: []plan.Expr{spec.Filter, in}, T: batch.Boolean}
	return spec
}

// told are rows as variable=text, one after the other.
func told(got *record) string {
	var text []string
	for _, row := range got.rows {
		v, ok := row["var_text"]
		if !ok {
			v = "NULL"
		}
		text = append(text, row["var_name"]+"="+v)
	}
	return strings.Join(text, " ")
}

func TestLocalsTry(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, flags := range [][]string{{"-O0", "-g"}, {"-O1", "-g"}, {"-O2", "-g"}} {
		c := testenv.CompileC(t, "testdata/locals.c", flags...)
		for _, q := range []struct{ f, names string }{{"fib", "n"}, {"fib", "a b"}, {"collatz", "n steps"}, {"serve", "sum id i c tag name"}, {"serve", "r.path r.id r.next"}} {
			r := run(t, c)
			s, err := New().Prepare(t.Context(), local(r.pid, q.f, strings.Fields(q.names)...))
			if err != nil {
				t.Log(flags, q, err)
				continue
			}
			for _, x := range s.Sites() {
				t.Logf("%+v", x)
			}
			t.Log(s.Notices())
			s.Stop()
			got, stop := observe(t, local(r.pid, q.f, strings.Fields(q.names)...))
			r.tell(t, "4")
			stop()
			t.Log(flags, q, told(got))
			for _, row := range got.rows[:min(2, len(got.rows))] {
				t.Log(fmt.Sprint(row))
			}
		}
	}
}
