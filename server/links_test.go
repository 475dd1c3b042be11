package server_test

import (
	"fmt"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// SET probe_links decides how probes are attached: EXPLAIN says it, and either
// way sees each call once.
func TestProbeLinks(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, `
volatile long sink;
__attribute__((noinline)) long work(long n) { sink += n; return n; }
int main(void) { for (int i = 0; i < 100; i++) work(i); return 0; }`, "-O1")
	const count = "SELECT COUNT(*), MAX(duration) FROM function_duration WHERE function_name = 'work'"
	for _, c := range []struct{ setting, kind string }{
		{"multi", "entry+return (multi)"},
		{"perf", "entry+return (perf)"},
		{"auto", "entry+return ("},
	} {
		s := newSession(t, wire.Options{Command: []string{target}})
		ask(t, s, "SET probe_links = "+c.setting)
		if plan := fmt.Sprint(ask(t, s, "EXPLAIN "+count).rows); !strings.Contains(plan, c.kind) {
			t.Errorf("SET probe_links = %s: the plan is\n%s", c.setting, plan)
		}
		a := ask(t, s, count)
		complete(t, a)
		if n := number(t, a, 0, 0); n != 100 {
			t.Errorf("SET probe_links = %s: %d of 100 calls were counted", c.setting, n)
		}
	}
	s := newSession(t, wire.Options{})
	if _, err := s.Execute(t.Context(), "SET probe_links = kprobe"); err == nil || !strings.Contains(err.Error(), "probe_links is one of auto, session, multi, perf") {
		t.Errorf("kprobe: %v", err)
	}
}
