package resolve

import (
	"fmt"
	"os"
	"testing"

	"endoscope/probes/uprobe/attach"
)

// TestHarmedByTraps lists the effect of each kernel's return traps on processes with
// security hardening.
func TestHarmedByTraps(t *testing.T) {
	const (
		plain    = "Name:\tredis\nSeccomp:\t0\nSeccomp_filters:\t0\nx86_Thread_features:\t\nx86_Thread_features_locked:\t\n"
		filtered = "Name:\tredis\nSeccomp:\t2\nSeccomp_filters:\t1\nx86_Thread_features:\t\n"
		shadowed = "Name:\tredis\nSeccomp:\t0\nx86_Thread_features:\tshstk wrss \nx86_Thread_features_locked:\tshstk wrss \n"
	)
	for _, c := range []struct{ release, filtered, shadowed string }{
		{"5.15.0-generic", "", ""},
		{"6.6.30", "", trapShadowed},
		{"6.10.2", "", trapShadowed},
		{"6.11.0", trapFiltered, ""},
		{"6.13.7", trapFiltered, ""},
		{"6.14.0", "", ""},
		{"6.18.5", "", ""},
	} {
		why := newTrapCheck(func(version string) bool { return !attach.OlderThan(c.release, version) })
		if why == nil {
			why = func(string) string { return "" }
		}
		for status, want := range map[string]string{plain: "", filtered: c.filtered, shadowed: c.shadowed} {
			if got := why(status); got != want {
				t.Errorf("Linux %s: %q of a process with\n%s", c.release, got, status)
			}
		}
	}
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if s := statusField(string(own), "Pid"); s != fmt.Sprint(os.Getpid()) {
		t.Errorf("this process is %q", s)
	}
}
