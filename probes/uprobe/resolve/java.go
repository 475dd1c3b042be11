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
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// hotspot are the probes of calls. Their arguments are the thread, and the class, the
// method and its signature, each by address and length.
const (
	hotspotEntry  = "usdt:hotspot:method__entry"
	hotspotReturn = "usdt:hotspot:method__return"
	hotspotArgs   = 7
)

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
	if err := r.refuseUnreported(javaMethods, "SELECT stack FROM stack_sample with SET java_stacks = 'threaddump' has the stacks of threads"); err != nil {
		return true, err
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
	places, err := r.reportingPlaces(m, javaMethods, hotspotArgs, hotspotEntry, hotspotReturn)
	if err != nil {
		return err
	}
	if len(places[hotspotEntry]) == 0 || len(places[hotspotReturn]) == 0 {
		return plan.Errorf(r.spec.Start, r.spec.Stop, "the Java machine %s was built without probes of calls", m.Path)
	}
	// Probes are attached in this order: a recorded entry always has its return probe.
	scopes := r.scopes(m, calls.Unseen)
	r.report(m, calls.ReportedReturn, places[hotspotReturn], scopes)
	r.report(m, calls.ReportedEntry, places[hotspotEntry], scopes)
	return nil
}

// unknownMethods searches the methods of the loaded classes for the selected names. A
// name found nowhere is an error, or is listed if other names were found. For classes
// not loaded yet, and for patterns, there is only a notice.
func (r *resolver) unknownMethods(machines []selection.Place) error {
	if r.sel.Match == nil {
		return nil
	}
	var loaded []java.Method
	for _, pl := range machines {
		list, err := java.Loaded(pl.Process.PID, pl.Mapping)
		if err != nil {
			return nil // the methods of one machine are unknown: no name can be reported as missing
		}
		loaded = append(loaded, list...)
	}
	if r.sel.Names == nil {
		r.noneLoaded(loaded)
		return nil
	}
	names, classes := map[string]bool{}, map[string]bool{}
	for i := range loaded {
		m := &loaded[i]
		classes[m.Class], names[m.Function()] = true, true
		for _, alias := range m.Aliases() {
			names[alias] = true
		}
	}
	near := func(name string) (hint string) {
		list := make([]string, 0, len(loaded))
		for i := range loaded {
			if list = append(list, loaded[i].Function()); strings.Contains(name, "(") {
				list = append(list, loaded[i].Aliases()...)
			}
		}
		if found := plan.Nearest(name, list, nearestNames); len(found) > 0 {
			return "did you mean " + strings.Join(found, ", ") + "?"
		}
		return ""
	}
	var missing []string
	for _, c := range r.sel.Names {
		name := c.V.S
		class := classOf(name)
		switch {
		case names[name]:
		case class == "" || classes[class]:
			missing = append(missing, name)
		default:
			text := fmt.Sprintf("no class %s is loaded: %s is observed once it is", class, name)
			if hint := near(name); hint != "" {
				text += "; " + hint
			}
			r.remarks = append(r.remarks, text)
		}
	}
	if len(missing) < len(r.sel.Names) {
		for _, name := range missing {
			reason := "there is no such method"
			if hint := near(name); hint != "" {
				reason += "; " + hint
			}
			r.skip(name, reason)
		}
		return nil
	}
	start, stop := r.at(missing[0])
	e := plan.Errorf(start, stop, "no method named %s in %s", missing[0], machines[0].Process.Comm)
	if hint := near(missing[0]); hint != "" {
		return e.WithHint("%s", hint)
	}
	return e.WithHint("a method is called by its class, such as java.util.HashMap.get; SHOW FUNCTIONS LIKE '%%' lists what can be monitored")
}

// noneLoaded adds a remark if the selection matches no known method.
func (r *resolver) noneLoaded(loaded []java.Method) {
	module := "" // a selection with conditions on modules selects no methods
	for i := range loaded {
		if _, ok := r.sel.MatchMethod(&loaded[i], module); ok {
			return
		}
	}
	r.remarks = append(r.remarks, fmt.Sprintf("no method of a class that is loaded satisfies %s: those of later ones are observed", r.spec.Select))
}

// classOf returns the class in a method's name, which may be followed by parameters or
// a descriptor; "" if the name has no class.
func classOf(name string) string {
	plain, _, _ := strings.Cut(name, "(")
	return plain[:max(strings.LastIndexByte(plain, '.'), 0)]
}
