package encoders

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Intervals is the activity of the classes of threads in each part of a run.
type Intervals struct {
	Source
	names []string
	n     int
	shift uint
	cells map[intervalKey]*Activity
}

// Interval is the activity of one class of one thread in one part of a run.
type Interval struct {
	Part   int // from 0
	Thread int // index of the sequence
	Class  Symbol
	Activity
}

// Length returns the length of a part in ns.
func (x *Intervals) Length() int64 { return 1 << x.shift }

// Cells returns the non-empty cells, sorted by part, thread and name; start is the start of
// part 0 in ns.
func (x *Intervals) Cells() (start int64, cells []Interval) {
	keys := slices.SortedFunc(maps.Keys(x.cells), func(k, l intervalKey) int {
		return cmp.Or(cmp.Compare(k.part, l.part), cmp.Compare(k.thread, l.thread), cmp.Compare(x.names[k.symbol], x.names[l.symbol]))
	})
	if len(keys) == 0 {
		return 0, nil
	}
	first := keys[0].part
	for _, k := range keys {
		cells = append(cells, Interval{int(k.part - first), int(k.thread), k.symbol, *x.cells[k]})
	}
	return first << x.shift, cells
}

// String returns one line per class and part: the start of the part relative to the first;
// the thread if there are several; calls, time and other activity; the class.
func (x *Intervals) String() string {
	_, cells := x.Cells()
	waits := slices.ContainsFunc(cells, func(c Interval) bool { return c.Waiting > 0 })
	allocates := slices.ContainsFunc(cells, func(c Interval) bool { return c.Allocations > 0 })
	b := []byte(RemarkMark + " intervals of " + time.Duration(x.Length()).String() + ": begin")
	for _, column := range []struct {
		name  string
		shown bool
	}{{"thread", x.Sequences > 1}, {"calls", true}, {"time", true}, {"waiting", waits}, {"allocations", allocates}, {"bytes", allocates}, {"class", true}} {
		if column.shown {
			b = append(append(b, ' '), column.name...)
		}
	}
	duration := func(ns int64) {
		b = append(append(b, ' '), time.Duration(ns).String()...)
	}
	number := func(n int64) { b = strconv.AppendInt(append(b, ' '), n, 10) }
	for _, c := range cells {
		b = append(append(b, '\n'), time.Duration(int64(c.Part)<<x.shift).String()...)
		if x.Sequences > 1 {
			b = append(append(b, ' '), x.thread(c.Thread)...)
		}
		number(c.Calls)
		duration(c.Time)
		if waits {
			duration(c.Waiting)
		}
		if allocates {
			number(c.Allocations)
			number(c.Bytes)
		}
		b = AppendName(append(b, ' '), x.names, c.Class)
	}
	return string(b) + x.Remark()
}

// thread returns the label of sequence i.
func (x *Intervals) thread(i int) string {
	if i < len(x.Labels) && x.Labels[i] != "" {
		return Quote(x.Labels[i])
	}
	return "S" + strconv.Itoa(i)
}

func (x *Intervals) MarshalJSON() ([]byte, error) {
	type cell struct {
		Part        int    `json:"part"`
		Thread      int    `json:"sequence"`
		Class       string `json:"class"`
		Calls       int64  `json:"calls"`
		Time        int64  `json:"time_ns"`
		Waiting     int64  `json:"waiting_ns,omitempty"`
		Allocations int64  `json:"allocations,omitempty"`
		Bytes       int64  `json:"bytes,omitempty"`
	}
	start, all := x.Cells()
	cells := make([]cell, len(all))
	for i, c := range all {
		cells[i] = cell{c.Part, c.Thread, x.names[c.Class], c.Calls, c.Time, c.Waiting, c.Allocations, c.Bytes}
	}
	return Marshal(struct {
		Encoding string `json:"encoding"`
		SourceJSON
		Start  int64  `json:"start_ns"`
		Length int64  `json:"length_ns"`
		Cells  []cell `json:"cells"`
	}{"intervals", x.JSON(), start, x.Length(), cells})
}

// Merge implements [Mergeable]; the threads stay separate and share the parts.
func (x *Intervals) Merge(others []Encoding) (Encoding, error) {
	a := AlphabetOf(x.names)
	m := &Intervals{Source: x.Source, n: x.n, shift: x.shift, cells: coarser(x.cells, 0)}
	for _, other := range others {
		o, ok := other.(*Intervals)
		if !ok || o.n != x.n {
			return nil, ErrUnlike
		}
		to := a.Translate(o.names)
		cells := o.cells
		if o.shift > m.shift {
			m.cells, m.shift = coarser(m.cells, o.shift-m.shift), o.shift
		} else {
			cells = coarser(cells, m.shift-o.shift)
		}
		for k, c := range cells {
			k.thread += int32(m.Sequences)
			k.symbol = to[k.symbol]
			cellOf(m.cells, k).add(c)
		}
		m.Source = m.Joined(o.Source)
	}
	for m.parts() > int64(m.n) {
		m.cells = coarser(m.cells, 1)
		m.shift++
	}
	m.names = a.Names()
	return m, nil
}

// parts returns the number of parts from the first to the last.
func (x *Intervals) parts() int64 {
	var first, last int64
	begun := false
	for k := range x.cells {
		if !begun || k.part < first {
			first = k.part
		}
		if !begun || k.part > last {
			last = k.part
		}
		begun = true
	}
	if !begun {
		return 0
	}
	return last - first + 1
}
