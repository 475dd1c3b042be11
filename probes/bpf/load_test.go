package bpf

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// The verifier accepts every program. A kernel without uprobe sessions (before
// Linux 6.13) has no kfuncs for the session program; all others must load.
func TestProgramsVerify(t *testing.T) {
	testenv.NeedUprobes(t)
	for object, load := range map[string]func() (*ebpf.CollectionSpec, error){"function": LoadFunction, "life": LoadLife, "stack": LoadStack, "variable": LoadVariable, "local": LoadLocal, "execution": LoadExecution} {
		all, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for name := range all.Programs {
			t.Run(object+"/"+name, func(t *testing.T) {
				spec, err := load()
				if err != nil {
					t.Fatal(err)
				}
				for other := range spec.Programs {
					if other != name {
						delete(spec.Programs, other)
					}
				}
				c, err := ebpf.NewCollection(spec)
				var refused *ebpf.VerifierError
				if err != nil && name == FunctionProgFunctionSession && !hasSessions(t) {
					testenv.Skip(t, "the kernel has no uprobe sessions")
				}
				if errors.As(err, &refused) {
					t.Fatalf("%+v", refused)
				}
				if err != nil {
					t.Fatal(err)
				}
				c.Close()
			})
		}
	}
}

// What is committed went through forgetlines: only functions' first instructions have a line.
func TestProgramsHaveNoLines(t *testing.T) {
	all, err := LoadFunction()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range all.Programs {
		for i, ins := range p.Instructions {
			if (ins.Source() != nil) != (ins.Symbol() != "" && btf.FuncMetadata(&ins) != nil) {
				t.Fatalf("%s: instruction %d (%v) is of line %v", name, i, ins, ins.Source())
			}
		}
	}
}

// hasSessions and hasWaits report whether the kernel is new enough for uprobe sessions, and for
// programs that wait for memory.
func hasSessions(t *testing.T) bool { return isLinux(t, 6, 13) }
func hasWaits(t *testing.T) bool    { return isLinux(t, 6, 9) }

// isLinux reports whether the kernel has a version or is newer.
func isLinux(t *testing.T, atLeast, minorAtLeast int) bool {
	t.Helper()
	var u unix.Utsname
	var major, minor int
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major > atLeast || major == atLeast && minor >= minorAtLeast
}
