package bpf

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// The verifier accepts the programs that follow a context, and those that read what they
// note, in every form.
func TestProgramsOfContextsVerify(t *testing.T) {
	testenv.NeedUprobes(t)
	compiled, err := LoadFunction()
	if err != nil {
		t.Fatal(err)
	}
	kernel := btf.NewCache()
	const (
		atReturn, arguments, names, depth, sequence = 1, 1 << 5, 1 << 6, 1 << 4, 1 << 11
		receiver, cost, caller, stack, texts        = 1 << 16, 1 << 18, 1 << 21, 1 << 22, 1<<25 | 1<<27 | 1<<29
		values, result, useTexts                    = 1 << 25, 1 << 26, 1 << 27
		follows, late, early, ofCall, text          = 1, 2, 4, 8, 16
	)
	type form struct {
		options, words, context uint32
		sleepable               bool
	}
	var forms []form
	for _, words := range []uint32{2, 9} {
		for _, o := range []uint32{0, arguments, names, arguments | names, atReturn, atReturn | depth, atReturn | receiver, atReturn | cost, atReturn | caller, atReturn | stack, texts, sequence, sequence | caller | stack, atReturn | texts | stack} {
			forms = append(forms, form{options: o, words: words})
		}
	}
	forms = append(forms, form{options: atReturn | texts, words: 9, sleepable: true},
		form{options: sequence | arguments, context: follows | ofCall},
		form{options: sequence | values | useTexts, context: follows | ofCall | text, sleepable: true},
		form{options: sequence | values, context: follows, sleepable: true},
		form{options: sequence | result, context: follows | late | early},
		form{options: sequence | result | useTexts, context: follows | late | text, sleepable: true})
	var uprobes []string
	for name, p := range compiled.Programs {
		if p.Type == ebpf.Kprobe && name != FunctionProgFunctionSession && name != FunctionProgReportedEntry && name != FunctionProgReportedReturn {
			uprobes = append(uprobes, name)
		}
	}
	ofCalls := []string{FunctionProgFunctionEntry, FunctionProgPairEntry, FunctionProgPairReturn, FunctionProgFrameEntry, FunctionProgFrameExit}
	atEnd := []string{FunctionProgThreadEnd, FunctionProgFrameThreadEnd}
	for _, f := range forms {
		for _, name := range append(uprobes, atEnd...) {
			if f.options&sequence == 0 && !slices.Contains(ofCalls, name) {
				continue // only sequences have landmarks
			}
			if f.context != 0 && (name == FunctionProgFunctionEntry || name == FunctionProgPairEntry || name == FunctionProgPairReturn) {
				continue // a context is followed at exits
			}
			t.Run(fmt.Sprintf("%s/%#x/%d/%#x", name, f.options, f.words, f.context), func(t *testing.T) {
				spec := compiled.Copy()
				for other := range spec.Programs {
					if other != name {
						delete(spec.Programs, other)
					}
				}
				set := func(variable string, to any) {
					if err := spec.Variables[variable].Set(to); err != nil {
						t.Fatal(err)
					}
				}
				set(FunctionVarOptions, f.options)
				set(FunctionVarContextWords, f.words)
				set(FunctionVarContext, f.context)
				set(FunctionVarCoroutines, f.options&sequence != 0)
				if p := spec.Programs[name]; f.sleepable && p.Type == ebpf.Kprobe {
					set(FunctionVarWaits, true)
					p.Flags |= unix.BPF_F_SLEEPABLE
				}
				if f.options&useTexts != 0 {
					m := spec.Maps[FunctionMapScratch]
					m.ValueSize = 1024
					m.Value = &btf.Array{Index: &btf.Int{Name: "unsigned int", Size: 4}, Type: &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}, Nelems: 1024}
					set(FunctionVarTextBytes, uint32(256))
				}
				c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: kernel, Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
				var refused *ebpf.VerifierError
				if errors.As(err, &refused) {
					t.Fatalf("%+v", refused)
				}
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				checkStack(t, spec.Programs[name], c.Programs[name])
			})
		}
	}
}
