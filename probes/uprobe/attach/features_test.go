package attach

import (
	"os"
	"testing"

	"endoscope/planner/plan"
)

// A kernel that attaches no uprobes at all is told from one that is too old.
func TestNoKindOfLink(t *testing.T) {
	spec := &plan.Acquire{Stream: "function_start"}
	for want, noEvents := range map[string]error{
		"function_start needs uprobes, which this kernel does not have (hint: Linux 5.15 or newer, built with CONFIG_UPROBE_EVENTS; stack_sample takes no uprobes)": os.ErrNotExist,
		"function_start needs Linux 5.15 or newer: this kernel has no perf-event links with cookies (hint: stack_sample takes no uprobes)":                          nil,
	} {
		if got := noKind(spec, noEvents).Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
