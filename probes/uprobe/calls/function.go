package calls

import (
	"endoscope/probes/codesite"
	"endoscope/probes/uprobe/selection"
	"endoscope/probes/usdt"
)

// Function is one function of one module in one scope, to be probed.
type Function struct {
	Module  *selection.Module
	Scope   *selection.Scope
	Site    codesite.Site
	Behind  uint64 // bytes from the function's entry to the site
	Size    uint64 // of the function; 0: unknown
	Label   Label
	Flags   uint32 // GoRegisters, aMethod, and what GoidFlag says
	Method  Method // if that is asked for
	Returns Returns
	Exits   []codesite.Site // if returns is AtExits
	Values  []FunctionValue // by column; nil: none are read
	Refused bool            // by the kernel, and therefore not probed
	Unsized bool            // of an allocation the size may not be known
	Marked  *usdt.Probe     // nil: a function
}

// Probes is how many places are probed.
func (w Function) Probes() int { return 1 + len(w.Exits) }

// Label is what a query calls a probed function.
type Label struct {
	Function, Class, Module string
	Exe                     string // "" unless the module is an executable itself
}

// Semaphore is the file offset of the counter that is raised while w is probed,
// 0 for most.
func (w Function) Semaphore() uint64 {
	if w.Marked == nil {
		return 0
	}
	return w.Marked.Semaphore
}
