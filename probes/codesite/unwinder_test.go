package codesite

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// The unwinder of GCC's library is recognised by its code; other libraries have
// none.
func TestUnwinder(t *testing.T) {
	testenv.NeedProgram(t, "gcc")
	for name, want := range map[string]bool{"libgcc_s.so.1": true, "libc.so.6": false} {
		path, err := exec.Command("gcc", "-print-file-name="+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(strings.TrimSpace(string(path)))
		if err != nil {
			testenv.Skip(t, "%v", err)
		}
		defer f.Close()
		m, err := elf.Open(f, name)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		u, ok := In(m).Unwinder()
		if ok != want {
			t.Errorf("%s has an unwinder: %v", name, ok)
		}
		// 18 registers of 8 bytes come first in libgcc's context (unwind-dw2.c).
		if ok && (m.Function(u.SetIP).Name != "_Unwind_SetIP" || u.CFA != 18*8) {
			t.Errorf("%s: %s, %d", name, m.Function(u.SetIP).Name, u.CFA)
		}
	}
}
