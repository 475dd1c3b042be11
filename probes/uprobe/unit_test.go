package uprobe

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/probes/bpf"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/abi"
)

func TestRestoreOfProbedCode(t *testing.T) {
	nopEntry := append(slices.Clone(nop5), 0x55, 0xc3)
	push := []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5}
	patch := func(b []byte, at int, with ...byte) []byte {
		b = slices.Clone(b)
		copy(b[at:], with)
		return b
	}
	for _, c := range []struct {
		name      string
		want, got []byte
		at        int
		same      bool
	}{
		{"untouched", push, push, 4, true},
		{"breakpoint at the site", push, patch(push, 4, breakpoint), 4, true},
		{"breakpoint at the entry, of another tool", push, patch(push, 0, breakpoint), 4, true},
		{"breakpoint elsewhere: a debugger's, or data", push, patch(push, 6, breakpoint), 4, false},
		{"nop replaced by a call", nopEntry, patch(nopEntry, 0, callInsn, 1, 2, 3, 4), 0, true},
		{"a call where there was no nop", push, patch(push, 0, callInsn, 1, 2, 3, 4), 0, false},
		{"patched to jump away", push, patch(push, 0, 0xe9, 1, 2, 3, 4), 4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := slices.Clone(c.got)
			restore(got, c.want, 0)
			restore(got, c.want, c.at)
			if same := bytes.Equal(got, c.want); same != c.same {
				t.Errorf("same: %v, want %v", same, c.same)
			}
		})
	}
}

// decode never reads beyond a record, whatever is expected of it.
func TestDecodeOfShortRecords(t *testing.T) {
	full := bpf.FunctionEventFull{}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&full)), sizeFull)
	rapid.Check(t, func(t *rapid.T) {
		options := rapid.Uint32().Draw(t, "options")
		n := rapid.IntRange(0, sizeFull).Draw(t, "bytes")
		var e event
		if !decode(raw[:n:n], options, &e) {
			return
		}
		need := sizeEntry
		if options&abi.AtReturn != 0 {
			need = sizeReturn
		}
		if e.process != nil {
			need = sizeNames
		}
		if e.args != nil {
			need = sizeArgs
		}
		if e.args != nil && e.process != nil {
			need = sizeFull
		}
		if n < need {
			t.Fatalf("%d bytes were taken for an event of %d", n, need)
		}
	})
}

// Names outlive their processes, and are asked for anew while they live.
func TestExeNames(t *testing.T) {
	testenv.NeedProgram(t, "sleep")
	now := time.Now()
	x := newExeNames()
	x.now = func() time.Time { return now }
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	want, _ := filepath.EvalSymlinks(testenv.NeedProgram(t, "sleep"))
	// Between fork and exec the child has our executable.
	self, _ := os.Executable()
	for x.of(cmd.Process.Pid) == self {
		now = now.Add(2 * exeNameLife)
	}
	if got := x.of(cmd.Process.Pid); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	cmd.Process.Kill()
	cmd.Wait()
	now = now.Add(2 * exeNameLife)
	if got := x.of(cmd.Process.Pid); got != want {
		t.Errorf("after its end: %q, want %q", got, want)
	}
	if got := x.of(1 << 22); got != "" {
		t.Errorf("no process has executable %q", got)
	}
}
