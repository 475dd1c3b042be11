package calls

import (
	"endoscope/planner/plan"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
)

// recordable are the options of programs whose events can be recorded.
const recordable = abi.Sequence | abi.UseDepth | abi.UseNames | abi.SendGoroutine

// CheckRecall refuses what cannot be recorded of calls (probes/bpf/recall.h): a recorded
// event has room for a few columns only.
func CheckRecall(spec *plan.Acquire, options uint32, reported string) error {
	refuse := func(hint, format string, args ...any) error {
		return plan.Errorf(spec.Start, spec.Stop, format, args...).WithHint("%s", hint)
	}
	switch {
	case spec.Settings.Recall == 0:
		return nil
	case reported != "":
		return refuse("MONITOR function_call", "calls of %s cannot be recalled", reported)
	case options&^recordable != 0:
		return refuse("conditions on function_name, class, module, event, depth, tid, process and thread_name are possible", "RECALL records no objects, callers, stacks or resources of calls")
	case !attach.FeatureFindVMA.Has():
		return refuse("MONITOR function_call", "RECALL needs Linux 5.17")
	}
	return nil
}
