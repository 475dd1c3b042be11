package resolve

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/lang/java"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
	"endoscope/probes/usdt"
)

// Methods of Java are functions where a machine passes HotSpot's own probes at each
// call. The methods become known as they are called: the programs assign a number to
// each and report its name (java.h), the reader tests whether it is selected, and the
// programs ignore those that are not.

// hotspot are the probes of calls. Their arguments are the thread, and the class, the
// method and its signature, each by address and length.
const (
	hotspotEntry  = "usdt:hotspot:method__entry"
	hotspotReturn = "usdt:hotspot:method__return"
	hotspotArgs   = 7
)

// javaColumns are the columns available for calls of methods.
var javaColumns = map[calls.Column]bool{
	calls.ColTime: true, calls.ColPID: true, calls.ColTID: true, calls.ColProcess: true, calls.ColThread: true, calls.ColExe: true, calls.ColEvent: true,
	calls.ColFunction: true, calls.ColClass: true, calls.ColModule: true, calls.ColStart: true, calls.ColDuration: true, calls.ColDepth: true, calls.ColContainer: true, calls.ColCgroup: true, calls.ColPod: true, calls.ColNamespace: true, calls.ColLabels: true,
}

// Machines returns the places of Java machines; if telling is set, only of those that
// report methods.
func Machines(running []process.Process, telling bool) (out []selection.Place) {
	for _, p := range running {
		mappings, _ := process.Modules(p.PID)
		for _, m := range mappings {
			if filepath.Base(m.Path) == java.Library && (!telling || java.FiresMethodProbes(p.PID, m)) {
				out = append(out, selection.Place{Process: p, Mapping: m})
			}
		}
	}
	return out
}

// java adds the method probes of the machines that the target runs, and reports
// whether there are any. If so, a selection without a condition on modules refers to
// methods.
func (r *resolver) java(set *selection.ModuleSet, running []process.Process) (bool, error) {
	if r.sel.InModule != nil || r.sel.Marked {
		return false, nil
	}
	list := Machines(running, true)
	if len(list) == 0 {
		return false, nil
	}
	for _, f := range r.spec.Out.Fields {
		c := calls.ColumnByName[f.Name]
		if c == calls.ColCaller || c == calls.ColStack {
			return true, plan.Errorf(r.spec.Start, r.spec.Stop, "calls of Java methods have no column %s: their frames are interpreted or compiled, and only the machine can identify them", f.Name).
				WithHint("function_call shows by event and depth which method calls which; SELECT stack FROM stack_sample with SET java_stacks = 'threaddump' has the stacks of threads")
		}
		if !javaColumns[c] {
			return true, plan.Errorf(r.spec.Start, r.spec.Stop, "calls of Java methods have no column %s", f.Name)
		}
	}
	if calls.Reads(r.spec.Out, calls.ColDepth) && r.spec.Select != nil {
		return true, plan.Errorf(r.spec.Start, r.spec.Stop, "the depth of calls of Java methods is known only if all methods are monitored").
			WithHint("leave out the column depth, or the condition on functions")
	}
	if !attach.FeatureLoop.Has() {
		return true, plan.Errorf(r.spec.Start, r.spec.Stop, "calls of Java methods need Linux %s or newer: this kernel has no %s", attach.FeatureLoop.Since, attach.FeatureLoop.Name)
	}
	if err := r.unknownMethods(list); err != nil {
		return true, err
	}
	r.noteSilentMachines(running, list)
	r.costs = r.prices()
	for _, pl := range list {
		if err := set.AddMapped(pl.Process, pl.Mapping, false); err != nil {
			return true, selection.RefuseTarget(r.spec.Target, "%v", err)
		}
	}
	for _, m := range set.List {
		if m.Name() != java.Library {
			continue
		}
		if err := r.machine(m); err != nil {
			return true, err
		}
	}
	r.remarks = append(r.remarks, "methods of Java are reported by the virtual machine, from their first call on")
	return true, nil
}

// noteSilentMachines reports the machines of the target that do not report methods, where others
// do.
func (r *resolver) noteSilentMachines(running []process.Process, telling []selection.Place) {
	var pids []string
	for _, pl := range Machines(running, false) {
		if !slices.ContainsFunc(telling, func(t selection.Place) bool { return t.Process.PID == pl.Process.PID }) {
			pids = append(pids, strconv.Itoa(pl.Process.PID))
		}
	}
	if len(pids) > 0 {
		r.remarks = append(r.remarks, fmt.Sprintf("no methods are reported by %s: %s", "process "+strings.Join(pids, ", "), java.Hint))
	}
}

// machine adds the probes of one library.
func (r *resolver) machine(m *selection.Module) error {
	all, err := usdt.Probes(m.File)
	if err != nil {
		return selection.RefuseTarget(r.spec.Target, "%s: %v", m.Name(), err)
	}
	texts, err := r.texts(m)
	defer closeTexts(texts)
	if err != nil {
		return err
	}
	var entries, exits []*usdt.Probe
	for i := range all {
		p := &all[i]
		name := p.String()
		if name != hotspotEntry && name != hotspotReturn {
			continue
		}
		reason := r.refusesMarked(p, texts)
		if reason == "" {
			reason = refusesMethod(p)
		}
		if reason != "" {
			return plan.Errorf(r.spec.Start, r.spec.Stop, "cannot observe methods of Java: %s %s", name, reason)
		}
		if name == hotspotEntry {
			entries = append(entries, p)
		} else {
			exits = append(exits, p)
		}
	}
	if len(exits) == 0 || len(entries) == 0 {
		return plan.Errorf(r.spec.Start, r.spec.Stop, "the Java machine %s was built without probes of calls", m.Path)
	}
	// Probes are attached in this order: a recorded entry always has its return probe.
	for _, p := range append(exits, entries...) {
		how := calls.JavaEntry
		if p.String() == hotspotReturn {
			how = calls.JavaReturn
		}
		for _, s := range r.scopes(m, calls.Unseen) {
			r.wants = append(r.wants, calls.Function{
				Module: m, Scope: s, Site: p.Site, Marked: p, Returns: how,
				Label: calls.Label{Function: p.String(), Module: m.Name()},
			})
		}
	}
	r.selected = len(r.wants)
	return nil
}

// refusesMethod returns why the arguments of a method probe cannot be read; "" if they
// can.
func refusesMethod(p *usdt.Probe) string {
	if len(p.Args) < hotspotArgs {
		return fmt.Sprintf("has %d arguments, not %d", len(p.Args), hotspotArgs)
	}
	for _, a := range p.Args {
		if a.Refused != nil {
			return a.Refused.Error()
		}
	}
	return ""
}

// IsJava reports whether the functions are methods reported by a Java machine.
func (r *Resolution) IsJava() bool {
	return len(r.Functions) > 0 && r.Functions[0].Returns >= calls.JavaEntry
}
