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

// No trigger may activate itself without end. What it reads of triggers' streams
// and of files is known from its plan, with that of all others, and refused
// (definitions.Triggers.Feeds); so are calls of functions of the engine itself, which
// each activation makes. The rest is bounded: what a trigger could do to something
// that is sampled activates it once a sample and row, a query runs once at a time,
// and webhooks are posted one after the other out of a queue.

// RefuseSelf refuses conditions on calls that the engine makes when it sees one.
func RefuseSelf(p *planner.Trigger, name *parser.Ident, text string) error {
	for _, leaf := range plan.Leaves(p.When.Root) {
		if ObservesFunctions(leaf) && isSelf(&leaf.Target) {
			return answer.Refuse(name, text, "observe another process",
				"%s would feed itself: it waits for calls in the process that runs it", p.Name)
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
