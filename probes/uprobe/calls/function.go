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
	Flags   uint32 // GoRegisters, aMethod, and the bits of GoidFlag
	Method  Method // if requested
	Returns Returns
	Exits   []codesite.Site // if returns is AtExits
	Values  []FunctionValue // by column; nil: none are read
	Refused bool            // rejected by the kernel, and therefore not probed
	Unsized bool            // the size of an allocation may be unknown
	Marked  *usdt.Probe     // nil: a function, not a marked place
	Counter bool            // the probe only keeps the counter of Marked raised: nothing is reported there
	Begins  bool            // it begins the context that is followed or read,
	Ends    bool            // or ends it
}

// Probes returns the number of probed places.
func (w Function) Probes() int { return 1 + len(w.Exits) }

// Label is the name of a probed function in a query's rows.
type Label struct {
	Function, Class, Module string
	Exe                     string // "" unless the module is an executable itself
	Inside                  bool   // an instruction, not the entry of a function
}

// Semaphore returns the file offset of the counter that is incremented while w is
// probed, 0 for most functions.
func (w Function) Semaphore() uint64 {
	if w.Marked == nil {
		return 0
	}
	return w.Marked.Semaphore
}
