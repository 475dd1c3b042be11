package elf

import (
	"testing"

	"endoscope/probes/testenv"
)

// Assembler in a Go program is native; in a C program nothing is.
func TestNative(t *testing.T) {
	m := openModule(t, testenv.CompileGoText(t, "package main\n\nfunc main() { println(1) }\n"))
	for name, want := range map[string]bool{"main.main": false, "runtime.mallocgc": false, "runtime.memmove": true, "runtime.rt0_go": true, "runtime.gcDrain": false} {
		found := m.Find(name)
		if len(found) == 0 {
			t.Errorf("there is no %s", name)
		}
		for _, i := range found {
			if f := m.Function(i); f.Name == name && m.Native(i) != want && f.Mangled == name {
				t.Errorf("%s at %#x is native: %t", name, f.Addr, !want)
			}
		}
	}
	m = openModule(t, testenv.CompileText(t, ".c", "int main(void) { return 0; }", "-O1"))
	if m.Native(only(t, m, "main")) {
		t.Error("main of C is native")
	}
}
