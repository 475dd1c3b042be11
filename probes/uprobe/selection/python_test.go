package selection

import (
	"testing"

	"endoscope/planner/plan"
	"endoscope/probes/uprobe/internal/testplan"
)

// Only a condition that asks for a source file of Python means Python's functions.
func TestSelectsPython(t *testing.T) {
	module := testplan.SelectColumn(plan.SelectModule)
	like := func(fn, pattern string) plan.Expr { return testplan.Call(fn, module, testplan.Constant(pattern)) }
	app := testplan.Is(plan.SelectModule, "/srv/app.py")
	for _, c := range []struct {
		name string
		sel  plan.Expr
		want bool
	}{
		{"equality", app, true},
		{"pattern", like("like", "%app.py"), true},
		{"pattern without case", like("ilike", "%APP.py"), true},
		{"regular expression", like("~", `app\.py$`), true},
		{"list", &plan.In{X: module, List: []plan.Const{*testplan.Constant("x").(*plan.Const), *testplan.Constant("y.py").(*plan.Const)}}, true},
		{"conjunct", testplan.Call("and", testplan.Named("f"), app), true},
		{"disjunct", testplan.Call("or", testplan.Is(plan.SelectModule, "<string>"), app), true},
		{"exclusion", testplan.Call("not", app), false},
		{"other than", like("<>", "app.py"), false},
		{"function of that name", testplan.Named("app.py"), false},
		{"other module", testplan.Is(plan.SelectModule, "libpython3.11.so"), false},
		{"everything", like("like", "%"), false},
		{"nothing", nil, false},
	} {
		if got := SelectsPython(c.sel); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
