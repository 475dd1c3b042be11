package codesite

import (
	"sync"

	"endoscope/probes/elf"
)

// Code is the code of a module, in which probe sites are looked for. Analysis
// results are kept with the file.
type Code struct {
	*elf.Module
	*analysis
}

// In returns the code of a module.
func In(m *elf.Module) Code { return Code{m, elf.Derived[analysis](m)} }

// analysis is what is known about the code of a file.
type analysis struct {
	entrancesOnce sync.Once // guards entranceList
	entranceList  []entrance

	switching sync.Once // guards switches
	switches  bool

	switchesOnce sync.Once // guards switchList
	switchList   []Switch

	returnAddressReaders returnAddressReaders
	flow                 flow
	callers              callers
}
