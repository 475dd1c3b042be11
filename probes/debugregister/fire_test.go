package debugregister_test

import (
	"os/exec"
	"strings"
	"testing"

	"endoscope/probes/debugregister"
	"endoscope/probes/testenv"
)

const writer = `
#include <stdio.h>
volatile long word;
int main(void) { word = 1; printf("%ld\n", word); }
`

// TestFire: gdb's hardware watchpoints stop a program where ours count.
func TestFire(t *testing.T) {
	testenv.NeedRoot(t)
	gdb := testenv.NeedProgram(t, "gdb")
	path := testenv.CompileCText(t, writer, "-O1", "-g")
	out, err := exec.Command(gdb, "-q", "-batch", "-ex", "break main", "-ex", "run", "-ex", "watch word", "-ex", "continue", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "Hardware watchpoint") {
		t.Fatalf("gdb has set none: %s", out)
	}
	if stops := strings.Contains(string(out), "Old value = 0"); stops != debugregister.Fire() {
		t.Errorf("watchpoints fire: %v, and gdb says %s", debugregister.Fire(), out)
	}
}
