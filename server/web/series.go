package web

import (
	"context"
	"math"
	"slices"
	"strings"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Limits of the points that a result keeps for charts.
const (
	mostPoints   = 1 << 20 // of all series of a result
	mostSeries   = 24      // of a column
	mostColumns  = 6
	mostPixels   = 8192
	mostNameText = 80
)

// points are the numbers of a result over time: a series for each number column and group.
// When there are too many, neighbours are merged; their minimum and maximum remain.
type points struct {
	epoch  int64
	time   int   // column of the time; -1: the time of arrival
	names  []int // columns whose texts are the name of a series
	values []int // number columns
	groups map[string]int
	list   []*series // by group and column
	labels []string  // of groups
	left   int       // groups without series
	total  int
	limit  int
}

// series are points in order of time; a point is one or several neighbours.
type series struct{ at []point }

type point struct {
	t      int64
	lo, hi float64
}

// notCharted are number columns that identify something.
var notCharted = []string{"pid", "tid", "ppid", "parent_pid", "address", "query_id"}

func newPoints(cols []wire.Column, epoch int64) *points {
	p := &points{epoch: epoch, time: -1, groups: map[string]int{}, limit: mostPoints}
	for i, c := range cols {
		switch {
		case c.Type == types.Timestamp && p.time < 0:
			p.time = i
		case c.Type == types.Varchar:
			p.names = append(p.names, i)
		case c.Type.Numeric() && len(p.values) < mostColumns && !slices.Contains(notCharted, c.Name):
			p.values = append(p.values, i)
		}
	}
	return p
}

// add adds the rows of a batch. emitted: they are totals, whose time is that of their
// arrival unless they have one.
func (p *points) add(b *batch.Batch, now int64, emitted bool) {
	if len(p.values) == 0 || p.time < 0 && !emitted {
		return
	}
	for i := range b.Len() {
		row := b.Row(i)
		t := now
		if p.time >= 0 {
			c := &b.Cols[p.time]
			if c.Nulls.Get(row) {
				continue
			}
			t = c.Int[row]
		}
		g := p.group(b, row)
		if g < 0 {
			continue
		}
		for k, v := range p.values {
			if x, ok := number(&b.Cols[v], row); ok {
				p.put(p.list[g*len(p.values)+k], t-p.epoch, x)
			}
		}
	}
	for p.total > p.limit && p.total > len(p.list) {
		p.merge()
	}
}

// group returns the number of a row's group; -1: there are too many.
func (p *points) group(b *batch.Batch, row int) int {
	var key strings.Builder
	for k, c := range p.names {
		if k > 0 {
			key.WriteString(" · ")
		}
		if !b.Cols[c].Nulls.Get(row) {
			key.WriteString(b.Cols[c].Values[b.Cols[c].Code[row]])
		}
	}
	name := key.String()
	if g, ok := p.groups[name]; ok {
		return g
	}
	g := len(p.labels)
	if g >= mostSeries {
		if len(p.groups) < mostWords {
			p.groups[name], p.left = -1, p.left+1
		}
		return -1
	}
	p.groups[name] = g
	if r := []rune(shown(name)); len(r) > mostNameText {
		name = string(r[:mostNameText]) + "…"
	}
	p.labels = append(p.labels, shown(name))
	for range p.values {
		p.list = append(p.list, &series{})
	}
	return g
}

func number(c *batch.Column, row int) (float64, bool) {
	if c.Nulls.Get(row) {
		return 0, false
	}
	if c.Type.Physical() == types.PhysFloat {
		return c.Float[row], !math.IsNaN(c.Float[row]) && !math.IsInf(c.Float[row], 0)
	}
	return c.Type.Float(c.Int[row]), true
}

// put adds a point. One that is earlier than the last is merged with that of its time.
func (p *points) put(s *series, t int64, x float64) {
	if n := len(s.at); n > 0 && t < s.at[n-1].t {
		i, _ := slices.BinarySearchFunc(s.at, t, func(at point, t int64) int {
			switch {
			case at.t < t:
				return -1
			case at.t > t:
				return 1
			}
			return 0
		})
		at := &s.at[i]
		at.lo, at.hi = min(at.lo, x), max(at.hi, x)
		return
	}
	s.at = append(s.at, point{t, x, x})
	p.total++
}

// merge halves the points: each two neighbours of a series become one.
func (p *points) merge() {
	p.total = 0
	for _, s := range p.list {
		half := s.at[:0]
		for i := 0; i < len(s.at); i += 2 {
			at := s.at[i]
			if i+1 < len(s.at) {
				at.lo, at.hi = min(at.lo, s.at[i+1].lo), max(at.hi, s.at[i+1].hi)
			}
			half = append(half, at)
		}
		s.at = half
		p.total += len(half)
	}
}

// chart is the answer to a question for series: for each, its points as pixels.
type chart struct {
	First   int64   `json:"first"` // times of all points
	Last    int64   `json:"last"`
	Points  int     `json:"points"`
	Columns []int   `json:"columns"` // that have series
	Left    int     `json:"left,omitempty"`
	Series  []drawn `json:"series"`
}

// drawn is a series as pixels: those that have points, with the minimum and maximum.
type drawn struct {
	Name  string    `json:"name"`
	Pixel []int     `json:"x"`
	Low   []float64 `json:"lo"`
	High  []float64 `json:"hi"`
}

// draw returns the series of a column between two times, for a width in pixels. A pixel on
// each side is included, so that lines continue to the border.
func (p *points) draw(column int, from, to int64, width int) (out chart) {
	out = chart{Columns: p.values, Left: p.left, Points: p.total, Series: []drawn{}}
	k := slices.Index(p.values, column)
	if k < 0 {
		return out
	}
	out.First, out.Last = math.MaxInt64, math.MinInt64
	for g := range p.labels {
		if s := p.list[g*len(p.values)+k]; len(s.at) > 0 {
			out.First, out.Last = min(out.First, s.at[0].t), max(out.Last, s.at[len(s.at)-1].t)
		}
	}
	if out.First > out.Last {
		out.First, out.Last = 0, 0
	}
	if to <= from {
		from, to = out.First, max(out.Last, out.First+1)
	}
	for g, name := range p.labels {
		d := drawn{Name: name, Pixel: []int{}, Low: []float64{}, High: []float64{}}
		s := p.list[g*len(p.values)+k]
		i, _ := slices.BinarySearchFunc(s.at, from, func(at point, t int64) int { return int(min(max(at.t-t, -1), 1)) })
		for i = max(i-1, 0); i < len(s.at); i++ {
			at := s.at[i]
			x := int(float64(at.t-from) / float64(to-from) * float64(width))
			x = min(max(x, -1), width)
			if n := len(d.Pixel); n > 0 && d.Pixel[n-1] == x {
				d.Low[n-1], d.High[n-1] = min(d.Low[n-1], at.lo), max(d.High[n-1], at.hi)
			} else {
				d.Pixel, d.Low, d.High = append(d.Pixel, x), append(d.Low, at.lo), append(d.High, at.hi)
			}
			if at.t > to {
				break
			}
		}
		out.Series = append(out.Series, d)
	}
	return out
}

// series answers with the points of a result between two times.
func (p *page) series(_ context.Context, in ask) (any, error) {
	r, err := p.result(in.Query)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.points.draw(in.Column, in.From, in.To, min(max(in.Width, 1), mostPixels)), nil
}
