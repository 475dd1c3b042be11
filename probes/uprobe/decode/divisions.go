package decode

import (
	"time"

	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/clock"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/program"
)

// divisions are the times that divided a query's calls into those that began before
// and those that began after. They are numbered from 1. The reader owns them.
type divisions struct {
	number uint64
	times  [program.Generations]uint64
	// before is the number of unfinished calls of an older generation at the time when
	// a newer generation took over its counter.
	before [program.Generations]int64
}

// divideAhead is how far in the future a division is placed when the programs are
// notified: they must know about it before it happens.
const divideAhead = 20 * time.Microsecond

// divide divides the calls and returns the boot time of the division, which has passed
// when it returns.
func (s *Subscription) divide() (at int64, err error) {
	d, vars := &s.divisions, s.Installation.Objects.Variables
	if s.options&abi.AtReturn == 0 { // no calls are under way
		d.number++
		return clock.Boot(), nil
	}
	for {
		d.number++
		slot := d.number % uint64(program.Generations)
		c, err := s.Installation.Counters(&s.percpu)
		if err != nil {
			return 0, err
		}
		d.before[slot] = int64(c.Armed[slot] - c.Returned[slot])
		at = clock.Boot() + int64(divideAhead)
		d.times[slot] = uint64(at)
		if err := vars[bpf.FunctionVarDivisions].Set(d.times); err != nil {
			return 0, err
		}
		if err := vars[bpf.FunctionVarGeneration].Set(d.number); err != nil {
			return 0, err
		}
		if clock.Boot() < at {
			break
		}
		// This thread was delayed, and some calls that began after the division were
		// counted as before it.
	}
	for clock.Boot() < at {
	}
	return at, nil
}

// Between returns the number of unfinished calls that began after the division from
// and before the division until; 0 means no bound. It uses the counts of the last
// Account.
func (s *Subscription) Between(from, until uint64) uint64 {
	if s.options&abi.AtReturn == 0 {
		return 0
	}
	n := s.after(from)
	if until != 0 {
		n -= s.after(until)
	}
	return uint64(max(n, 0))
}

// after returns the number of unfinished calls that began after a division. For a
// division too old to be distinguished it returns all unfinished calls.
func (s *Subscription) after(number uint64) (n int64) {
	d, c := &s.divisions, &s.reported
	if number == 0 || number+uint64(program.Generations) <= d.number {
		armed, returned := program.Awaited(c)
		return int64(armed - returned)
	}
	for k := number; k <= d.number; k++ {
		slot := k % uint64(program.Generations)
		n += int64(c.Armed[slot]-c.Returned[slot]) - d.before[slot]
	}
	return n
}

// Cut divides the calls.
func (s *Subscription) Cut() (probes.Cut, error) {
	at, err := s.divide()
	return probes.Cut{At: at + s.offset, Number: s.divisions.number, Unobserved: s.Installation.Unobserved()}, err
}
