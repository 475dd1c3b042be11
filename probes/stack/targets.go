package stack

import (
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/process"
)

// rescan is the minimum interval between searches of /proc for processes that match a
// name or an executable, and remembered that between rereads of the names of processes where
// no other can join them.
const (
	rescan     = 100 * time.Millisecond
	remembered = 500 * time.Millisecond
)

// targets tracks the processes that match a target.
type targets struct {
	group   *process.Group
	running map[int]*process.Process
	scanned time.Time
}

func newTargets(t plan.Target, now []process.Process) *targets {
	return &targets{group: process.NewGroup(t, now), running: map[int]*process.Process{}}
}

// refresh adds the processes that match now, and removes those that no longer match. A
// process that reuses a pid is a different process.
func (t *targets) refresh() error {
	now, pause := time.Now(), rescan
	if !t.group.Grows() {
		pause = remembered
	}
	if now.Sub(t.scanned) < pause && !t.group.MayChange() {
		return nil
	}
	t.scanned = now
	all, err := t.group.Candidates()
	if err != nil {
		return err
	}
	clear(t.running)
	for i := range all {
		if t.group.Includes(all[i]) {
			t.running[all[i].PID] = &all[i]
		}
	}
	return nil
}
