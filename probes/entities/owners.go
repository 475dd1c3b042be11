package entities

import (
	"endoscope/probes/clock"
	"endoscope/probes/lang/java"
)

// askOwners has the world ask machines of Java who has their monitors.
func (s *source) askOwners() {
	machines := map[int]*java.Owners{} // nil: it cannot be asked
	s.world.later = s.merge.add
	s.world.gone = func(pid int) { delete(machines, pid) }
	s.world.owner = func(pid int, monitor uint64) (tid int, at int64, ok bool) {
		m, known := machines[pid]
		if !known {
			if len(machines) >= mostMachines {
				clear(machines)
			}
			var err error
			if m, err = java.OpenOwners(pid); err != nil {
				m = nil
				s.sink.Count(notAsked, 1)
			}
			machines[pid] = m
		}
		if m == nil {
			return 0, 0, false
		}
		// It is so at the latest when the answer is there: of what happened meanwhile
		// the events come behind.
		at = clock.Now()
		tid, ok = m.Of(monitor)
		return tid, at, ok
	}
}

// mostMachines is how many are remembered.
const mostMachines = 64

// notAsked is what is counted of machines that do not say what lies where.
const notAsked = "Java machines that do not tell who has a monitor"
