package render

import (
	"bytes"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// grid is rows as text, before the widths of their columns are known. All texts are
// in one slice, which is reused.
type grid struct {
	clock clock
	shown []shown
	ncols int
	text  []byte
	cells []cell // row by row
}

// cell is one value's text in the grid. Most have one line; histograms and
// encodings have several.
type cell struct {
	start, stop int
	width       int // of the longest line
	lines       int
	null        bool
}

func (g *grid) rows() int { return len(g.cells) / max(g.ncols, 1) }

func (g *grid) reset() { g.text, g.cells = g.text[:0], g.cells[:0] }

func (g *grid) add(b *batch.Batch, row int) {
	for _, c := range g.shown {
		v := b.Cols[c.at].Value(row)
		start := len(g.text)
		if c.low >= 0 && c.high >= 0 {
			g.text = g.clock.appendEstimate(g.text, v, b.Cols[c.low].Value(row), b.Cols[c.high].Value(row))
		} else {
			g.text = g.clock.appendHuman(g.text, v)
		}
		w, lines := 0, 0
		for rest := g.text[start:]; ; {
			line, more, found := bytes.Cut(rest, newline)
			w, lines = max(w, width(line)), lines+1
			if !found {
				break
			}
			rest = more
		}
		g.cells = append(g.cells, cell{start, len(g.text), w, lines, v.IsNull})
	}
}

var newline = []byte{'\n'}

// line returns the n-th line of a cell; empty after the last.
func (g *grid) line(c cell, n int) []byte {
	rest := g.text[c.start:c.stop]
	for ; n > 0; n-- {
		_, more, found := bytes.Cut(rest, newline)
		if !found {
			return nil
		}
		rest = more
	}
	line, _, _ := bytes.Cut(rest, newline)
	return line
}

// heading is what a table knows of a column before it has rows.
type heading struct {
	name  []byte // escaped
	width int
	spare int  // usual width of values of the type
	right bool // right-aligned numbers
}

// spare is the initial width of columns by type while rows are still arriving; few
// later values are wider.
var spare = map[types.Type]int{
	types.Bigint: 7, types.Ubigint: 7, types.Double: 9, types.Duration: 7, types.Boolean: 5, types.Varchar: 16,
}

func headings(cols []wire.Column) []heading {
	hs := make([]heading, len(cols))
	for i, c := range cols {
		name := appendEscaped(nil, c.Name)
		hs[i] = heading{name, width(name), spare[c.Type], c.Type.Numeric()}
	}
	return hs
}

// maxPad is the greatest width to which a column is padded. A longer value (a C++
// name) is printed in full and shifts the rest of its row to the right.
const maxPad = 60

// layout is the column widths of a table.
type layout struct {
	heads  []heading
	widths []int
	color  bool
}

// fit widens the columns to the needs of the grid and reports whether any changed. If
// more rows are to come, columns start at the usual width of their type and grow by
// more than needed, so that a table is not laid out again for each slightly longer
// value.
func (l *layout) fit(g *grid, more bool) bool {
	grown, slack := false, 0
	if l.widths == nil {
		l.widths = make([]int, len(l.heads))
		for i, h := range l.heads {
			l.widths[i] = h.width
			if more {
				l.widths[i] = max(h.width, h.spare)
			}
		}
	} else if more {
		slack = 4
	}
	for i, c := range g.cells {
		w := min(c.width, maxPad)
		if c.lines > 1 { // a drawing needs its full width
			w = c.width
		}
		if c.null && l.color {
			w = len(nullText)
		}
		if col := i % g.ncols; w > l.widths[col] {
			l.widths[col] = w + slack
			grown = true
		}
	}
	return grown
}

const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	plain = "\x1b[0m"
)

func (l *layout) appendHeader(dst []byte) []byte {
	if l.color {
		dst = append(dst, bold...)
	}
	for i, h := range l.heads {
		if i > 0 {
			dst = append(dst, " |"...)
		}
		dst = append(dst, ' ')
		dst = l.appendPadded(dst, h.name, h.width, i)
	}
	if l.color {
		dst = append(dst, plain...)
	}
	dst = append(dst, '\n')
	for i := range l.heads {
		if i > 0 {
			dst = append(dst, '+')
		}
		dst = appendRepeat(dst, '-', l.widths[i]+2)
	}
	return append(dst, '\n')
}

func (l *layout) appendRow(dst []byte, g *grid, row int) []byte {
	cells := g.cells[row*g.ncols : (row+1)*g.ncols]
	lines := 1
	for _, c := range cells {
		lines = max(lines, c.lines)
	}
	for n := range lines {
		for i, c := range cells {
			if i > 0 {
				dst = append(dst, " |"...)
			}
			dst = append(dst, ' ')
			if c.null && l.color && n == 0 {
				dst = append(dst, dim...)
				dst = l.appendPadded(dst, nullText, len(nullText), i)
				dst = append(dst, plain...)
				continue
			}
			text, w := g.line(c, n), c.width
			if lines > 1 {
				w = width(text)
			}
			dst = l.appendPadded(dst, text, w, i)
		}
		dst = append(bytes.TrimRight(dst, " "), '\n')
	}
	return dst
}

// nullText is shown for NULL where colour distinguishes it from the string.
var nullText = []byte("NULL")

// appendPadded writes text of w cells into column i. The last column is not padded.
func (l *layout) appendPadded(dst, text []byte, w, i int) []byte {
	pad := l.widths[i] - w
	if l.heads[i].right {
		return append(appendRepeat(dst, ' ', pad), text...)
	}
	dst = append(dst, text...)
	if i == len(l.heads)-1 {
		return dst
	}
	return appendRepeat(dst, ' ', pad)
}
