package program

import (
	"endoscope/probes/bpf"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
)

// MaxExtension is how many functions may be added to a query while it runs.
const MaxExtension = 4096

// landmarkPrograms lists the programs of landmarks that later modules may need.
func landmarkPrograms(how map[calls.Returns]bool, options uint32) (names []string) {
	if how[calls.AtExits] {
		names = append(names, bpf.FunctionProgFrameUnwinding, bpf.FunctionProgGoroutineEnd, bpf.FunctionProgFrameLanding)
		if options&abi.Sequence != 0 {
			names = append(names, bpf.FunctionProgFrameJump)
		}
	}
	if how[calls.Trapped] && options&abi.Sequence != 0 {
		names = append(names, bpf.FunctionProgCallJump)
	}
	return names
}
