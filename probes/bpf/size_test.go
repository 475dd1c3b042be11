package bpf

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"endoscope/probes/testenv"
)

// However a query sets the options, verifying its programs is quick and leaves
// room for its conditions: the verifier gives up after a million instructions,
// counted once for each way to reach them. A loop over calls that is not behind
// bpf_loop easily takes hundreds of thousands.
func TestProgramsAreQuicklyVerified(t *testing.T) {
	testenv.NeedUprobes(t)
	compiled, err := LoadFunction()
	kernel := btf.NewCache()
	if err != nil {
		t.Fatal(err)
	}
	const (
		limit    = 9_200
		limitOld = 30_000 // and with stacks
		atEnd    = 1
		depth    = 1 << 4
		pair     = 1 << 7
		inTurn   = 1 << 11
		caller   = 1<<21 | 1<<22
		gated    = 1 << 13
		old      = 1 << 12 // without bpf_loop
		all      = 0x7ff &^ (atEnd | pair)
	)
	for _, options := range []uint32{0, all, depth, atEnd, atEnd | depth, atEnd | all, inTurn, inTurn | depth, inTurn | all, inTurn | all | caller, atEnd | all | caller, gated, gated | all, gated | atEnd, gated | atEnd | all, old | atEnd, old | inTurn} {
		for _, name := range []string{FunctionProgFunctionEntry, FunctionProgFunctionSession, FunctionProgPairEntry, FunctionProgPairReturn, FunctionProgFrameEntry, FunctionProgFrameExit, FunctionProgGoroutineEnd, FunctionProgFrameLanding, FunctionProgFrameUnwinding, FunctionProgFrameJump, FunctionProgCallJump, FunctionProgThreadEnd, FunctionProgFrameThreadEnd, FunctionProgReportedEntry, FunctionProgReportedReturn, FunctionProgReportedThreadEnd, FunctionProgProcessBegan, FunctionProgProcessEnded} {
			t.Run(fmt.Sprintf("%s/%#x", name, options), func(t *testing.T) {
				spec := compiled.Copy()
				for other := range spec.Programs {
					if other != name {
						delete(spec.Programs, other)
					}
				}
				options := options
				if name == FunctionProgPairEntry || name == FunctionProgPairReturn {
					options |= pair
				}
				if err := spec.Variables[FunctionVarOptions].Set(options); err != nil {
					t.Fatal(err)
				}
				if options&gated != 0 { // and opens as many as it can
					if err := spec.Variables[FunctionVarOpens].Set(uint32(4)); err != nil {
						t.Fatal(err)
					}
				}
				c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: kernel})
				if name == FunctionProgFunctionSession && errors.Is(err, ebpf.ErrNotSupported) {
					testenv.Skip(t, "the kernel has no uprobe sessions")
				}
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				info, err := c.Programs[name].Info()
				if err != nil {
					t.Fatal(err)
				}
				limit := uint32(limit)
				if options&(old|caller) != 0 {
					limit = limitOld
				}
				if n, ok := info.VerifiedInstructions(); ok && n > limit {
					t.Errorf("the verifier looked at %d instructions", n)
				}
			})
		}
	}
}
