package uprobe

import (
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
	"endoscope/probes/usdt"
)

// Values gives the types of those columns of spec that are values; of the others, those
// that they have. The type that a value has in spec, if it is not NULL, is what the
// statement casts it to: it counts where functions do not agree, or are not there yet. It
// attaches nothing.
func (p *Provider) Values(spec *plan.Acquire) ([]types.Type, error) {
	out := spec.Out.Types()
	vs := calls.ValuesOf(spec)
	if !calls.AnyNamed(vs) {
		return out, nil
	}
	found, names, waits, err := p.lookUp(spec, vs)
	if only := calls.WholeOnly(vs); err != nil && only >= 0 {
		out[only] = types.Bigint // what there is to say of the target, Prepare says
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
				return nil, &plan.InColumn{Column: v.Name, Err: calls.PlaceAt(err, spec)}
			}
		case len(found) == 0 && !waits:
			return nil, p.noneFound(spec)
		case len(found) == 0 && v.T == types.Null:
			return nil, v.Unknown(spec)
		case len(found) == 0: // as it is cast
		default:
			if out[i], err = v.TypeIn(len(found), func(f int) (calls.FunctionValue, string) { return found[f][i], names[f] }); err != nil {
				return nil, &plan.InColumn{Column: v.Name, Err: calls.PlaceAt(err, spec)}
			}
		}
	}
	return out, nil
}

// noneFound says why no function is that spec chooses.
func (p *Provider) noneFound(spec *plan.Acquire) error {
	links, err := p.linksFor(spec)
	if err != nil {
		return err
	}
	s, err := p.prepare(spec, nil, links, selection.Find)
	if err != nil {
		return resolve.Refusal(err)
	}
	s.Stop() // it has come between
	return plan.Errorf(spec.Start, spec.Stop, "the functions of %s change while they are looked up", spec.Select).WithHint("ask again")
}

// lookUp says how values are read of the functions that spec chooses, what these are
// called, and whether others may come with modules that are not loaded.
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
	for _, m := range set.List {
		if selection.SpeaksOfMarked(spec.Select) {
			list, _ := usdt.Probes(m.File) // on an error nothing is marked in it
			for i := range list {
				w := calls.Function{Marked: &list[i], Label: calls.Label{Function: list[i].String()}}
				if ok, err := sel.Match(w.Label.Function, "", m.Name()); ok && err == nil {
					found, names = append(found, calls.ValuesOfMarked(vs, w)), append(names, w.Label.Function)
				}
			}
		}
		sym, err := p.modules.Open(m.File, m.Name())
		if err != nil {
			return nil, nil, false, selection.RefuseTarget(spec.Target, "cannot monitor functions of %v", err)
		}
		defer sym.Close()
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
