package uprobe

import (
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
	"endoscope/probes/usdt"
)

// Values returns the column types of spec, with the types of values resolved. If the
// type of a value in spec is not NULL, the statement casts the value to it; this type is
// used where functions disagree, or are not loaded yet. Values attaches nothing.
func (p *Provider) Values(spec *plan.Acquire) ([]types.Type, error) {
	out := spec.Out.Types()
	vs := calls.ValuesOf(spec)
	if !calls.AnyNamed(vs) {
		return out, nil
	}
	found, names, waits, err := p.lookUp(spec, vs)
	if only := calls.WholeOnly(vs); err != nil && only >= 0 {
		out[only] = types.Bigint // Prepare reports errors of the target
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for i, v := range vs {
		switch {
		case v == nil || v.Path == nil:
		case v.Whole:
			if out[i], err = calls.Common(found, i); err != nil && spec.Results == plan.NamedResults {
				return nil, &plan.InColumn{Column: v.Name, Err: probes.AtStream(err, spec)}
			}
		case len(found) == 0 && !waits:
			return nil, p.noneFound(spec)
		case len(found) == 0 && v.T == types.Null:
			return nil, v.Unknown(spec)
		case len(found) == 0: // the type of the cast
		default:
			if out[i], err = v.TypeIn(len(found), func(f int) (calls.FunctionValue, string) { return found[f][i], names[f] }); err != nil {
				return nil, &plan.InColumn{Column: v.Name, Err: probes.AtStream(err, spec)}
			}
		}
	}
	return out, nil
}

// noneFound returns the reason why spec selects no function.
func (p *Provider) noneFound(spec *plan.Acquire) error {
	links, err := p.linksFor(spec)
	if err != nil {
		return err
	}
	s, err := p.prepare(spec, nil, links, selection.Find)
	if err != nil {
		return resolve.Refusal(err)
	}
	s.Stop() // the function appeared meanwhile
	return plan.Errorf(spec.Start, spec.Stop, "the functions of %s change while they are looked up", spec.Select).WithHint("run the query again")
}

// lookUp returns how values of the functions selected by spec are read, the names of
// these functions, and whether modules loaded later may have more.
func (p *Provider) lookUp(spec *plan.Acquire, vs []*calls.Value) (found [][]calls.FunctionValue, names []string, waits bool, err error) {
	running, err := process.Resolve(spec.Target)
	if err != nil {
		return nil, nil, false, err
	}
	if err := selection.RefusePaths(spec); err != nil {
		return nil, nil, false, err
	}
	sel, err := selection.New(spec.Select, p.o.Match)
	if err != nil {
		return nil, nil, false, err
	}
	set, err := selection.Find(spec.Target, running, sel)
	if err != nil {
		return nil, nil, false, err
	}
	defer set.Close()
	modules := p.modulesFor(spec)
	for _, m := range set.List {
		if selection.SelectsMarked(spec.Select) {
			list, _ := usdt.Probes(m.File) // on an error the module has no markers
			for i := range list {
				w := calls.Function{Marked: &list[i], Label: calls.Label{Function: list[i].String()}}
				if ok, err := sel.Match(w.Label.Function, "", m.Name()); ok && err == nil {
					found, names = append(found, calls.ValuesOfMarked(vs, w)), append(names, w.Label.Function)
				}
			}
		}
		sym, err := modules.Open(m.File, m.Name())
		if err != nil {
			return nil, nil, false, selection.RefuseTarget(spec.Target, "cannot monitor functions of %v", err)
		}
		defer sym.Close()
		placed, called := resolve.PlaceValuesOf(sel, sym, m.Name(), vs)
		found, names = append(found, placed...), append(names, called...)
		chosen, err := sel.Choose(sym, m.Name())
		if err != nil {
			return nil, nil, false, err
		}
		if len(chosen) == 0 {
			continue
		}
		s := calls.OpenSignatures(sym, vs, len(chosen))
		for _, c := range chosen {
			found, names = append(found, s.Values(vs, sym, c, signature.Where{})), append(names, c.Name)
		}
	}
	return found, names, resolve.PendingModules(spec, sel, running, set) != nil, nil
}
