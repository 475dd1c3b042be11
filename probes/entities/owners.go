package entities

import (
	"endoscope/probes/clock"
	"endoscope/probes/lang/java"
)

// askOwners makes the world look up the holders of monitors in the memory of
// Java machines.
func (s *source) askOwners() {
	machines := map[int]*java.Owners{} // nil: cannot be read
	s.world.enqueue = s.merge.add
	s.world.onExit = func(pid int) { delete(machines, pid) }
	s.world.owner = func(pid int, monitor uint64) (tid int, at int64, ok bool) {
		m, known := machines[pid]
		if !known {
			if len(machines) >= maxMachines {
				clear(machines)
			}
			var err error
			if m, err = java.OpenOwners(pid); err != nil {
				m = nil
				s.sink.Count(unreadableMachines, 1)
			}
			machines[pid] = m
		}
		if m == nil {
			return 0, 0, false
		}
		// The answer holds at this time at the latest: events of what happened
		// meanwhile come later.
		at = clock.Now()
		tid, ok = m.Of(monitor)
		return tid, at, ok
	}
}

// maxMachines limits the cached machines.
const maxMachines = 64

// unreadableMachines is the cause counted for machines whose memory layout is unknown.
const unreadableMachines = "Java machines whose monitor holders cannot be read"
