package server

import (
	"fmt"
	"path/filepath"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/elf"
)

// valueTypes gives the planner the types of an acquisition's columns that are arguments
// by name, of programs that the session may look at.
func (s *session) valueTypes(a *plan.Acquire) ([]types.Type, error) {
	p, err := s.permitted(&plan.Query{Root: a}, "")
	if err != nil {
		return nil, err
	}
	return s.e.uprobes.Values(p.Root.(*plan.Acquire))
}

// describeSignature is what DESCRIBE FUNCTION says of a function's types: its signature,
// where its arguments are when it is entered, and where it is declared; or why it cannot.
func describeSignature(m *elf.Module, i int, info *signature.Info, noInfo error) []types.Value {
	unknown := func(what string, err error) []types.Value {
		return []types.Value{types.Str("not known: " + what + " " + err.Error()), types.NullOf(types.Varchar), types.NullOf(types.Varchar)}
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
	declared := types.NullOf(types.Varchar)
	if f.File != "" {
		declared = types.Str(fmt.Sprintf("%s:%d", filepath.Clean(f.File), f.Line))
	}
	return []types.Value{types.Str(f.Signature(m.Function(i).Lang)), types.Str(strings.Join(where, "; ")), declared}
}
