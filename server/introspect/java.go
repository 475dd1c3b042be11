package introspect

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/lang/java"
	"endoscope/probes/process"
	"endoscope/server/answer"
)

// JavaMethods lists the methods that can be monitored in the session's target:
// those of the classes loaded by the Java machine of its first process. remark
// says so, or why there are none; "" if the process is not a Java machine.
func (p Program) JavaMethods() (methods []java.Method, remark string, err error) {
	t := p.Target
	if t.IsZero() {
		return nil, "", nil
	}
	running, err := process.Resolve(t)
	if err != nil || len(running) == 0 {
		return nil, "", err
	}
	pid := running[0].PID
	mappings, err := process.Modules(pid)
	if err != nil {
		return nil, "", err
	}
	i := slices.IndexFunc(mappings, func(m process.Mapping) bool { return filepath.Base(m.Path) == java.Library })
	if i < 0 {
		return nil, "", nil
	}
	if !java.FiresMethodProbes(pid, mappings[i]) {
		return nil, java.Hint, nil
	}
	methods, err = java.Loaded(pid, mappings[i])
	if err != nil {
		return nil, "the methods of Java cannot be listed: " + err.Error(), nil
	}
	slices.SortFunc(methods, func(a, b java.Method) int {
		return cmp.Or(strings.Compare(a.Class, b.Class), strings.Compare(a.Name, b.Name), strings.Compare(a.Descriptor, b.Descriptor))
	})
	return methods, "methods of Java are those of the classes that are loaded; others are observed once they are", nil
}

// describeJava returns the result of DESCRIBE FUNCTION for a Java method; nil
// and a hint if the target has no method of this name.
func (p Program) describeJava(name string) (rel *answer.Table, hint string, err error) {
	methods, remark, err := p.JavaMethods()
	if err != nil || remark == "" {
		return nil, "", err
	}
	rel = answer.NewTable(answer.Text("function_name"), answer.Text("class"), answer.Number("size"), answer.Text("aliases"), answer.Text("entry"))
	var names []string
	for i := range methods {
		m := &methods[i]
		aliases := m.Aliases()
		if names = append(names, m.Function()); m.Function() == name || slices.Contains(aliases, name) {
			rel.Add(types.Str(m.Function()), types.Str(m.Class), types.Int(int64(m.Size)), types.Str(strings.Join(aliases, ", ")), types.Str("reported by the Java machine"))
		}
	}
	if len(rel.Rows) > 0 {
		return rel, "", nil
	}
	if near := plan.Nearest(name, names, 3); len(near) > 0 {
		return nil, "did you mean " + strings.Join(near, " or ") + "?", nil
	}
	return nil, remark, nil
}
