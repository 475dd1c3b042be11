package uprobe

import (
	"slices"
	"time"

	"endoscope/probes/debugfiles"
	"endoscope/probes/process"
	"endoscope/probes/stack"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
)

// newStacks returns the unwinder for the events of s, or nil if no stacks are requested.
// The caller holds Provider.mu.
func (p *Provider) newStacks(s *source) *stack.Stacks {
	if s.wants.Options&(abi.SendCaller|abi.SendStack) == 0 {
		return nil
	}
	var left stack.MappingsBefore
	if h := p.historyFor(s); h != nil {
		left = h.MappingsBefore
	}
	stacks := stack.NewStacks(p.modules.With(debugfiles.Known(s.spec.Settings)), s.spec.Settings.SystemModules, s.spec.Lines, left)
	for _, q := range s.resolution.Running {
		stacks.ReadProcess(q.PID)
	}
	return stacks
}

// historyFor returns what processes execute, those that have ended included; nil if no
// process of s may end before it has been looked up. The caller holds Provider.mu.
func (p *Provider) historyFor(s *source) *process.History {
	if s.remembers || !s.mayEndSoon() {
		return p.history
	}
	if p.history == nil {
		p.history, _ = process.WatchHistory() // without it stacks and executables of ended processes have no names
	}
	if p.history == nil {
		return nil
	}
	s.remembers = true
	for _, q := range s.resolution.Running {
		p.history.ReadProcess(q.PID)
	}
	return p.history
}

// exesBefore returns what finds the executables of processes that have ended, nil if s
// needs none. The caller holds Provider.mu.
func (p *Provider) exesBefore(s *source) func(pid int, at int64) string {
	unknown := slices.ContainsFunc(s.resolution.Functions, func(w calls.Function) bool { return w.Label.Exe == "" })
	if !unknown || !slices.Contains(s.wants.Cols, calls.ColExe) {
		return nil
	}
	h := p.historyFor(s)
	if h == nil {
		return nil
	}
	return func(pid int, at int64) string {
		_, exe := h.MappingsBefore(pid, at)
		return exe
	}
}

// young is the maximum age of a process that is considered possibly short-lived.
const young = 10 * time.Second

// mayEndSoon reports whether processes may end before their modules have been read:
// later processes, and those that have just started.
func (s *source) mayEndSoon() bool {
	if t := s.spec.Target; t.Grows() || len(t.Files) > 0 {
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
