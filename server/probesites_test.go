package server_test

import (
	"regexp"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// TestProbeSites compares where a function is probed that begins with an
// instruction that the kernel has to step, by the setting, and that either site
// sees each call once.
func TestProbeSites(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, `
__asm__(".text\n.globl work\n.type work,@function\nwork: .cfi_startproc\nlea 1(%rdi), %rax\npush %rbx\n.cfi_adjust_cfa_offset 8\npop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size work,.-work\n");
long work(long);
int main(void) { for (int i = 0; i < 100; i++) work(i); return 0; }`, "-O1")
	const count = "SELECT COUNT(*) FROM function_start WHERE function_name = 'work'"
	for _, c := range []struct{ setting, site string }{
		{"cheapest", `work in target at 0x[0-9a-f]+ \(entry\+4\): entry, emulated`},
		{"entry", `work in target at 0x[0-9a-f]+: entry, stepped`},
	} {
		s := newSession(t, wire.Options{Command: []string{target}})
		ask(t, s, "SET probe_sites = '"+c.setting+"'")
		var plan strings.Builder
		for _, row := range ask(t, s, "EXPLAIN "+count).rows {
			plan.WriteString(row[0] + "\n")
		}
		if !regexp.MustCompile(c.site).MatchString(plan.String()) {
			t.Errorf("SET probe_sites = %s: the plan is\n%s", c.setting, plan.String())
		}
		a := ask(t, s, count)
		complete(t, a)
		if n := number(t, a, 0, 0); n != 100 {
			t.Errorf("SET probe_sites = %s: %d of 100 calls were counted", c.setting, n)
		}
	}
}
