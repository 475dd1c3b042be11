package encoders

import "unsafe"

// DefaultIntervals is into how many parts a run is cut if nobody says.
const DefaultIntervals = 1024

// IntervalEncoder cuts a run into equal parts and says what each class (or
// function: what its symbols are) did in each: calls, the time that its own
// code took, waiting, allocations. Times are when calls and returns happened;
// without them there are no intervals.
//
// The length of a part is a power of two in ns, and parts begin at multiples of
// it, so that those of different threads and hosts are the same. When the run
// has more than n parts, each two become one: there are then between n/2 and n.
type IntervalEncoder struct {
	Intake
	Calls
	n     int
	shift uint  // the parts are 1<<shift ns long
	first int64 // part of the first moment
	last  int64 // moment of the last event
	begun bool
	cells map[intervalKey]*Activity
}

type intervalKey struct {
	part   int64
	thread int32
	symbol Symbol
}

// Activity is what a class did in an interval.
type Activity struct {
	Calls       int64
	Time        int64 // ns in its own code, cut off at the interval's borders, waiting included
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

// NewIntervalEncoder returns an encoder for the calls of a thread with at most
// n parts, at least 2.
func NewIntervalEncoder(a *Alphabet, n int, l Limits) *IntervalEncoder {
	return &IntervalEncoder{Intake: Intake{Alphabet: a, Limits: l}, n: max(n, 2), cells: map[intervalKey]*Activity{}}
}

// Append implements [Encoder].
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

// advance gives the time since the last event to what runs.
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

// spread divides the time between two moments at the borders of the parts.
func (e *IntervalEncoder) spread(s Symbol, from, to int64, add func(a *Activity, ns int64)) {
	for from < to {
		border := min((from>>e.shift+1)<<e.shift, to)
		add(e.cell(from, s), border-from)
		from = border
	}
}

// Waits says that the call that was appended last waits: the time in its own code
// is waiting.
func (e *IntervalEncoder) Waits() {
	if n := len(e.Frames); n > 0 && !e.Full {
		e.Frames[n-1].waits = true
	}
}

// Wait says that the thread waited between two moments, of which the second is
// not later than the next event. The time is that of what it was in.
func (e *IntervalEncoder) Wait(from, to int64) {
	n := len(e.Frames)
	if e.Full || n == 0 || !e.begun || from < e.last {
		return
	}
	e.advance(from)
	e.advance(to)
	e.spread(e.Frames[n-1].symbol, from, to, func(a *Activity, ns int64) { a.Waiting += ns })
}

// Allocate says that an object of class s was made, of so many bytes.
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

// coarsen makes one part of each two.
func (e *IntervalEncoder) coarsen() {
	e.cells = coarser(e.cells, 1)
	e.shift++
	e.first >>= 1
}

// coarser are cells of parts that are 1<<by times as long.
func coarser(cells map[intervalKey]*Activity, by uint) map[intervalKey]*Activity {
	merged := make(map[intervalKey]*Activity, len(cells))
	for k, c := range cells {
		k.part >>= by
		cellOf(merged, k).add(c)
	}
	return merged
}

// Bytes implements [Encoder].
func (e *IntervalEncoder) Bytes() int64 {
	const cell = int64(unsafe.Sizeof(Activity{}) + 2*unsafe.Sizeof(intervalKey{}))
	return int64(len(e.cells))*cell + int64(24*cap(e.Frames))
}

// Encode implements [Encoder].
func (e *IntervalEncoder) Encode() Encoding {
	x := &Intervals{Source: e.Source(), names: e.Alphabet.Names(), n: e.n, shift: e.shift, cells: coarser(e.cells, 0)}
	return x
}
