package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codesite"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/elf"
	"endoscope/server/answer"
	"endoscope/server/trigger"
	"endoscope/server/wire"
)

// describe answers DESCRIBE stream and DESCRIBE FUNCTION name.
func (s *session) describe(_ context.Context, st *parser.Describe, src string) (wire.Result, error) {
	name := st.Name.Name
	if st.Function {
		return s.program().describeFunction(st, src)
	}
	if v := s.views.Get(name); v != nil {
		return s.describeView(v)
	}
	if t := s.e.triggers.Get(name); t != nil && s.may.Owns(t.Owner) {
		return trigger.Describe(t), nil
	}
	cs := catalog.Find(strings.ToLower(name))
	if cs == nil {
		if k, err := s.e.models.Get(name); err == nil && k != nil && s.may.Owns(k.Owner) {
			return describeModel(k), nil
		}
		var names []string
		for _, st := range catalog.Streams {
			names = append(names, st.Name)
		}
		return nil, answer.Refuse(st.Name, src, answer.Nearest(name, slices.Concat(names, s.views.Names(), s.triggerNames())), "there is no stream %s", name)
	}
	if cs.Later {
		return nil, answer.Unsupported(st.Name, src, cs.Name)
	}
	rel := answer.NewTable(answer.Text("column"), answer.Text("type"), answer.Text("unit"), answer.Text("description"))
	for _, c := range cs.All() {
		rel.Add(types.Str(c.Name), types.Str(c.Type.String()), types.Str(c.Unit), types.Str(c.Doc))
	}
	rel.Notices = []string{
		cs.Name + ": " + cs.Doc + " (" + cs.Kind.String() + ")",
		"acquired by " + cs.How,
		"costs " + cs.Cost,
		"needs " + cs.Needs,
	}
	return rel, nil
}

// describeView lists the columns of a user's stream: those that selecting all
// of it would give.
func (s *session) describeView(v *parser.CreateStream) (wire.Result, error) {
	src := v.Query.String()
	sch, err := planner.ViewSchema(v, s.env())
	if err != nil {
		return nil, err
	}
	rel := answer.NewTable(answer.Text("column"), answer.Text("type"))
	for _, f := range sch {
		rel.Add(types.Str(f.Name), types.Str(f.Type.String()))
	}
	rel.Notices = []string{v.Name.Name + ": " + src}
	return rel, nil
}

// describeFunction explains a function of the language, or of the target.
func (p program) describeFunction(st *parser.Describe, src string) (wire.Result, error) {
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
	m, err := p.module()
	if err != nil {
		if !p.target.IsZero() {
			return nil, answer.WithPlace(planner.Placed(err, src), st, src)
		}
		return nil, answer.Refuse(st.Name, src, cmp.Or(planner.NearestFunctions(name), "for a function of a program, say USE 'name' first"), "there is no function %s in the language", name)
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
	return rel, nil
}

// otherNames are those by which a function can be asked for beside its own; the linker's
// tells it from others that are called the same.
func otherNames(f *elf.Function) []string {
	if f.Mangled == f.Name || f.Synthetic {
		return f.Aliases
	}
	return append([]string{f.Mangled}, f.Aliases...)
}
