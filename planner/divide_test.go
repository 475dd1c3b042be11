package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"endoscope/operators/optest"
	"endoscope/planner/distribute"
	"endoscope/planner/plan"
	"endoscope/planner/plan/planpb"
	"endoscope/planner/types"
)

// TestDivisions runs testdata/divide: the part of each statement that a client may
// execute. The fragment is printed as decoded by the client.
func TestDivisions(t *testing.T) {
	datadriven.Walk(t, "testdata/divide", func(t *testing.T, path string) {
		env := testEnv()
		env.Target = plan.Target{PIDs: []int{42}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			q, err := planOf(t, d.Input, env)
			if err != nil {
				return err.Error()
			}
			// As if the kernel tested and computed nothing.
			root := plan.TransformNodes(q.Root, func(n plan.Node) plan.Node {
				if a, ok := n.(*plan.Acquire); ok && a.Partial != nil && d.Cmd != "kernel" {
					c := *a
					c.Partial = nil
					return &c
				}
				return n
			})
			v := distribute.Divide(root, func(a *plan.Acquire) plan.Expr {
				if d.Cmd == "tested" { // in the kernel
					return nil
				}
				return a.Filter
			})
			if v == nil {
				return "all at the server\n"
			}
			encoded, err := planpb.Encode(v.Fragment)
			if err != nil {
				return err.Error()
			}
			f, err := planpb.Decode(encoded)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			if a, b := optest.Tree(f.Upper)+optest.Tree(f.Lower), optest.Tree(v.Fragment.Upper)+optest.Tree(v.Fragment.Lower); a != b {
				t.Errorf("%s: sent\n%sreceived\n%s", d.Pos, b, a)
			}
			return fmt.Sprintf("upper\n%slower\n%sbase, of which columns %v\n%smoves: %t\n", indented(optest.Tree(f.Upper)), indented(optest.Tree(f.Lower)), v.Columns, indented(optest.Tree(v.Base)), f.Moves())
		})
	})
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// A fragment that does not fit together is refused before anything runs.
func TestDecodeFragmentRefuses(t *testing.T) {
	good := func() *plan.Fragment {
		q, err := planOf(t, "SELECT name, count(*) FROM file('calls.csv') WHERE ms > 3 GROUP BY name", testEnv())
		if err != nil {
			t.Fatal(err)
		}
		return distribute.Divide(q.Root, func(a *plan.Acquire) plan.Expr { return a.Filter }).Fragment
	}
	spoil := map[string]func(*plan.Fragment){
		"nothing":                  func(f *plan.Fragment) { f.Upper = nil },
		"a column there is not":    func(f *plan.Fragment) { lowest(f.Lower).(*plan.Filter).Cond = &plan.Col{Index: 99} },
		"a column of another type": func(f *plan.Fragment) { lowest(f.Lower).(*plan.Filter).Cond = &plan.Col{Index: 0} },
		"an acquisition":           func(f *plan.Fragment) { plan.Source(f.Lower).Stream = "function_start" },
		"a file":                   func(f *plan.Fragment) { f.Upper = &plan.Insert{Input: f.Upper, Path: "/etc/passwd"} },
		"no time":                  func(f *plan.Fragment) { plan.Source(f.Lower).Out.Time = 17 },
		"a result of another type": func(f *plan.Fragment) { f.Upper.(*plan.Aggregate).Out.Fields[1].Type = types.Varchar },
		"a key of another type":    func(f *plan.Fragment) { f.Upper.(*plan.Aggregate).Out.Fields[0].Type = types.Bigint },
		"states of another form":   func(f *plan.Fragment) { p := plan.Source(f.Upper).Partial; p.Out.Fields = p.Out.Fields[:1] },
		"no condition":             func(f *plan.Fragment) { lowest(f.Lower).(*plan.Filter).Cond = nil },
		"a condition of no truth":  func(f *plan.Fragment) { lowest(f.Lower).(*plan.Filter).Cond = &plan.Const{V: types.Int(1)} },
		"no argument": func(f *plan.Fragment) {
			lowest(f.Lower).(*plan.Filter).Cond = &plan.Call{Fn: "is null", T: types.Boolean}
		},
		"no operand": func(f *plan.Fragment) {
			lowest(f.Lower).(*plan.Filter).Cond = &plan.Cast{X: &plan.Call{Fn: "neg", T: types.Bigint}, T: types.Boolean}
		},
		"too many arguments": func(f *plan.Fragment) {
			one := &plan.Const{V: types.Int(1)}
			lowest(f.Lower).(*plan.Filter).Cond = &plan.Call{Fn: "<", Args: []plan.Expr{one, one, one}, T: types.Boolean}
		},
		"nothing to sum": func(f *plan.Fragment) { f.Upper.(*plan.Aggregate).Aggs[0] = plan.Agg{Fn: "sum", T: types.Bigint} },
		"too deep": func(f *plan.Fragment) {
			c := lowest(f.Lower).(*plan.Filter)
			for range 5000 {
				c.Cond = &plan.Call{Fn: "not", Args: []plan.Expr{c.Cond}, T: types.Boolean}
			}
		},
		"parts that do not meet": func(f *plan.Fragment) { plan.Source(f.Upper).Out.Fields[1].Type = types.Double },
	}
	for what, do := range spoil {
		f := good()
		do(f)
		if _, err := planpb.Encode(f); err == nil {
			t.Errorf("%s: sent", what)
		}
		encoded, err := planpb.Marshal(f)
		if err != nil {
			continue // a server cannot encode it
		}
		if _, err := planpb.Decode(encoded); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
	if _, err := planpb.Decode(make([]byte, planpb.MaxFragment+1)); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("more than a fragment may be: %v", err)
	}
}

// lowest is the operator above the leaf of a chain.
func lowest(n plan.Node) plan.Node {
	for plan.Depth(n) > 1 {
		n = n.Inputs()[0]
	}
	return n
}
