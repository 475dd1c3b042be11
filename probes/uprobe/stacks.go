package uprobe

import (
	"slices"
	"time"

	"endoscope/probes/debugfiles"
	"endoscope/probes/process"
	"endoscope/probes/stack"
	"endoscope/probes/uprobe/abi"
)

// newStacks returns the unwinder for the events of s, or nil if no stacks are requested.
// The caller holds Provider.mu.
func (p *Provider) newStacks(s *source) *stack.Stacks {
	if s.wants.Options&(abi.SendCaller|abi.SendStack) == 0 {
		return nil
	}
	var left stack.MappingsBefore
	if s.mayEndSoon() {
		if p.history == nil {
			p.history, _ = process.WatchHistory() // without it stacks of ended processes lack names
		}
		if p.history != nil {
			s.remembers, left = true, p.history.MappingsBefore
		}
	}
	stacks := stack.NewStacks(p.modules.With(debugfiles.Known(s.spec.Settings)), s.spec.Settings.SystemModules, s.spec.Lines, left)
	for _, q := range s.resolution.Running {
		stacks.ReadProcess(q.PID)
		if s.remembers {
			p.history.ReadProcess(q.PID)
		}
	}
	return stacks
}

// young is the maximum age of a process that is considered possibly short-lived.
const young = 10 * time.Second

// mayEndSoon reports whether processes may end before their modules have been read:
// later processes, and those that have just started.
func (s *source) mayEndSoon() bool {
	if t := s.spec.Target; len(t.Processes)+len(t.Exes) > 0 {
		return true
	}
	return slices.ContainsFunc(s.resolution.Running, func(p process.Process) bool { return p.Age() < young })
}

// forgetHistory ends the history when no source needs it. The caller holds Provider.mu.
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
