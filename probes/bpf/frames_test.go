package bpf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// All frames of a program together have room on the thread's stack, whatever the query
// reads, and whether the program may wait for memory or not. With frames elsewhere
// (frames.h) the verifier would not say so.
func TestFramesFit(t *testing.T) {
	testenv.NeedUprobes(t)
	all, err := LoadFunction()
	kernel := btf.NewCache()
	if err != nil {
		t.Fatal(err)
	}
	const (
		atEnd    = 1
		args     = 1 << 1
		depth    = 1 << 4
		pair     = 1 << 7
		inTurn   = 1 << 11
		gated    = 1 << 13
		guarded  = 1 << 14
		receiver = 1 << 16
		routine  = 1 << 17
		rows     = 0x77e &^ pair // and whom to observe
		caller   = 1<<21 | 1<<22
		wide     = receiver | 1<<18 | 1<<19 | 1<<20 | caller | gated | guarded
		memory   = 1<<23 | args | depth
		values   = 1<<25 | 1<<26 | 1<<27 | 1<<28 | 1<<29
		frame    = 1 << 30
		// Of aggregates.
		hashed, derived, updated, sketched = 1 << 1, 1 << 3, 1 << 4, 1 << 7
	)
	for name, c := range map[string]struct {
		options, aggregate uint32
		waits              bool
		records, recalls   bool
	}{
		"starts":                  {options: rows | wide | values},
		"starts that wait":        {options: rows | wide | values, waits: true},
		"calls":                   {options: atEnd | rows | wide | values},
		"calls that wait":         {options: atEnd | rows | wide | values, waits: true},
		"allocations":             {options: atEnd | rows | wide | memory},
		"sequence":                {options: inTurn | rows | wide | routine | frame},
		"recorded sequence":       {options: inTurn | depth | 1<<2 | guarded | routine, records: true},
		"starts that recall":      {options: rows | wide | values, recalls: true, waits: true},
		"calls that recall":       {options: atEnd | rows | wide | values, recalls: true, waits: true},
		"timed calls that recall": {options: atEnd | gated | guarded, recalls: true},
		"groups":                  {options: rows | gated | guarded, aggregate: hashed | derived | updated | sketched},
		"groups of starts, wait":  {options: rows | gated | guarded | receiver | values, aggregate: hashed | derived | updated | sketched, waits: true},
		"groups of calls":         {options: atEnd | rows | gated | guarded, aggregate: hashed | derived | updated | sketched},
		"groups of timed calls":   {options: atEnd | gated | guarded, aggregate: hashed | derived | updated | sketched},
		"groups of calls, wait":   {options: atEnd | rows | gated | guarded | receiver | values, aggregate: hashed | derived | updated | sketched, waits: true},
	} {
		for _, program := range []string{FunctionProgFunctionEntry, FunctionProgFunctionSession, FunctionProgPairEntry, FunctionProgPairReturn, FunctionProgFrameEntry, FunctionProgFrameExit, FunctionProgGoroutineEnd, FunctionProgFrameLanding, FunctionProgFrameUnwinding, FunctionProgFrameJump, FunctionProgFrameSwitch, FunctionProgCallJump, FunctionProgReportedEntry, FunctionProgReportedReturn} {
			t.Run(fmt.Sprint(name, ", ", program), func(t *testing.T) {
				spec := all.Copy()
				for other := range spec.Programs {
					if other != program {
						delete(spec.Programs, other)
					}
				}
				options := c.options
				if program == FunctionProgPairEntry || program == FunctionProgPairReturn {
					options |= pair
				}
				if strings.HasPrefix(program, "java") {
					options &^= values
				}
				textBytes := uint32(64)
				scratch, calls := spec.Maps[FunctionMapScratch], spec.Maps[FunctionMapOpenCalls]
				scratch.ValueSize = 1024
				scratch.Value = &btf.Array{Index: &btf.Int{Name: "unsigned int", Size: 4}, Type: &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}, Nelems: 1024}
				if options&values != 0 {
					calls.ValueSize += textBytes
					calls.Key, calls.Value = nil, nil
				}
				words := func(name string, key, value uint32) {
					m := spec.Maps[name]
					m.Key, m.Value, m.KeySize, m.ValueSize = nil, nil, key, value
				}
				for _, name := range []string{FunctionMapStates0, FunctionMapStates1} {
					words(name, 8*9, 8*32)
				}
				for _, name := range []string{FunctionMapBuckets0, FunctionMapBuckets1} {
					words(name, 8*10, 8*3)
				}
				words(FunctionMapSamples, 4, 8*10)
				for variable, value := range map[string]any{
					FunctionVarOptions: options, FunctionVarAggregate: c.aggregate, FunctionVarWaits: c.waits, FunctionVarOpens: uint32(4),
					FunctionVarKeyWords: uint32(8), FunctionVarTextBytes: textBytes, FunctionVarTextSlots: uint32(4), FunctionVarSketches: uint32(3), FunctionVarCoroutines: true, FunctionVarPlaced: true,
					FunctionVarRecords: c.records, FunctionVarRecalls: c.recalls, FunctionVarRingCount: uint32(4),
				} {
					if err := spec.Variables[variable].Set(value); err != nil {
						t.Fatal(err)
					}
				}
				if c.waits {
					spec.Programs[program].Flags |= unix.BPF_F_SLEEPABLE
				}
				collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: kernel, Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
				if err != nil && program == FunctionProgFunctionSession && !hasSessions(t) {
					testenv.Skip(t, "the kernel has no uprobe sessions")
				}
				var refused *ebpf.VerifierError
				if err != nil && c.waits && !hasWaits(t) {
					testenv.Skip(t, "no program waits on this kernel")
				}
				if errors.As(err, &refused) {
					t.Fatalf("%v: %s", err, strings.Join(refused.Log[max(0, len(refused.Log)-30):], "\n"))
				}
				if err != nil {
					t.Fatal(err)
				}
				checkStack(t, spec.Programs[program], collection.Programs[program])
				collection.Close()
			})
		}
	}
}
