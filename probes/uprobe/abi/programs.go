package abi

import "endoscope/probes/bpf"

// TestsOf says which of a query's tests a program makes: both where it can send
// events of a sequence, for any may be told with a gap in front of it. Programs
// that are no calls' send nothing else.
var TestsOf = map[string]struct{ Entry, Exit, Call bool }{
	bpf.FunctionProgFunctionEntry:   {Entry: true, Call: true},
	bpf.FunctionProgFunctionSession: {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgPairEntry:       {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgPairReturn:      {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgFrameEntry:      {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgFrameExit:       {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgThreadEnd:       {Entry: true, Exit: true},
	bpf.FunctionProgGoroutineEnd:    {Entry: true, Exit: true},
	bpf.FunctionProgFrameLanding:    {Entry: true, Exit: true},
	bpf.FunctionProgFrameUnwinding:  {Entry: true, Exit: true},
	bpf.FunctionProgFrameJump:       {Entry: true, Exit: true},
	bpf.FunctionProgCallJump:        {Entry: true, Exit: true},
	bpf.FunctionProgFrameThreadEnd:  {Entry: true, Exit: true},
	bpf.FunctionProgJavaEntry:       {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgJavaReturn:      {Entry: true, Exit: true, Call: true},
	bpf.FunctionProgJavaThreadEnd:   {Entry: true, Exit: true},
}
