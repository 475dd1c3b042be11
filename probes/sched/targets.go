package sched

import (
	"slices"

	"endoscope/planner/plan"
	"endoscope/probes/process"
)

// targets selects the wanted events. The zero value selects all.
//
// In the streams of processes a target includes the descendants of its
// processes. They are followed from event to event, so all three kinds of
// process events are needed whatever the stream. The same holds for the ends of
// threads, before Linux 6.16, if the target is an executable: a thread's end no
// longer has its process's executable.
type targets struct {
	some        bool // only those of a target
	follow      bool // the target's processes are known by their earlier events
	descendants bool // descendants are included
	pids        []int
	matcher     *process.Matcher
	family      map[int]bool // with follow: live processes that are included
	missed      map[int]bool // members of family that did not exist at the last listing
}

func newTargets(spec *plan.Acquire) *targets {
	t := &targets{some: !spec.Target.IsZero(), pids: spec.Target.PIDs, matcher: process.NewMatcher(spec.Target)}
	t.descendants = t.some && events[spec.Stream]&(processStart|processExec|processEnd) != 0
	t.follow = t.descendants || len(spec.Target.Exes) > 0 && events[spec.Stream]&threadEnd != 0
	return t
}

// needs returns the events required to follow processes.
func (t *targets) needs() uint32 {
	if t.follow {
		return processStart | processExec | processEnd
	}
	return 0
}

// begin lists the existing processes of the target, and their descendants. It
// is called again when events were lost, and then keeps missing members for one
// round: their end events may still arrive.
func (t *targets) begin() error {
	if !t.follow {
		return nil
	}
	all, err := process.List()
	if err != nil {
		return err
	}
	before := t.family
	t.family = map[int]bool{}
	alive := map[int]bool{}
	children := map[int][]int{}
	var add func(pid int)
	add = func(pid int) {
		if t.family[pid] {
			return
		}
		t.family[pid] = true
		if !t.descendants {
			return
		}
		for _, child := range children[pid] {
			add(child)
		}
	}
	for _, p := range all {
		alive[p.PID] = true
		children[p.Parent] = append(children[p.Parent], p.PID)
	}
	for _, p := range all {
		if t.named(p) {
			add(p.PID)
		}
	}
	missed := map[int]bool{}
	for pid := range before {
		switch {
		case alive[pid]:
			add(pid) // its parent in the target may have ended
		case !t.missed[pid]:
			t.family[pid], missed[pid] = true, true
		}
	}
	t.missed = missed
	return nil
}

func (t *targets) named(p process.Process) bool {
	return slices.Contains(t.pids, p.PID) || t.matcher.Matches(p)
}

// wants reports whether l is an event of the target, and updates the family. It
// must see every record, in order.
func (t *targets) wants(l life) bool {
	if l.Event&processExec != 0 { // a container's first process moves there before it executes its program
		process.RenewContainer(int(l.Pid))
	}
	if !t.some {
		return true
	}
	pid := int(l.Pid)
	if !t.follow {
		return t.isNamedBy(l)
	}
	mine := t.family[pid]
	switch {
	case l.Event&processStart != 0:
		mine = t.descendants && t.family[int(l.ParentPid)] || t.isNamedBy(l)
	case l.Event&processExec != 0:
		mine = mine && t.descendants || t.isNamedBy(l)
		if !mine {
			delete(t.family, pid)
		}
	case l.Event&threadEnd != 0 && l.Event&processEnd == 0:
		return mine || t.isNamedBy(l)
	case l.Event&processEnd != 0:
		mine = mine || t.isNamedBy(l)
		delete(t.family, pid)
		return mine
	}
	if mine {
		t.family[pid] = true
	}
	return mine
}

// isNamedBy reports whether an event is of a process that the target names, by the
// data in the record: the process may have ended since.
func (t *targets) isNamedBy(l life) bool {
	return slices.Contains(t.pids, int(l.Pid)) || t.matcher.Contains(int(l.Pid)) ||
		t.matcher.MatchesProgram(&process.Program{Comm: comm(&l.Process), Exe: l.exe(), File: l.file()})
}
