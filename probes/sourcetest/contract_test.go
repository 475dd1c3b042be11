package sourcetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"

	"endoscope/probes"
)

// TestCommandsAreAll compares Commands with what package probes declares.
func TestCommandsAreAll(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "../command.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared, listed []string
	for _, d := range f.Decls {
		if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil && m.Name.Name == "command" {
			declared = append(declared, m.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	for _, c := range Commands() {
		listed = append(listed, Name(c))
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) {
		t.Errorf("listed are %v, declared %v", listed, declared)
	}
}

func TestFakesKeepTheContract(t *testing.T) {
	for _, has := range []probes.Info{Capable(), {}} {
		Contract(t, &Fake{Has: has}, nil)
	}
}

// TestSupportsIsExact: each capability enables its own commands only.
func TestSupportsIsExact(t *testing.T) {
	all := Capable()
	for _, c := range Commands() {
		if !all.Supports(c) {
			t.Errorf("%s is not supported by a source that can do everything", Name(c))
		}
	}
	for want, i := range map[string]probes.Info{
		"[Divide CountUnfinished]":      {Identity: "x"},
		"[Collect]":                     {Aggregates: true},
		"[Sample]":                      {OnDemand: true},
		"[Suspend]":                     {Suspends: true},
		"[Resend]":                      {Resends: true},
		"[Begin]":                       {Standby: true},
		"[Detach Attach ProcessorTime]": {Detaches: true},
		"[]":                            {Live: true, Gateable: true},
	} {
		got := "["
		for _, c := range Commands() {
			if i.Supports(c) {
				if got != "[" {
					got += " "
				}
				got += Name(c)
			}
		}
		if got += "]"; got != want {
			t.Errorf("%s supported, want %s", got, want)
		}
	}
}
