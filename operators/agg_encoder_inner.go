package operators

import (
	"slices"
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/operators/encoders"
)

// innerCalls follows the calls of threads, where the sequence of an object has
// those that its methods make, too: what is under way on a thread belongs to all
// objects whose methods it was reached through.
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

// updateInner is update where inner => is given. Rows of functions that have
// nothing to do with an object have NULL for their sequence.
func (e *encoding) updateInner(in *folding, names *batch.Column, to, what []encoders.Symbol) {
	for _, r := range in.rows {
		event := what[in.arg.Code[r]]
		t := e.inner.thread(e.origin, in.more[e.within], r)
		switch {
		case event == gap:
			e.cutThread(in, r, t)
		case event >= gap:
			if e.noEvent == nil {
				e.noEvent = &in.arg.Values[in.arg.Code[r]]
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
			e.dieInner(in, r, t)
		case !names.Nulls.Get(int(r)):
			symbol := to[names.Code[r]]
			if symbol == unknown {
				symbol = e.symbolOf(names.Values[names.Code[r]])
				to[names.Code[r]] = symbol
			}
			of := e.reachedThrough(in, r, t)
			t.calls = append(t.calls, innerCall{of})
			e.held += innerBytes
			for _, s := range of {
				e.appendOne(s, symbol, in, r)
			}
			e.dieInner(in, r, t)
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

// reachedThrough are the sequences that the call of row r belongs to: those of its
// caller, and that of its own object.
func (e *encoding) reachedThrough(in *folding, r uint16, t *innerThread) []*sequence {
	var of []*sequence
	if n := len(t.calls); n > 0 {
		of = t.calls[n-1].of
	}
	if in.more[e.by].Nulls.Get(int(r)) {
		return of
	}
	if s := e.sequence(in, r); s != nil && !slices.Contains(of, s) {
		of = append(slices.Clip(of), s)
	}
	return of
}

// appendOne gives a sequence a symbol, which happened at row r.
func (e *encoding) appendOne(s *sequence, symbol encoders.Symbol, in *folding, r uint16) {
	e.symbols = append(e.symbols, symbol)
	if e.clock {
		e.times = append(e.times, s.elapsed(in.times[r], e.moments))
	}
	e.append(s)
}

// dieInner ends the sequence of row r, if the row says so.
func (e *encoding) dieInner(in *folding, r uint16, t *innerThread) {
	if e.dies < 0 || in.more[e.by].Nulls.Get(int(r)) || !isTrue(in.more[e.dies], r) {
		return
	}
	if s := e.get(in, r); s != nil {
		e.set(in, r, nil)
		for i, c := range t.calls { // what encloses the end does not belong to it any more
			if slices.Contains(c.of, s) {
				t.calls[i].of = slices.DeleteFunc(slices.Clone(c.of), func(o *sequence) bool { return o == s })
			}
		}
		e.died(&e.groups[in.groups[r]], s)
	}
}

// cutThread ends the sequences of the calls under way on a thread whose events are
// missing from row r on.
func (e *encoding) cutThread(in *folding, r uint16, t *innerThread) {
	if n := len(t.calls); n > 0 {
		for _, s := range t.calls[n-1].of {
			s.encoder.Truncate()
		}
	}
	e.held -= int64(len(t.calls)) * innerBytes
	t.calls = t.calls[:0]
}
