package render

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/guptarohit/asciigraph"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Plot draws the numbers of a result as a chart of text: lines for series of rows, or bars
// if each label has only one row.
const Plot Format = "plot"

func init() {
	define(Plot, implementation{new: func(w io.Writer, cols []wire.Column, o Options) (Renderer, error) { return newPlot(w, cols, o), nil }})
}

const (
	mostSeries  = 8
	mostPlotted = 10_000 // of a series; older ones are forgotten
)

// plotRenderer collects the numbers of a result. On a terminal the chart is drawn again
// with each emitted result.
type plotRenderer struct {
	w       io.Writer
	o       Options
	label   int   // column of the labels; -1: none
	numbers []int // columns
	cols    []wire.Column
	series  map[string]*series
	order   []string
	drawn   int // lines of the chart on the screen
}

type series struct {
	name   string
	points []float64
	isTime bool // durations in ns
}

func newPlot(w io.Writer, cols []wire.Column, o Options) *plotRenderer {
	p := &plotRenderer{w: w, o: o, label: -1, cols: cols, series: map[string]*series{}}
	for i, c := range cols {
		switch {
		case c.Type == types.Varchar && p.label < 0:
			p.label = i
		case c.Type.Numeric():
			p.numbers = append(p.numbers, i)
		}
	}
	if p.label >= 0 && len(p.numbers) > 1 {
		p.numbers = p.numbers[:1] // a line for each label
	}
	return p
}

func (p *plotRenderer) Rows(b *batch.Batch, preview bool) error {
	if preview {
		return nil
	}
	for i := range b.Len() {
		row := b.Row(i)
		for _, c := range p.numbers {
			name := string(appendEscaped(nil, p.cols[c].Name))
			if p.label >= 0 {
				name = string(appendEscaped(nil, b.Cols[p.label].Value(row).S))
			}
			v := b.Cols[c].Value(row)
			if v.IsNull {
				continue
			}
			p.add(name, v)
		}
	}
	return nil
}

func (p *plotRenderer) add(name string, v types.Value) {
	s := p.series[name]
	if s == nil {
		s = &series{name: name, isTime: v.Type == types.Duration}
		p.series[name] = s
		p.order = append(p.order, name)
	}
	n := v.Type.Float(v.I)
	if v.Type == types.Double {
		n = v.F
	}
	s.points = append(s.points, n)
	s.points = s.points[max(0, len(s.points)-mostPlotted):]
}

func (p *plotRenderer) Flush(preview bool) error {
	if preview || p.o.Size == nil || len(p.order) == 0 {
		return nil
	}
	return p.draw()
}

func (p *plotRenderer) Tick() error { return nil }

func (p *plotRenderer) Clear() error {
	if p.drawn == 0 {
		return nil
	}
	_, err := fmt.Fprintf(p.w, "\r\x1b[%dA\x1b[J", p.drawn)
	p.drawn = 0
	return err
}

func (p *plotRenderer) End() error {
	if len(p.order) == 0 {
		text := "no rows to draw\n"
		if len(p.numbers) == 0 {
			text = "there is no column of numbers to draw\n"
		}
		_, err := io.WriteString(p.w, text)
		return err
	}
	return p.draw()
}

// draw draws the chart over the one before.
func (p *plotRenderer) draw() error {
	if err := p.Clear(); err != nil {
		return err
	}
	width, height := 80, 24
	if p.o.Size != nil {
		width, height = p.o.Size()
	}
	all := make([]*series, len(p.order))
	long := 0
	for i, name := range p.order {
		all[i] = p.series[name]
		long = max(long, len(all[i].points))
	}
	last := func(s *series) float64 { return s.points[len(s.points)-1] }
	if p.label >= 0 {
		slices.SortStableFunc(all, func(a, b *series) int { return cmp.Compare(last(b), last(a)) })
	}
	var text string
	if long > 1 {
		text = lines(all, width, height)
	} else {
		text = bars(all, width, height)
	}
	b := []byte(text)
	if p.o.Size != nil {
		p.drawn = bytes.Count(b, newline)
	}
	_, err := p.w.Write(b)
	return err
}

// lines draws series of several points.
func lines(all []*series, width, height int) string {
	left := len(all) - mostSeries
	all = all[:min(len(all), mostSeries)]
	colors := []asciigraph.AnsiColor{asciigraph.Default, asciigraph.Blue, asciigraph.Red, asciigraph.Green, asciigraph.Yellow, asciigraph.Cyan, asciigraph.Magenta, asciigraph.White}
	var data [][]float64
	var names []string
	for _, s := range all {
		data = append(data, s.points)
		names = append(names, s.name)
	}
	options := []asciigraph.Option{
		asciigraph.Height(max(4, min(height-6, 15))), asciigraph.Width(max(20, width-14)),
		asciigraph.SeriesLegends(names...), asciigraph.SeriesColors(colors[:len(data)]...), asciigraph.LowerBound(0),
	}
	if all[0].isTime {
		options = append(options, asciigraph.YAxisValueFormatter(func(ns float64) string { return HumanDuration(int64(ns)) }))
	}
	text := asciigraph.PlotMany(data, options...) + "\n"
	if left > 0 {
		text += fmt.Sprintf("%d more are not drawn\n", left)
	}
	return text
}

// bars draws one bar for each label.
func bars(all []*series, width, height int) string {
	left := len(all) - max(mostSeries, height-4)
	all = all[:min(len(all), max(mostSeries, height-4))]
	most, name := 0.0, 0
	for _, s := range all {
		most, name = max(most, s.points[0]), max(name, min(width/3, len([]rune(s.name))))
	}
	var b strings.Builder
	for _, s := range all {
		label := []rune(s.name)
		if len(label) > name {
			label = append(label[:name-1], '…')
		}
		value := fmt.Sprintf("%g", s.points[0])
		if s.isTime {
			value = HumanDuration(int64(s.points[0]))
		}
		n := 0
		if most > 0 {
			n = int(max(0, s.points[0]) / most * float64(max(8, width-name-14)))
		}
		fmt.Fprintf(&b, "%-*s │%s %s\n", name, string(label), strings.Repeat("█", n), value)
	}
	if left > 0 {
		fmt.Fprintf(&b, "%d more are not drawn\n", left)
	}
	return b.String()
}
