package bpf

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"

	"endoscope/probes/testenv"
)

// The verifier accepts the programs that sample threads, also with what these are inside of, and that of
// Linux 6.1 their stacks.
func TestSamplersVerify(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, contexts := range []bool{false, true} {
		spec, err := LoadStack()
		if err != nil {
			t.Fatal(err)
		}
		if err := spec.Variables[StackVarContexts].Set(contexts); err != nil {
			t.Fatal(err)
		}
		c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
		var refused *ebpf.VerifierError
		if errors.As(err, &refused) {
			t.Fatalf("%+v", refused)
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range c.Programs {
			checkStack(t, spec.Programs[name], p)
		}
		c.Close()
	}
}
