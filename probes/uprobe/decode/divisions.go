package decode

import (
	"time"

	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/clock"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/program"
)

// divisions are the times at which a query's calls were divided into those that
// began before and after. They are numbered from 1, and the reader's.
type divisions struct {
	number uint64
	times  [program.Generations]uint64
	// before is how many calls were under way of an older generation when a
	// newer one took its place among the counts.
	before [program.Generations]int64
}

// divideAhead is how far ahead a division lies when programs are told of it: they
// must know of it when it comes.
const divideAhead = 20 * time.Microsecond

// divide divides the calls at a boot time that has passed when it returns.
func (s *Subscription) divide() (at int64, err error) {
	d, vars := &s.divisions, s.Installation.Objects.Variables
	if s.options&abi.AtReturn == 0 { // nothing is under way
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
		// It was held up, and some calls that began after were not counted so.
	}
	for clock.Boot() < at {
	}
	return at, nil
}

// Between is how many calls have not ended of those that began after the division
// from and before the division until; 0: no matter when. It goes by what was
// accounted for last.
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

// after is how many calls that began after a division have not ended. Of one that is too old to be told apart it is all calls.
func (s *Subscription) after(number uint64) (n int64) {
	d, c := &s.divisions, &s.told
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
	return probes.Cut{At: at + s.offset, Number: s.divisions.number}, err
}
