package program

import (
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/bpf"
	"endoscope/probes/clock"
)

// drains is the value of the program's variable armed while calls end and none begins
// (DRAINS in standby.h).
const drains = 2

// ShutEntries lets no more calls begin. Those under way still end, until Drain.
func (in *Installation) ShutEntries() error {
	v := in.Objects.Variables[bpf.FunctionVarArmed]
	if v == nil { // no program of the query reads it
		return nil
	}
	return v.Set(uint64(drains))
}

// Drain says how long is waited for calls that are under way.
type Drain struct {
	Before uint64        // calls that are not waited for
	Least  time.Duration // that all have
	// Longest is what calls have of which the thread may have no processor. Such a thread ends
	// nothing, and hits nothing: meanwhile hits cost at most Most, ns.
	Longest time.Duration
	Most    uint64

	InVain bool // set: the longest time was not enough
}

// Drain waits for calls under way after ShutEntries, disables calls, and returns how many have
// not ended.
func (in *Installation) Drain(d *Drain, percpu *[]bpf.FunctionCounters) (left int64, err error) {
	began, spent, pause := clock.Boot(), in.Spent(), 200*time.Microsecond
	for {
		left = max(int64(in.UnderWay(percpu)-d.Before), 0)
		took := time.Duration(clock.Boot() - began)
		d.InVain = d.Longest > 0 && took > d.Longest
		if left == 0 || took > max(d.Least, d.Longest) || took > d.Least && in.Spent()-spent > d.Most {
			return left, in.Arm(false)
		}
		if took > d.Least {
			pause = min(2*pause, 2*time.Millisecond)
		}
		t := unix.NsecToTimespec(int64(pause))
		_ = unix.Nanosleep(&t, nil)
	}
}

// UnderWay returns the number of calls under way whose return is awaited.
func (in *Installation) UnderWay(percpu *[]bpf.FunctionCounters) uint64 {
	c, err := in.Counters(percpu)
	if err != nil {
		return 0
	}
	armed, returned := Awaited(&c)
	return armed - min(returned, armed)
}
