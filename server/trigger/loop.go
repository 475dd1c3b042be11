package trigger

import (
	"os"
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/server/answer"
)

// No trigger may activate itself endlessly. The streams of triggers and the
// files that it reads are known from its plan, and a cycle with those of all
// others is refused (definitions.Triggers.Feeds). So are conditions on
// functions of the engine itself, which each activation calls. Everything else
// is bounded: an effect of a trigger on something that is sampled activates it
// once per sample and row, a query runs once at a time, and webhooks are posted
// one after the other from a queue.

// RefuseSelf refuses conditions on calls that the engine makes when a condition
// holds.
func RefuseSelf(p *planner.Trigger, name *parser.Ident, text string) error {
	for _, leaf := range plan.Leaves(p.When.Root) {
		if observesFunctions(leaf) && isSelf(&leaf.Target) {
			return answer.Refuse(name, text, "observe another process",
				"%s would feed itself: it observes calls in the process that runs it", p.Name)
		}
	}
	return nil
}

// isSelf reports whether this process is one of a target's.
func isSelf(t *plan.Target) bool {
	if slices.Contains(t.PIDs, os.Getpid()) {
		return true
	}
	if comm, err := os.ReadFile("/proc/self/comm"); err == nil && slices.Contains(t.Processes, strings.TrimSpace(string(comm))) {
		return true
	}
	own, err := os.Stat("/proc/self/exe")
	return err == nil && slices.ContainsFunc(t.Exes, func(path string) bool {
		f, err := os.Stat(path)
		return err == nil && os.SameFile(own, f)
	})
}
