package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// handles makes a burst of calls of work a request: it is a part of loopForC's program.
const handles = `
__attribute__((noinline)) void handle(long id, const char *key) { for (int i = 0; i < 1000; i++) work(id & 0xffffff); __asm__ volatile("" :: "r"(key)); }
`

// contextRounds is how often each query is measured: the rounds take most of their time for
// attaching and detaching.
const contextRounds = 3

// BenchmarkContexts is what a call costs its program that tells its request, beside the same
// query without it, in ns of the program's own processor time beyond the call without a probe.
// A request is a thousand calls.
//
//	go test -run '^$' -bench Contexts -benchtime 1x ./server
func BenchmarkContexts(b *testing.B) {
	testenv.NeedUprobes(b)
	const text = "BEGIN function_start WHERE function_name = 'handle' KEY str(arg1)"
	variants := []struct{ name, context, query string }{
		{"no probe", "", ""},
		{"function_start", "", "SELECT timestamp FROM function_start WHERE function_name = '%s'"},
		{"function_start, a text", text, "SELECT request FROM function_start WHERE function_name = '%s'"},
		{"function_call", "", "SELECT event FROM function_call WHERE function_name = '%s'"},
		{"function_call, a text", text, "SELECT event, request FROM function_call WHERE function_name = '%s'"},
	}
	loop := strings.Replace(loopForC, "for (int i = 0; i < 1000; i++) work(n++ & 0xffffff);", `handle(n++, "a request");`, 1)
	loop = strings.Replace(loop, "static long now", handles+"static long now", 1)
	path := testenv.CompileCText(b, fmt.Sprintf("%s\n__asm__(\".text\\n.globl work\\n.type work, @function\\nwork:\\n.cfi_startproc\\n%s\\n.cfi_endproc\\n.size work, .-work\\n\");",
		loop, strings.ReplaceAll(entries[0].code, "\n", "\\n")), "-O2", "-fcf-protection=none")
	t := callTarget{"requests", path, "work", "work"}
	for b.Loop() {
		c := t.start(b)
		c.measure(1)
		ns := map[string][]float64{}
		for range contextRounds {
			for _, v := range variants {
				detach := func() {}
				if v.context != "" {
					run(b, engineFor(b, c.cmd.Process.Pid), "CREATE OR REPLACE CONTEXT request AS "+v.context)
				}
				if v.query != "" {
					if detach = selecting(v.query)(b, t, c.cmd.Process.Pid); detach == nil {
						b.Fatalf("%s is refused", v.name)
					}
				}
				ns[v.name] = append(ns[v.name], c.measure(callMillis))
				detach()
			}
		}
		plain := 0.0
		for i, v := range variants {
			slices.Sort(ns[v.name])
			if median := ns[v.name][contextRounds/2]; i == 0 {
				plain = median
			} else {
				b.ReportMetric(median-plain, strings.ReplaceAll(strings.ReplaceAll(v.name, ",", ""), " ", "-")+"-ns")
			}
		}
	}
}
