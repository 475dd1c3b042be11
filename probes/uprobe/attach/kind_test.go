package attach

import (
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/uprobe/internal/testplan"
)

func TestReleases(t *testing.T) {
	for _, c := range []struct {
		release, version string
		older            bool
	}{
		{"6.9.12-generic", "6.10", true},
		{"6.10.0-rc1", "6.10", false},
		{"6.18.44", "6.10", false},
		{"7.0", "6.10", false},
		{"5.15", "6.6", true},
		{"", "6.6", true},
		{"unknown", "6.6", true},
	} {
		if got := OlderThan(c.release, c.version); got != c.older {
			t.Errorf("%q is older than %s: %v", c.release, c.version, got)
		}
	}
}

// auto takes the best kind that a kernel has; a kind requested by name is used or
// refused, never replaced.
func TestChoiceOfLinks(t *testing.T) {
	kernels := map[string][]Kind{"5.10": nil, "5.15": {Perf}, "6.6": {Perf, Multi}, "6.13": {Perf, Multi, Session}}
	for _, c := range []struct{ kernel, wanted, got string }{
		{"6.13", "", "session"},
		{"6.6", "", "multi"},
		{"5.15", "", "perf"},
		{"5.10", "", "function_start needs Linux 5.15 or newer: this kernel has no perf-event links with cookies"},
		{"6.13", "perf", "perf"},
		{"6.13", "multi", "multi"},
		{"6.13", "session", "session"},
		{"6.6", "session", "this kernel has no uprobe sessions, which came with Linux 6.13"},
		{"5.15", "multi", "this kernel has no links of many uprobes, which came with Linux 6.6"},
		{"5.10", "perf", "this kernel has no perf-event links with cookies, which came with Linux 5.15"},
		{"6.13", "kprobe", "there are no links of the kind kprobe"},
	} {
		spec := testplan.Acquire(catalog.FunctionStart, plan.Target{}, nil)
		kind, err := ChooseKind(spec, c.wanted, func(k Kind) bool {
			for _, has := range kernels[c.kernel] {
				if k == has {
					return true
				}
			}
			return false
		})
		got := kind.String()
		if err != nil {
			got, _, _ = strings.Cut(err.Error(), " (hint: ")
		}
		if got != c.got {
			t.Errorf("Linux %s, probe_links %q: %s, want %s", c.kernel, c.wanted, got, c.got)
		}
	}
}
