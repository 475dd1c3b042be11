package introspect

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codesite"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/elf"
	"endoscope/server/answer"
	"endoscope/server/wire"
)

// describeSignature returns the rows of DESCRIBE FUNCTION on a function's
// types: its signature, where its arguments are at entry, and where it is
// declared; or why that is unknown.
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

// DescribeFunction describes a function of the language, or of the target.
func (p Program) DescribeFunction(st *parser.Describe, src string) (wire.Result, error) {
	name := st.Name.Name
	rel := answer.NewTable(answer.Text("function"), answer.Text("signature"), answer.Text("description"))
	if f := plan.FindScalar(strings.ToLower(name)); f != nil {
		rel.Add(types.Str(f.Name), types.Str(planner.Signature(f)), types.Str(f.Doc))
		return rel, nil
	}
	if f := plan.FindAgg(strings.ToLower(name)); f != nil {
		rel.Add(types.Str(f.Name), types.Str(planner.AggSignature(f)), types.Str(f.Doc))
		return rel, nil
	}
	m, err := p.Module()
	if err != nil {
		if !p.Target.IsZero() {
			return nil, answer.WithPlace(planner.Placed(err, src), st, src)
		}
		return nil, answer.Refuse(st.Name, src, cmp.Or(planner.NearestFunctions(name), "for a function of a program, run USE 'name' first"), "there is no function %s in the language", name)
	}
	defer m.Close()
	found := m.Find(name)
	if len(found) == 0 {
		if rel, err := p.describeMarked(name); rel != nil || err != nil {
			return rel, err
		}
		rel, hint, err := p.describeJava(name)
		if rel != nil || err != nil {
			return rel, err
		}
		if near := m.Nearest(name, 3); hint == "" && len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		if notice := m.Notice(); notice != "" {
			hint = strings.TrimPrefix(hint+"; "+notice, "; ")
		}
		return nil, answer.Refuse(st.Name, src, hint, "no function named %s in %s", name, m.Name())
	}
	rel = answer.NewTable(answer.Text("function_name"), answer.Text("class"), answer.Text("module"), answer.Text("address"), answer.Number("size"), answer.Text("aliases"), answer.Text("entry"), answer.Text("return"), answer.Text("signature"), answer.Text("arguments"), answer.Text("declared"))
	info, noInfo := signature.Open(m)
	for _, i := range found {
		f := m.Function(i)
		entry := ""
		if site, err := codesite.In(m).EntrySite(i); err != nil {
			entry = "cannot be probed: " + err.Error()
		} else {
			entry = site.Method + ": " + site.Insn()
		}
		ret := "can be trapped"
		if ok, why := codesite.In(m).ReturnTrap(i); !ok {
			exits, err := codesite.In(m).ExitSites(i)
			if err != nil {
				ret = "cannot be observed: " + why + ", and it " + err.Error()
			} else {
				ret = fmt.Sprintf("observed at %d exits: %s", len(exits), why)
			}
		}
		rel.Add(append([]types.Value{types.Str(f.Name), types.Str(f.Class), types.Str(m.Name()), types.Str(fmt.Sprintf("%#x", f.Addr)),
			types.Int(int64(f.Size)), types.Str(strings.Join(otherNames(&f), ", ")), types.Str(entry), types.Str(ret)},
			describeSignature(m, i, info, noInfo)...)...)
	}
	if notice := m.Notice(); notice != "" {
		rel.Notices = append(rel.Notices, notice)
	}
	return rel, nil
}

// otherNames returns the other names by which a function can be selected; the
// linker's name distinguishes it from functions of the same name.
func otherNames(f *elf.Function) []string {
	if f.Mangled == f.Name || f.Synthetic {
		return f.Aliases
	}
	return append([]string{f.Mangled}, f.Aliases...)
}
