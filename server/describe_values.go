package server

import (
	"fmt"
	"path/filepath"
	"strings"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/probes/signature"
	"endoscope/probes/symbols"
)

// valueTypes gives the planner the types of an acquisition's columns that are arguments
// by name, of programs that the session may look at.
func (s *session) valueTypes(a *plan.Acquire) ([]batch.Type, error) {
	p, err := s.permitted(&plan.Query{Root: a}, "")
	if err != nil {
		return nil, err
	}
	return s.e.uprobes.Values(p.Root.(*plan.Acquire))
}

// describeSignature is what DESCRIBE FUNCTION says of a function's types: its signature,
// where its arguments are when it is entered, and where it is declared; or why it cannot.
func describeSignature(m *symbols.Module, i int, info *signature.Info, noInfo error) []batch.Value {
	unknown := func(what string, err error) []batch.Value {
		return []batch.Value{batch.Str("not known: " + what + " " + err.Error()), batch.NullOf(batch.Varchar), batch.NullOf(batch.Varchar)}
	}
	if noInfo != nil {
		return unknown(m.Name(), noInfo)
	}
	f, err := info.Function(m, i)
	if err != nil {
		return unknown(m.Function(i).Name, err)
	}
	var where []string
	for _, p := range f.Params {
		if p.Name != "" {
			where = append(where, p.Name+": "+p.Where())
		}
	}
	if f.Result != nil {
		where = append(where, "retval: "+f.Result.Where())
	}
	declared := batch.NullOf(batch.Varchar)
	if f.File != "" {
		declared = batch.Str(fmt.Sprintf("%s:%d", filepath.Clean(f.File), f.Line))
	}
	return []batch.Value{batch.Str(f.Signature(m.Function(i).Lang)), batch.Str(strings.Join(where, "; ")), declared}
}
