package encoders

// Calls follows the stack of a call string. Times are the moments at which
// calls and returns happened, in ns.
type Calls struct {
	Frames []call
}

// call is one that has not returned.
type call struct {
	symbol Symbol
	began  int64 // NoTime: unknown
	waits  bool  // rather than runs, while it is the innermost
}

// Enter notes that s was called.
func (c *Calls) Enter(s Symbol, at int64) { c.Frames = append(c.Frames, call{symbol: s, began: at}) }

// Leave notes a return. It gives the call that ended and how long it took
// (NoTime: unknown); ok is false if its beginning was not seen.
func (c *Calls) Leave(at int64) (ended call, took int64, ok bool) {
	n := len(c.Frames) - 1
	if n < 0 {
		return call{}, NoTime, false
	}
	ended, c.Frames = c.Frames[n], c.Frames[:n]
	took = NoTime
	if ended.began != NoTime && at != NoTime {
		took = at - ended.began
	}
	return ended, took, true
}

// Moment is when symbol i of a block with these times happened.
func Moment(times []int64, i int) int64 {
	if times == nil {
		return NoTime
	}
	return times[i]
}

// returned counts the time of an occurrence that was counted when it began.
func (s *Stats) returned(took int64) {
	if took == NoTime {
		return
	}
	s.Timed++
	s.Sum += took
	s.SumSq.addSquare(took)
}
