package encoders

import (
	"endoscope/operators/encoders/render"
	"fmt"
)

// InvocationEncoder counts the occurrences of each symbol per time slot, for the picture of
// a sequence over time (Hwang, figure 7). Times are when symbols occurred; without times
// their positions are used.
//
// There are at most InvocationSlots slots. Their width is a power of two, which doubles
// when they are full, and they begin at multiples of it, so that the slots of several
// sequences add up exactly.
type InvocationEncoder struct {
	Intake
	slots
	untimed int64 // symbols without a time so far
}

// InvocationSlots is the largest number of time slots.
const InvocationSlots = 1024

// FirstWidth is the binary logarithm of the initial slot width in ns: about 1 µs.
const FirstWidth = 10

// slots are counts of symbols over time.
type slots struct {
	shift uint      // a slot is 2^shift wide
	first int64     // the number of slot 0: time>>shift
	count int       // slots in use
	rows  [][]int64 // by symbol; shorter than count where the rest is 0
	held  int64     // bytes of rows
}

// NewInvocationEncoder returns an encoder for a sequence over a.
func NewInvocationEncoder(a *Alphabet, l Limits) *InvocationEncoder {
	return &InvocationEncoder{Intake: Intake{Alphabet: a, Limits: l}}
}

// Append implements [Encoder].
func (e *InvocationEncoder) Append(symbols []Symbol, times []int64) {
	e.Consume(symbols, times, e.encode, e.Bytes)
}

func (e *InvocationEncoder) encode(symbols []Symbol, times []int64) {
	for i, s := range symbols {
		t := e.untimed
		if times != nil {
			t = times[i]
		} else {
			e.untimed++
		}
		if e.count == 0 && times != nil {
			e.shift = FirstWidth
		}
		e.add(s, t, 1)
	}
}

// add counts n occurrences of s at t.
func (c *slots) add(s Symbol, t, n int64) {
	if c.count == 0 {
		c.first, c.count = t>>c.shift, 1
	}
	for {
		at := t>>c.shift - c.first
		if at < 0 { // before slot 0: prepend slots
			if c.count+int(min(-at, InvocationSlots)) > InvocationSlots {
				c.widen()
				continue
			}
			c.shiftRight(int(-at))
			at = 0
		}
		if at >= InvocationSlots {
			c.widen()
			continue
		}
		c.count = max(c.count, int(at)+1)
		c.row(s, int(at)+1)[at] += n
		return
	}
}

// row returns the row of s with at least n slots.
func (c *slots) row(s Symbol, n int) []int64 {
	for int(s) >= len(c.rows) {
		c.rows = append(c.rows, nil)
		c.held += 24
	}
	if have := len(c.rows[s]); have < n {
		c.rows[s] = append(c.rows[s], make([]int64, n-have)...)
		c.held += 8 * int64(n-have)
	}
	return c.rows[s]
}

// widen merges slots in pairs.
func (c *slots) widen() {
	odd := c.first & 1 // slot 0 is the second of its pair
	for s, row := range c.rows {
		if len(row) == 0 {
			continue
		}
		n := 0
		for i, x := range row {
			at := (i + int(odd)) / 2
			if at < i {
				row[i] = 0
				row[at] += x
			}
			n = at + 1
		}
		c.held -= 8 * int64(len(row)-n)
		c.rows[s] = row[:n]
	}
	c.count = (c.count + int(odd) + 1) / 2
	c.first >>= 1
	c.shift++
}

// shiftRight inserts n empty slots in front.
func (c *slots) shiftRight(n int) {
	for s, row := range c.rows {
		if len(row) > 0 {
			c.rows[s] = append(make([]int64, n), row...)
			c.held += 8 * int64(n)
		}
	}
	c.first -= int64(n)
	c.count += n
}

// clone returns a deep copy of c.
func (c *slots) clone() slots {
	d := *c
	d.rows = make([][]int64, len(c.rows))
	for s, row := range c.rows {
		if len(row) > 0 {
			d.rows[s] = append([]int64(nil), row...)
		}
	}
	return d
}

func (e *InvocationEncoder) Bytes() int64 { return e.held }

// Encode implements [Encoder]. It returns an [*InvocationGraph].
func (e *InvocationEncoder) Encode() Encoding {
	return &InvocationGraph{Source: e.Source(), slots: e.clone(), timed: e.untimed == 0, names: e.Alphabet.Names()}
}

// InvocationGraph holds when the symbols of one or more sequences occurred.
type InvocationGraph struct {
	Source
	slots
	timed bool
	names []string
}

// Slots returns the number of slots, Width the length of each (in ns; without times, in
// symbols), and Start the beginning of the first.
func (g *InvocationGraph) Slots() int   { return g.count }
func (g *InvocationGraph) Width() int64 { return 1 << g.shift }
func (g *InvocationGraph) Start() int64 { return g.first << g.shift }

// Count returns how often a symbol occurred in a slot.
func (g *InvocationGraph) Count(s Symbol, slot int) int64 {
	if int(s) >= len(g.rows) || slot >= len(g.rows[s]) {
		return 0
	}
	return g.rows[s][slot]
}

func (g *InvocationGraph) Merge(others []Encoding) (Encoding, error) {
	a := NewAlphabet()
	m := &InvocationGraph{timed: g.timed}
	m.shift = g.shift
	for _, e := range append([]Encoding{g}, others...) {
		o, ok := e.(*InvocationGraph)
		if !ok || o.timed != g.timed {
			return nil, ErrUnlike
		}
		m.Source = m.Joined(o.Source)
		for m.count > 0 && m.shift < o.shift {
			m.widen()
		}
		if m.count == 0 {
			m.shift = max(m.shift, o.shift)
		}
		symbols := a.Translate(o.names)
		for s, row := range o.rows {
			for at, n := range row {
				if n > 0 {
					m.add(symbols[s], (o.first+int64(at))<<o.shift, n)
				}
			}
		}
	}
	m.names = a.Names()
	return m, nil
}

// heatmap draws slots from to to-1, with symbols in the order of their first occurrence in
// the alphabet.
func (g *InvocationGraph) heatmap(from, to int) *render.Heatmap {
	h := &render.Heatmap{Title: "invocation graph", About: g.About(), Legend: []string{"stronger: more often, by the logarithm; on the right: how often in all"}, Cells: to - from}
	begin, end := int64(from)<<g.shift, int64(to)<<g.shift
	h.From, h.To = fmt.Sprint(begin), fmt.Sprint(end)
	if g.timed {
		h.From, h.To = shortTime(float64(begin)), shortTime(float64(end))
	}
	for s, row := range g.rows {
		total := int64(0)
		var at []float64
		for i := from; i < min(to, len(row)); i++ {
			total += row[i]
			at = append(at, float64(row[i]))
		}
		if total > 0 {
			h.Rows = append(h.Rows, render.HeatRow{Name: string(AppendName(nil, g.names, Symbol(s))), At: at, Total: fmt.Sprint(total), Shown: render.Count})
		}
	}
	return h
}

// String returns the picture as text.
func (g *InvocationGraph) String() string { return g.heatmap(0, g.count).Text() + g.Remark() }

func (g *InvocationGraph) SVG() string { return g.heatmap(0, g.count).Svg() }

// Zoom returns the picture of slots from to to-1 as text and as SVG.
func (g *InvocationGraph) Zoom(from, to int) (text, svg string) {
	from = max(0, min(from, g.count))
	to = max(from, min(to, g.count))
	h := g.heatmap(from, to)
	return h.Text(), h.Svg()
}

// MarshalJSON implements [Encoding]. A row holds only its non-empty slots, as pairs of slot
// and count.
func (g *InvocationGraph) MarshalJSON() ([]byte, error) {
	type row struct {
		Symbol string     `json:"symbol"`
		Counts [][2]int64 `json:"counts"`
	}
	rows := []row{}
	for s, counts := range g.rows {
		r := row{Symbol: g.names[s]}
		for i, n := range counts {
			if n > 0 {
				r.Counts = append(r.Counts, [2]int64{int64(i), n})
			}
		}
		if r.Counts != nil {
			rows = append(rows, r)
		}
	}
	return Marshal(struct {
		Encoding string `json:"encoding"`
		SourceJSON
		Timed bool  `json:"timed"`
		Start int64 `json:"start"`
		Width int64 `json:"width"`
		Slots int   `json:"slots"`
		Rows  []row `json:"rows"`
	}{"invocation_graph", g.JSON(), g.timed, g.Start(), g.Width(), g.count, rows})
}
