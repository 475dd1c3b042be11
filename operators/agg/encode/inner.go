package encode

import (
	"slices"
	"unsafe"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/encoders"
)

// innerCalls follows the calls of threads when the sequence of an object includes
// the calls that its methods make: a call in progress on a thread belongs to all
// objects through whose methods it was reached.
type innerCalls struct {
	threads map[threadKey]*innerThread
}

// threadKey is a thread of one origin.
type threadKey struct {
	origin uint64
	id     int64
}

type innerThread struct {
	calls []innerCall
}

// innerCall is a call that has not returned, and the sequences that it belongs
// to. Calls that belong to the same have one slice.
type innerCall struct{ of []*sequence }

const innerBytes = int64(unsafe.Sizeof(innerCall{}))

// updateInner is update for aggregates with inner =>. Rows of functions that do
// not belong to an object have NULL for their sequence.
func (e *Encoding) updateInner(in *fold.Input, names *batch.Column, to, what []encoders.Symbol) {
	for _, r := range in.Rows {
		event := what[in.Arg.Code[r]]
		t := e.inner.thread(e.origin, in.More[e.within], r)
		switch {
		case event == gap:
			e.cutThread(in, r, t)
		case event >= gap:
			if e.noEvent == nil {
				e.noEvent = &in.Arg.Values[in.Arg.Code[r]]
			}
		case event == returned:
			n := len(t.calls) - 1
			if n < 0 {
				continue // it began before it was observed
			}
			ended := t.calls[n].of
			t.calls = t.calls[:n]
			e.held -= innerBytes
			for _, s := range ended {
				e.appendOne(s, encoders.Return, in, r)
			}
			e.endInner(in, r, t)
		case !names.Nulls.Get(int(r)):
			symbol := to[names.Code[r]]
			if symbol == unknown {
				symbol = e.symbolOf(names.Values[names.Code[r]])
				to[names.Code[r]] = symbol
			}
			of := e.sequencesOfCall(in, r, t)
			t.calls = append(t.calls, innerCall{of})
			e.held += innerBytes
			for _, s := range of {
				e.appendOne(s, symbol, in, r)
			}
			e.endInner(in, r, t)
		}
	}
}

func (i *innerCalls) thread(origin uint64, c *batch.Column, r uint16) *innerThread {
	key := threadKey{origin, intKey(c, r)}
	t := i.threads[key]
	if t == nil {
		if i.threads == nil {
			i.threads = map[threadKey]*innerThread{}
		}
		t = &innerThread{}
		i.threads[key] = t
	}
	return t
}

// sequencesOfCall returns the sequences that the call of row r belongs to: those of
// its caller, and that of its own object.
func (e *Encoding) sequencesOfCall(in *fold.Input, r uint16, t *innerThread) []*sequence {
	var of []*sequence
	if n := len(t.calls); n > 0 {
		of = t.calls[n-1].of
	}
	if in.More[e.by].Nulls.Get(int(r)) {
		return of
	}
	if s := e.sequence(in, r); s != nil && !slices.Contains(of, s) {
		of = append(slices.Clip(of), s)
	}
	return of
}

// appendOne appends a symbol, which happened at row r, to a sequence.
func (e *Encoding) appendOne(s *sequence, symbol encoders.Symbol, in *fold.Input, r uint16) {
	e.symbols = append(e.symbols, symbol)
	if e.clock {
		e.times = append(e.times, s.elapsed(in.Times[r], e.moments))
	}
	e.append(s)
}

// endInner ends the sequence of row r if the row's dies condition is true.
func (e *Encoding) endInner(in *fold.Input, r uint16, t *innerThread) {
	if e.dies < 0 || in.More[e.by].Nulls.Get(int(r)) || !isTrue(in.More[e.dies], r) {
		return
	}
	if s := e.get(in, r); s != nil {
		e.set(in, r, nil)
		for i, c := range t.calls { // the calls that enclose the end no longer belong to the sequence
			if slices.Contains(c.of, s) {
				t.calls[i].of = slices.DeleteFunc(slices.Clone(c.of), func(o *sequence) bool { return o == s })
			}
		}
		e.died(&e.groups[in.Groups[r]], s)
	}
}

// cutThread ends the sequences of the calls in progress on a thread whose events
// are missing from row r on.
func (e *Encoding) cutThread(in *fold.Input, r uint16, t *innerThread) {
	if n := len(t.calls); n > 0 {
		for _, s := range t.calls[n-1].of {
			s.encoder.Truncate()
		}
	}
	e.held -= int64(len(t.calls)) * innerBytes
	t.calls = t.calls[:0]
}
