package calls

import (
	"endoscope/probes/bpf"
	"endoscope/probes/codesite"
	"endoscope/probes/uprobe/selection"
)

// Is reports whether two landmarks are the same.
func (l Landmark) Is(o Landmark) bool {
	return l.Module.ID == o.Module.ID && l.Site.Offset == o.Site.Offset && l.Scope.Key == o.Scope.Key
}

// Switches reports whether the landmark is an instruction that continues on another
// stack.
func (l Landmark) Switches() bool { return l.Program == bpf.FunctionProgFrameSwitch }

// Landmark is a place in the run-time support of a language that is executed when
// calls are left without returning. Later calls must not be treated as nested in the
// abandoned ones. It matters only to queries on nesting.
type Landmark struct {
	Module   *selection.Module
	Scope    *selection.Scope
	Function string
	Behind   uint64 // bytes from the function's entry to the site
	Site     codesite.Site
	Program  string
	Cookie   uint64
}
