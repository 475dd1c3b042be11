package stack

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// The name of a variable, once found, costs no memory.
func TestSymbolAllocatesNothing(t *testing.T) {
	program := testenv.CompileText(t, ".cc", `#include <unistd.h>
namespace shop { struct Table { int a[8]; } stock; }
int main() { write(1, "r", 1); char c; return read(0, &c, 1) + shop::stock.a[1]; }
`, "-no-pie", "-fno-pic")
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	line := testenv.Output(t, "sh", "-c", "nm "+program+" | grep stock")
	at, err := strconv.ParseUint(strings.Fields(line)[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	s := NewStacks(&elf.Cache{}, "", false, nil)
	name := func() string { n, _ := s.Symbol(cmd.Process.Pid, 0, 0, at+4); return n }
	if got := name(); got != "shop::stock" {
		t.Fatal(got)
	}
	if n := testing.AllocsPerRun(100, func() { name() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
