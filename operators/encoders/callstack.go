package encoders

// Calls follows the call stack through a call string. Times are when calls and returns
// happened, in ns.
type Calls struct {
	Frames []call
}

// call is a call that has not returned.
type call struct {
	symbol Symbol
	began  int64 // NoTime: unknown
	waits  bool  // waiting, not running, while it is the innermost
}

// Enter records a call of s.
func (c *Calls) Enter(s Symbol, at int64) { c.Frames = append(c.Frames, call{symbol: s, began: at}) }

// Leave records a return. It returns the call that ended and its duration in ns (NoTime if
// unknown); ok is false if the start of the call was not seen.
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

// Moment returns the time of symbol i of a block with these times.
func Moment(times []int64, i int) int64 {
	if times == nil {
		return NoTime
	}
	return times[i]
}

// returned adds the time of an occurrence whose count was added when it began.
func (s *Stats) returned(took int64) {
	if took == NoTime {
		return
	}
	s.Timed++
	s.Sum += took
	s.SumSq.addSquare(took)
}
