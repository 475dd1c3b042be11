package abi

import "endoscope/probes/bpf"

// TestsOf lists which of a query's tests a program applies. A program that can send
// events of a sequence applies both the entry and the exit test, because any event may
// be sent with a gap in front of it. Programs that are not attached to calls send only
// events of sequences.
var TestsOf = map[string]struct{ Entry, Exit, Call bool }{
	bpf.FunctionProgFunctionEntry:     {Entry: true, Call: true},
	bpf.FunctionProgFunctionSession:   {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgPairEntry:         {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgPairReturn:        {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgFrameEntry:        {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgFrameExit:         {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgThreadEnd:         {Entry: true, Exit: true},
	bpf.FunctionProgGoroutineEnd:      {Entry: true, Exit: true},
	bpf.FunctionProgFrameLanding:      {Entry: true, Exit: true},
	bpf.FunctionProgFrameUnwinding:    {Entry: true, Exit: true},
	bpf.FunctionProgFrameJump:         {Entry: true, Exit: true},
	bpf.FunctionProgFrameSwitch:       {Entry: true, Exit: true},
	bpf.FunctionProgCallJump:          {Entry: true, Exit: true},
	bpf.FunctionProgFrameThreadEnd:    {Entry: true, Exit: true},
	bpf.FunctionProgReportedEntry:     {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgReportedReturn:    {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgReportedThreadEnd: {Entry: true, Exit: true},
}
