package encoders

import "unsafe"

// DefaultIntervals is the default number of parts of a run.
const DefaultIntervals = 1024

// IntervalEncoder cuts a run into equal parts and records the activity of each class (or
// function, depending on the symbols) in each part: calls, time in its own code, waiting,
// allocations. Times are when calls and returns happened; without times there are no
// intervals.
//
// The length of a part is a power of two in ns, and parts begin at multiples of it, so that
// parts of different threads and hosts coincide. When the run exceeds n parts, adjacent
// parts are merged in pairs; there are then between n/2 and n.
type IntervalEncoder struct {
	Intake
	Calls
	n     int
	shift uint  // a part is 1<<shift ns long
	first int64 // part of the first event
	last  int64 // time of the last event
	begun bool
	cells map[intervalKey]*Activity
}

type intervalKey struct {
	part   int64
	thread int32
	symbol Symbol
}

// Activity is the activity of a class in an interval.
type Activity struct {
	Calls       int64
	Time        int64 // ns in its own code within the interval, waiting included
	Waiting     int64 // ns
	Allocations int64
	Bytes       int64
}

func (a *Activity) add(b *Activity) {
	a.Calls += b.Calls
	a.Time += b.Time
	a.Waiting += b.Waiting
	a.Allocations += b.Allocations
	a.Bytes += b.Bytes
}

// NewIntervalEncoder returns an encoder for the calls of a thread with at most n parts; n
// is at least 2.
func NewIntervalEncoder(a *Alphabet, n int, l Limits) *IntervalEncoder {
	return &IntervalEncoder{Intake: Intake{Alphabet: a, Limits: l}, n: max(n, 2), cells: map[intervalKey]*Activity{}}
}

func (e *IntervalEncoder) Append(symbols []Symbol, times []int64) {
	e.Consume(symbols, times, e.encode, e.Bytes)
}

func (e *IntervalEncoder) encode(symbols []Symbol, times []int64) {
	for i, s := range symbols {
		at := Moment(times, i)
		if at == NoTime {
			continue
		}
		e.advance(at)
		if s == Return {
			e.Leave(at)
			continue
		}
		e.Enter(s, at)
		e.cell(at, s).Calls++
	}
}

// advance adds the time since the last event to the innermost call.
func (e *IntervalEncoder) advance(to int64) {
	if !e.begun {
		e.begun, e.first, e.last = true, to>>e.shift, to
		return
	}
	for to>>e.shift-e.first >= int64(e.n) {
		e.coarsen()
	}
	if n := len(e.Frames); n > 0 && to > e.last {
		f := &e.Frames[n-1]
		e.spread(f.symbol, e.last, to, func(a *Activity, ns int64) {
			a.Time += ns
			if f.waits {
				a.Waiting += ns
			}
		})
	}
	e.last = max(e.last, to)
}

// spread splits a time span at the borders of the parts.
func (e *IntervalEncoder) spread(s Symbol, from, to int64, add func(a *Activity, ns int64)) {
	for from < to {
		border := min((from>>e.shift+1)<<e.shift, to)
		add(e.cell(from, s), border-from)
		from = border
	}
}

// Waits marks the last appended call as waiting: the time in its own code counts as
// waiting.
func (e *IntervalEncoder) Waits() {
	if n := len(e.Frames); n > 0 && !e.Full {
		e.Frames[n-1].waits = true
	}
}

// Wait records that the thread waited between two times; to must not be later than the next
// event. The time counts for the innermost call.
func (e *IntervalEncoder) Wait(from, to int64) {
	n := len(e.Frames)
	if e.Full || n == 0 || !e.begun || from < e.last {
		return
	}
	e.advance(from)
	e.advance(to)
	e.spread(e.Frames[n-1].symbol, from, to, func(a *Activity, ns int64) { a.Waiting += ns })
}

// Allocate records the allocation of an object of class s and this size.
func (e *IntervalEncoder) Allocate(s Symbol, bytes, at int64) {
	if e.Full {
		return
	}
	e.advance(at)
	c := e.cell(at, s)
	c.Allocations++
	c.Bytes += bytes
}

func (e *IntervalEncoder) cell(at int64, s Symbol) *Activity {
	return cellOf(e.cells, intervalKey{max(at>>e.shift, e.first), 0, s})
}

func cellOf(cells map[intervalKey]*Activity, k intervalKey) *Activity {
	c := cells[k]
	if c == nil {
		c = &Activity{}
		cells[k] = c
	}
	return c
}

// coarsen merges parts in pairs.
func (e *IntervalEncoder) coarsen() {
	e.cells = coarser(e.cells, 1)
	e.shift++
	e.first >>= 1
}

// coarser converts cells to parts that are 1<<by times as long.
func coarser(cells map[intervalKey]*Activity, by uint) map[intervalKey]*Activity {
	merged := make(map[intervalKey]*Activity, len(cells))
	for k, c := range cells {
		k.part >>= by
		cellOf(merged, k).add(c)
	}
	return merged
}

func (e *IntervalEncoder) Bytes() int64 {
	const cell = int64(unsafe.Sizeof(Activity{}) + 2*unsafe.Sizeof(intervalKey{}))
	return int64(len(e.cells))*cell + int64(24*cap(e.Frames))
}

func (e *IntervalEncoder) Encode() Encoding {
	x := &Intervals{Source: e.Source(), names: e.Alphabet.Names(), n: e.n, shift: e.shift, cells: coarser(e.cells, 0)}
	return x
}
