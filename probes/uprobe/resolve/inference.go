package resolve

import (
	"slices"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/codesite"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// sameInCaller are columns that a call has in common with the call in which it
// is made.
var sameInCaller = []calls.Column{calls.ColPID, calls.ColTID, calls.ColProcess, calls.ColThread, calls.ColExe}

// infers reports whether only numbers of calls are asked, so that some may
// follow from others: groups by function, and by what caller and called have in
// common. Where time matters, it must not to the few instructions between them.
func infers(spec *plan.Acquire) bool {
	p := spec.Partial
	if spec.Stream != catalog.FunctionStart || p == nil || spec.Settings.NoKernel || spec.Settings.AllProbed {
		return false
	}
	only := func(e plan.Expr, extra ...calls.Column) bool {
		ok := true
		plan.Walk(e, func(x plan.Expr) {
			if c, isCol := x.(*plan.Col); isCol {
				col := calls.ColumnByName[spec.Out.Fields[c.Index].Name]
				ok = ok && (slices.Contains(sameInCaller, col) || slices.Contains(extra, col))
			}
		})
		return ok
	}
	byFunction := len(p.Keys) == 0
	for _, k := range p.Keys {
		if !only(k, calls.ColFunction, calls.ColClass, calls.ColModule) {
			return false
		}
		byFunction = byFunction || !only(k)
	}
	for i := range p.Aggs {
		if f := &p.Aggs[i]; f.Fn != "count" && f.Fn != "rate" || len(f.Args) > 0 || f.Distinct || !only(f.Filter) {
			return false
		}
	}
	// Groups by thread alone would become groups by thread and function.
	return byFunction && only(spec.Filter)
}

// textPerFunction is how much code may be read for each function selected, to
// save some of their probes. To read it takes about 0.4 ms.
const textPerFunction = 64 << 10

// maxSummands and maxTimes bound what a count is inferred from.
const maxSummands, maxTimes = 64, 64

// inference finds the functions, of those selected, that need no probe.
type inference struct {
	sym    *elf.Module
	texts  []*text
	usable map[int]int   // by number in the module: among those selected
	sums   map[int][]sum // nil: neither probed nor inferred
	probed map[int]bool  // of usable
}

// sum is a summand in terms of the selection.
type sum struct{ selected, times int }

// worthInferring reports whether some functions may be saved, and not too dearly.
func worthInferring(sym *elf.Module, chosen []selection.Choice) bool {
	return len(chosen) > 1 && codesite.In(sym).TextBytes() <= uint64(len(chosen))*textPerFunction &&
		slices.ContainsFunc(chosen, func(c selection.Choice) bool { return !codesite.In(sym).IsExported(c.Index) })
}

// infer returns, by selected function, from which others its calls follow; nil
// for those that are to be probed. usable are those that can be.
func infer(sym *elf.Module, texts []*text, chosen []selection.Choice, usable []bool) [][]sum {
	out := make([][]sum, len(chosen))
	if !worthInferring(sym, chosen) {
		return out
	}
	in := inference{sym: sym, texts: texts, usable: map[int]int{}, sums: map[int][]sum{}, probed: map[int]bool{}}
	for k, c := range chosen {
		if usable[k] {
			in.usable[c.Index] = k
		}
	}
	for k, c := range chosen {
		if !usable[k] {
			continue
		}
		if s := in.of(c.Index); !in.probed[c.Index] {
			out[k] = s
		}
	}
	return out
}

// of is function i in terms of functions that are probed, itself perhaps; nil if
// it is not known.
func (in *inference) of(i int) []sum {
	if s, ok := in.sums[i]; ok {
		return s
	}
	k, usable := in.usable[i]
	in.sums[i] = nil
	if usable {
		// Also where it is asked for itself, in code that calls itself for ever.
		in.sums[i], in.probed[i] = []sum{{k, 1}}, true
	}
	if s := in.follow(i); s != nil {
		in.sums[i], in.probed[i] = s, false
	}
	return in.sums[i]
}

// follow adds up what brings calls of function i; nil if that is not known.
func (in *inference) follow(i int) (total []sum) {
	for _, f := range codesite.In(in.sym).CallSources(i) {
		from := in.of(f.From)
		if from == nil || !in.unchanged(f) {
			return nil
		}
		for _, s := range from {
			s.times *= f.Times
			at := slices.IndexFunc(total, func(t sum) bool { return t.selected == s.selected })
			if at < 0 {
				at, total = len(total), append(total, sum{selected: s.selected})
			}
			total[at].times += s.times
			if len(total) > maxSummands || total[at].times > maxTimes || s.selected == in.usable[i] && in.probed[i] {
				return nil
			}
		}
	}
	return total
}

// unchanged reports whether all processes run the code that says where calls
// come from as the file has it.
func (in *inference) unchanged(f codesite.CallSource) bool {
	_, entry := in.sym.Entry(f.From)
	last := codesite.Site{Offset: entry + f.Through - 1, Bytes: make([]byte, 1)}
	return changed(in.texts, in.sym, f.From, calls.Function{Site: last}) == ""
}
