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

// sameInCaller are the columns that have the same value in a call and in the call that
// makes it.
var sameInCaller = []calls.Column{calls.ColPID, calls.ColTID, calls.ColProcess, calls.ColThread, calls.ColExe}

// infers reports whether the query reads only numbers of calls, so that some can be
// inferred from others: it groups by function and by columns that caller and callee
// have in common. A query that depends on time must tolerate the few instructions
// between the two entries.
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

// textPerFunction bounds the code read per selected function to save probes. Reading
// this much takes about 0.4 ms.
const textPerFunction = 64 << 10

// maxSummands and maxTimes bound the sum from which a count is inferred.
const maxSummands, maxTimes = 64, 64

// inference finds the selected functions that need no probe.
type inference struct {
	sym    *elf.Module
	texts  []*text
	usable map[int]int   // by number in the module: the index in the selection
	sums   map[int][]sum // nil: neither probed nor inferred
	probed map[int]bool  // of usable
}

// sum is a summand; selected is an index in the selection.
type sum struct{ selected, times int }

// mayInfer reports whether some functions may be saved, at an acceptable cost.
func mayInfer(sym *elf.Module, chosen []selection.Choice) bool {
	return len(chosen) > 1 && codesite.In(sym).TextBytes() <= uint64(len(chosen))*textPerFunction &&
		slices.ContainsFunc(chosen, func(c selection.Choice) bool { return !codesite.In(sym).IsExported(c.Index) })
}

// infer returns, by selected function, the functions from which its calls follow; nil
// for functions to be probed. usable marks the functions that can be probed.
func infer(sym *elf.Module, texts []*text, chosen []selection.Choice, usable []bool) [][]sum {
	out := make([][]sum, len(chosen))
	if !mayInfer(sym, chosen) {
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
		if s := in.sumsOf(c.Index); !in.probed[c.Index] {
			out[k] = s
		}
	}
	return out
}

// sumsOf expresses the calls of function i by functions that are probed, possibly i
// itself; nil if they are unknown.
func (in *inference) sumsOf(i int) []sum {
	if s, ok := in.sums[i]; ok {
		return s
	}
	k, usable := in.usable[i]
	in.sums[i] = nil
	if usable {
		// This also applies when a function that calls itself without end reaches
		// itself.
		in.sums[i], in.probed[i] = []sum{{k, 1}}, true
	}
	if s := in.follow(i); s != nil {
		in.sums[i], in.probed[i] = s, false
	}
	return in.sums[i]
}

// follow sums the sources of the calls of function i; nil if they are unknown.
func (in *inference) follow(i int) (total []sum) {
	for _, f := range codesite.In(in.sym).CallSources(i) {
		from := in.sumsOf(f.From)
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

// unchanged reports whether all processes run the calling code as the file contains
// it.
func (in *inference) unchanged(f codesite.CallSource) bool {
	_, entry := in.sym.Entry(f.From)
	last := codesite.Site{Offset: entry + f.Through - 1, Bytes: make([]byte, 1)}
	return changed(in.texts, in.sym, f.From, calls.Function{Site: last}) == ""
}
