package resolve

import (
	"fmt"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/lang/java"
	"endoscope/probes/uprobe/selection"
)

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
