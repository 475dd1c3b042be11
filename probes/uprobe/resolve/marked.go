package resolve

import (
	"fmt"
	"slices"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/bpf"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
	"endoscope/probes/usdt"
)

// Places marked by a program's author (USDT, <sys/sdt.h>) are functions of
// function_start named usdt:provider:name. They have the arguments given in their ELF
// notes, and no return.

// marked adds the marked places of a module.
func (r *resolver) marked(m *selection.Module) error {
	list, err := usdt.Probes(m.File)
	if err != nil || len(list) == 0 {
		return nil // the module has no marked places
	}
	texts, err := r.texts(m)
	defer closeTexts(texts)
	if err != nil {
		return err
	}
	var scopes []*selection.Scope
	for i := range list {
		p := &list[i]
		name := p.String()
		if i == 0 || name != r.markedNames[len(r.markedNames)-1] {
			r.markedNames = append(r.markedNames, name)
		}
		ok, err := r.sel.Match(name, "", m.Name())
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		r.found[name] = true
		if r.returns {
			return r.refuseMarked(name)
		}
		r.selected++
		if reason := r.refusesMarked(p, texts); reason != "" {
			r.skip(name, reason)
			continue
		}
		if scopes == nil {
			r.costs = r.prices()
			scopes = r.scopes(m, calls.Unseen)
		}
		for _, s := range scopes {
			r.wants = append(r.wants, calls.Function{
				Module: m, Scope: s, Site: p.Site, Flags: abi.Placed, Marked: p,
				Label: calls.Label{Function: name, Module: m.Name(), Exe: s.Exe, Inside: true},
			})
		}
	}
	return nil
}

// refuseMarked returns the error for a query that needs more than entries.
func (r *resolver) refuseMarked(name string) error {
	start, stop := r.at(name)
	if r.spec.Stream == catalog.FunctionStart {
		return plan.Errorf(start, stop, "%s is a place that is passed, which has no depth", name).WithHint("leave out the column depth")
	}
	return plan.Errorf(start, stop, "%s is a place that is passed, not a call that returns", name).
		WithHint("SELECT * FROM function_start WHERE function_name = '%s'", name)
}

// refusesMarked returns why p is not probed; "" if it is.
func (r *resolver) refusesMarked(p *usdt.Probe, texts []*text) string {
	if p.Refused != nil {
		return p.Refused.Error()
	}
	for i := range min(abi.MaxArgs, len(p.Args)) {
		switch a := &p.Args[i]; {
		case !readsArg(r.spec.Out, i):
		case a.Refused != nil:
			return fmt.Sprintf("arg%d cannot be read: %v", i, a.Refused)
		case a.Float:
			return fmt.Sprintf("arg%d is a floating-point number: args.arg%d reads it", i, i)
		}
	}
	begin, end := p.Site.Offset, p.Site.Offset+uint64(len(p.Site.Bytes))
	for _, t := range texts {
		if reason := t.check(begin, end, []uint64{begin}); reason != "" {
			return reason
		}
	}
	return ""
}

// readsArg reports whether a query reads an argument, even if only in its condition.
func readsArg(out types.Schema, i int) bool { return calls.Reads(out, calls.ColArg0+calls.Column(i)) }

// ReadsMemory reports whether arguments of marked places are in memory.
func (r *Resolution) ReadsMemory() bool {
	return slices.ContainsFunc(r.Functions, func(w calls.Function) bool {
		return w.Marked != nil && slices.ContainsFunc(w.Marked.Args, func(a usdt.Operand) bool { return a.Memory })
	})
}

// Operands returns by function where its arguments are; nil if all functions follow
// the calling convention.
func (r *Resolution) Operands() []bpf.FunctionOperands {
	if !slices.ContainsFunc(r.Functions, func(w calls.Function) bool { return w.Marked != nil }) {
		return nil
	}
	out := make([]bpf.FunctionOperands, len(r.Functions))
	for i, w := range r.Functions {
		if w.Marked != nil {
			args := w.Marked.Args
			if w.Returns >= calls.ReportedEntry && !r.Python {
				args = args[1:] // except the thread
			}
			out[i] = calls.OperandsOf(args)
		}
	}
	return out
}
