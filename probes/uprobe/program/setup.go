package program

import (
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/recall"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
)

// Setup specialises the programs for one query.
type Setup struct {
	Options   uint32
	Links     attach.Kind
	Returns   map[calls.Returns]bool // how the functions' returns are observed
	Landmarks []calls.Landmark
	Test      codegen.Program
	Members   []bpf.FunctionTarget
	Functions int
	Rate      int64 // events per second; 0: unlimited
	Prompt    bool  // the reader is woken for each event
	Slots     calls.GoSlots
	// StackBytes is the maximum size of a stack copy; 0: the default.
	StackBytes int
	Offset     int64 // from the boot clock to the epoch
	// Aggregation is nil where events become rows.
	Aggregation *Aggregation
	// Prices are those of a call of each function, in ns, for a query with a budget; nil: it
	// has none.
	Prices []uint64
	Gates  probes.Gates
	// Record and Recall are as in probes.Options.
	Record, Recall *recall.Set
	// Contexts are what events are inside of: the programs write it if Following is not nil,
	// else read ContextWords words of it. nil: they do neither.
	Contexts     *Contexts
	Following    *calls.Following
	ContextWords int
	Cgroups      uint32 // number of levels of cgroups among members
	// Operands holds the locations of arguments by function. It is nil where all
	// arguments are passed by the calling convention.
	Operands []bpf.FunctionOperands
	// Reading is nil where no values are read.
	Reading *calls.Reading
	Growing bool // functions may be added while the query runs
	// Waits: values in memory that is not present are read by waiting for it.
	Waits bool
	// Python: the calls are reported by an interpreter of Python. OnlyReturns: only their
	// returns are.
	Python, OnlyReturns bool
	// Family is nil where children of the target's processes do not matter.
	Family *Family
}

// attachable is a program and how it is attached. flags are those of a multi link, and
// have the same meaning for other attach types.
type attachable struct {
	Program           string
	AttachType, Flags uint32
	Exits             bool // at the functions' exits
}

// ProgramsOf lists the programs attached to functions, in the order of attachment.
// Returns come before entries, so that the return of a recorded entry is always
// observed. Where one instruction is entry and exit, the kernel first runs the program
// attached last (consumer_add in kernel/events/uprobes.c).
func ProgramsOf(links attach.Kind, how calls.Returns) []attachable {
	plain := links.AttachType()
	switch {
	case how == calls.Unseen:
		return []attachable{{Program: bpf.FunctionProgFunctionEntry, AttachType: plain}}
	case how == calls.ReportedEntry:
		return []attachable{{Program: bpf.FunctionProgReportedEntry, AttachType: plain}}
	case how == calls.ReportedReturn:
		return []attachable{{Program: bpf.FunctionProgReportedReturn, AttachType: plain}}
	case how == calls.AtExits:
		return []attachable{
			{Program: bpf.FunctionProgFrameExit, AttachType: plain, Exits: true},
			{Program: bpf.FunctionProgFrameEntry, AttachType: plain},
		}
	case links == attach.Session:
		return []attachable{{Program: bpf.FunctionProgFunctionSession, AttachType: attach.TypeSession}}
	}
	return []attachable{
		{Program: bpf.FunctionProgPairReturn, AttachType: plain, Flags: attach.MultiReturn},
		{Program: bpf.FunctionProgPairEntry, AttachType: plain},
	}
}

// ThreadEnd returns the program that ends a sequence with its thread, "" if none is
// needed.
func ThreadEnd(options uint32, how map[calls.Returns]bool) string {
	switch {
	case options&abi.Sequence == 0:
		return ""
	case how[calls.AtExits]:
		return bpf.FunctionProgFrameThreadEnd
	case how[calls.ReportedEntry]:
		return bpf.FunctionProgReportedThreadEnd
	}
	return bpf.FunctionProgThreadEnd
}
