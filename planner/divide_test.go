package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// TestDivisions runs testdata/divide: what of each statement a client may execute.
// The fragment is what comes out at the client's side.
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
			v := Divide(root, func(a *plan.Acquire) plan.Expr {
				if d.Cmd == "tested" { // in the kernel
					return nil
				}
				return a.Filter
			})
			if v == nil {
				return "all at the server\n"
			}
			encoded, err := v.Fragment.Encode()
			if err != nil {
				return err.Error()
			}
			f, err := plan.DecodeFragment(encoded)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			if a, b := plan.Tree(f.Upper)+plan.Tree(f.Lower), plan.Tree(v.Fragment.Upper)+plan.Tree(v.Fragment.Lower); a != b {
				t.Errorf("%s: sent\n%sreceived\n%s", d.Pos, b, a)
			}
			return fmt.Sprintf("upper\n%slower\n%sbase, of which columns %v\n%smoves: %t\n", indented(plan.Tree(f.Upper)), indented(plan.Tree(f.Lower)), v.Columns, indented(plan.Tree(v.Base)), f.Moves())
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
		return Divide(q.Root, func(a *plan.Acquire) plan.Expr { return a.Filter }).Fragment
	}
	spoil := map[string]func(*plan.Fragment){
		"nothing":                  func(f *plan.Fragment) { f.Upper = nil },
		"a column there is not":    func(f *plan.Fragment) { lowest(f.Lower).(*plan.Filter).Cond = &plan.Col{Index: 99} },
		"a column of another type": func(f *plan.Fragment) { lowest(f.Lower).(*plan.Filter).Cond = &plan.Col{Index: 0} },
		"an acquisition":           func(f *plan.Fragment) { plan.Source(f.Lower).Stream = "function_start" },
		"a file":                   func(f *plan.Fragment) { f.Upper = &plan.Insert{Input: f.Upper, Path: "/etc/passwd"} },
		"no time":                  func(f *plan.Fragment) { plan.Source(f.Lower).Out.Time = 17 },
		"parts that do not meet":   func(f *plan.Fragment) { plan.Source(f.Upper).Out.Fields[1].Type = batch.Double },
	}
	for what, do := range spoil {
		f := good()
		do(f)
		encoded, err := f.Encode()
		if err != nil {
			continue // the server cannot even say it
		}
		if _, err := plan.DecodeFragment(encoded); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// lowest is the operator above the leaf of a chain.
func lowest(n plan.Node) plan.Node {
	for plan.Depth(n) > 1 {
		n = n.Inputs()[0]
	}
	return n
}

func FuzzDecodeFragment(f *testing.F) {
	q, err := planOf(&testing.T{}, "SELECT name, count(*) FROM file('calls.csv') WHERE ms > 3 GROUP BY name", testEnv())
	if err != nil {
		f.Fatal(err)
	}
	encoded, err := Divide(q.Root, func(a *plan.Acquire) plan.Expr { return a.Filter }).Fragment.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Fuzz(func(t *testing.T, b []byte) {
		if fr, err := plan.DecodeFragment(b); err == nil {
			_ = plan.Tree(fr.Upper)
		}
	})
}
