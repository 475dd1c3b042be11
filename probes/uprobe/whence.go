package uprobe

import (
	"slices"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/process"
	"endoscope/probes/stack"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
)

// asksWhence reports whether a query asks where calls come from.
func asksWhence(out types.Schema) bool {
	return calls.Reads(out, calls.ColCaller) || calls.Reads(out, calls.ColStack)
}

// checkStack refuses to copy stacks where the kernel cannot.
func checkStack(spec *plan.Acquire) error {
	if !calls.Reads(spec.Out, calls.ColStack) || attach.FeatureDynptr.Has() {
		return nil
	}
	return plan.Errorf(spec.Start, spec.Stop, "the stacks of calls need Linux %s or newer: this kernel has no %s", attach.FeatureDynptr.Since, attach.FeatureDynptr.Name).
		WithHint("leave out stack; caller works")
}

// newStacks is what makes stacks of s's events; nil if nobody asks for any. Provider.mu is
// held.
func (p *Provider) newStacks(s *source) *stack.Stacks {
	if s.wants.Options&(abi.SendCaller|abi.SendStack) == 0 {
		return nil
	}
	var left stack.Left
	if s.mayEndSoon() {
		if p.history == nil {
			p.history, _ = process.WatchHistory() // without it stacks of those that have ended lack names
		}
		if p.history != nil {
			s.remembers, left = true, p.history.Left
		}
	}
	stacks := stack.NewStacks(&p.modules, s.spec.Settings.SystemModules, left)
	for _, q := range s.resolution.running {
		stacks.Know(q.PID)
		if s.remembers {
			p.history.Know(q.PID)
		}
	}
	return stacks
}

// young is how long a process has run at most that may be one that runs for a moment.
const young = 10 * time.Second

// mayEndSoon reports whether processes may end before anybody has looked at what they
// execute: those that come, and those that have just begun.
func (s *source) mayEndSoon() bool {
	if t := s.spec.Target; len(t.Processes)+len(t.Exes) > 0 {
		return true
	}
	return slices.ContainsFunc(s.resolution.running, func(p process.Process) bool { return p.Age() < young })
}

// forgetHistory ends it when no source needs it. Provider.mu is held.
func (p *Provider) forgetHistory() {
	for s := range p.active {
		if s.remembers {
			return
		}
	}
	if p.history != nil {
		p.history.Close()
		p.history = nil
	}
}
