package resolve

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"endoscope/probes/elf"
	"endoscope/probes/lang/python"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/selection"
)

// mostSearched bounds the modules that are searched for a function that was not found.
const mostSearched = 64

// otherModule returns a hint if another module of a process of the set has a function; ""
// if none has.
func (r *resolver) otherModule(set *selection.ModuleSet, name string) string {
	pid := 0
	for _, m := range set.List {
		for _, at := range m.Mapped {
			pid = at.Process.PID
		}
	}
	text, err := process.Text(pid)
	if pid == 0 || err != nil {
		return ""
	}
	var searched, having []string
	for _, m := range text {
		module := path.Base(m.Path)
		if !strings.HasPrefix(m.Path, "/") || slices.Contains(searched, m.Path) || slices.Contains(r.looked, module) || len(searched) >= mostSearched {
			continue
		}
		searched = append(searched, m.Path)
		if r.defines(fmt.Sprintf("/proc/%d/root%s", pid, m.Path), module, name) {
			having = append(having, module)
		}
	}
	if len(having) == 0 {
		return ""
	}
	verb := "have"
	if len(having) == 1 {
		verb = "has"
	}
	return fmt.Sprintf("%s %s it: AND module = %s", strings.Join(having, " and "), verb, quoted(having[0]))
}

// defines reports whether a file has a function.
func (r *resolver) defines(file, module, name string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	sym, err := r.cache.Open(f, module)
	if err != nil {
		return false
	}
	defer sym.Close()
	return len(sym.Find(name)) > 0
}

// interpreter matches the file names of programs whose functions run in an interpreter or
// a virtual machine, and are no functions of the file.
var interpreter = regexp.MustCompile(`^(python|node|java|ruby|perl|php|lua)[0-9.]*$`)

// interpreted returns a hint if a module is an interpreter.
func interpreted(opened []*elf.Module) string {
	for _, m := range opened {
		if interpreter.MatchString(m.Name()) {
			hint := m.Name() + " runs the functions of programs in an interpreter: they are on the stacks of SAMPLE(stack_sample, 10ms)"
			if python.IsInterpreter(m.Name()) {
				hint += ", and AND module LIKE '%.py' chooses those of Python where the interpreter reports them"
			}
			return hint
		}
	}
	return ""
}
