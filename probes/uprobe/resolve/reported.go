package resolve

import (
	"fmt"

	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
	"endoscope/probes/usdt"
)

// Methods of Java and functions of Python have no addresses. Where a virtual machine or an
// interpreter passes marked places at each call, they are functions nevertheless. They become
// known as they are called: the programs assign a number to each and report its name
// (reported.h), the reader tests whether it is selected, and the programs ignore those that
// are not.

const (
	javaMethods     = "methods of Java"
	pythonFunctions = "functions of Python"
)

// reportedColumns are the columns available for calls that are reported.
var reportedColumns = map[calls.Column]bool{
	calls.ColTime: true, calls.ColPID: true, calls.ColTID: true, calls.ColProcess: true, calls.ColThread: true, calls.ColExe: true, calls.ColEvent: true,
	calls.ColFunction: true, calls.ColClass: true, calls.ColModule: true, calls.ColStart: true, calls.ColDuration: true, calls.ColDepth: true, calls.ColContainer: true, calls.ColCgroup: true, calls.ColPod: true, calls.ColNamespace: true, calls.ColLabels: true,
}

// reported adds the places at which calls are reported, and reports whether the selection
// means such calls.
func (r *resolver) reported(set *selection.ModuleSet, running []process.Process) (bool, error) {
	if r.sel.Python {
		return true, r.python(set, running)
	}
	return r.java(set, running)
}

// refuseUnreported returns the error for a query that reads what is not reported of calls.
// stacks says how the stacks of threads are found.
func (r *resolver) refuseUnreported(what, stacks string) error {
	for _, f := range r.spec.Out.Fields {
		c := calls.ColumnByName[f.Name]
		if c == calls.ColCaller || c == calls.ColStack {
			return plan.Errorf(r.spec.Start, r.spec.Stop, "calls of %s have no column %s: their frames are interpreted or compiled, and only the machine can identify them", what, f.Name).
				WithHint("function_call shows by event and depth which calls which; %s", stacks)
		}
		if !reportedColumns[c] {
			return plan.Errorf(r.spec.Start, r.spec.Stop, "calls of %s have no column %s", what, f.Name)
		}
	}
	if calls.Reads(r.spec.Out, calls.ColDepth) && r.spec.Select != nil {
		return plan.Errorf(r.spec.Start, r.spec.Stop, "the depth of calls of %s is known only if all of them are monitored", what).
			WithHint("leave out the column depth, or the condition on functions")
	}
	if !attach.FeatureLoop.Has() {
		return plan.Errorf(r.spec.Start, r.spec.Stop, "calls of %s need Linux %s or newer: this kernel has no %s", what, attach.FeatureLoop.Since, attach.FeatureLoop.Name)
	}
	return nil
}

// reportingPlaces returns the marked places of a module by name, and refuses those with one of
// the names that cannot be probed or have fewer arguments than args.
func (r *resolver) reportingPlaces(m *selection.Module, what string, args int, names ...string) (map[string][]*usdt.Probe, error) {
	all, err := usdt.Probes(m.File)
	if err != nil {
		return nil, selection.RefuseTarget(r.spec.Target, "%s: %v", m.Name(), err)
	}
	texts, err := r.texts(m)
	defer closeTexts(texts)
	if err != nil {
		return nil, err
	}
	out := map[string][]*usdt.Probe{}
	for _, name := range names {
		for i := range all {
			p := &all[i]
			if p.String() != name {
				continue
			}
			reason := r.refusesMarked(p, texts)
			if reason == "" {
				reason = refusesReport(p, args)
			}
			if reason != "" {
				return nil, plan.Errorf(r.spec.Start, r.spec.Stop, "cannot observe %s: %s %s", what, name, reason)
			}
			out[name] = append(out[name], p)
		}
	}
	return out, nil
}

// refusesReport returns why the arguments of a place cannot be read; "" if they can.
func refusesReport(p *usdt.Probe, args int) string {
	if len(p.Args) < args {
		return fmt.Sprintf("has %d arguments, not %d", len(p.Args), args)
	}
	for _, a := range p.Args {
		if a.Refused != nil {
			return a.Refused.Error()
		}
	}
	return ""
}

// report adds places at which calls are reported, and returns what it added.
func (r *resolver) report(m *selection.Module, how calls.Returns, places []*usdt.Probe, scopes []*selection.Scope) []calls.Function {
	before := len(r.wants)
	for _, p := range places {
		for _, s := range scopes {
			r.wants = append(r.wants, calls.Function{
				Module: m, Scope: s, Site: p.Site, Marked: p, Returns: how,
				Label: calls.Label{Function: p.String(), Module: m.Name()},
			})
		}
	}
	r.selected = len(r.wants)
	return r.wants[before:]
}

// Reported names the functions if their calls are reported by a machine or an interpreter; ""
// if they are not.
func (r *Resolution) Reported() string {
	switch {
	case len(r.Functions) == 0 || r.Functions[0].Returns < calls.ReportedEntry:
		return ""
	case r.Python:
		return pythonFunctions
	}
	return javaMethods
}

// AreReported reports whether calls of the functions are reported by a machine or an
// interpreter.
func (r *Resolution) AreReported() bool { return r.Reported() != "" }
