package render

import (
	"fmt"
	"io"

	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// tableRenderer writes aligned columns, a table for each emitted result:
//
//	 function_name | count |    avg
//	---------------+-------+--------
//	 fib           |   177 | 1.23ms
//
// The first rows (until firstRows, the first Tick or Flush) are held back to
// set the widths; later ones are printed as they come. When a value outgrows
// its column, the column is widened and the header printed again; on a terminal
// the header comes again with each screen, too.
//
// A preview is drawn below the printed rows and erased before anything else is
// printed.
type tableRenderer struct {
	w     io.Writer
	o     Options
	heads []heading

	held    grid // rows not yet printed
	layout  layout
	printed int  // lines since the header; < 0: no header yet
	open    bool // a table has been started and not ended
	some    bool // a table has been printed
	number  int  // expanded: rows so far in this table

	preview grid // rows of the preview that is being received
	last    grid // rows of the result drawn in place
	drawn   int  // lines of the preview on the screen

	buf []byte
}

// firstRows is the number of rows from which a table's widths are determined.
const firstRows = 100

func init() {
	define(Table, implementation{new: func(w io.Writer, cols []wire.Column, o Options) (Renderer, error) { return newTable(w, cols, o), nil }})
}

func newTable(w io.Writer, cols []wire.Column, o Options) *tableRenderer {
	visible := shownColumns(cols)
	t := &tableRenderer{w: w, o: o, heads: headings(columnsOf(visible, cols)), printed: -1}
	for _, g := range []*grid{&t.held, &t.preview, &t.last} {
		g.shown, g.ncols = visible, len(visible)
	}
	t.layout = layout{heads: t.heads, color: o.Color}
	return t
}

func (t *tableRenderer) Rows(b *batch.Batch, preview bool) error {
	g := &t.held
	if preview {
		if t.o.Size == nil {
			return nil
		}
		g = &t.preview
	}
	for i, n := 0, b.Len(); i < n; i++ {
		g.add(b, b.Row(i))
	}
	if preview || t.inPlace() || t.printed < 0 && t.held.rows() < firstRows {
		return nil
	}
	return t.print(true)
}

// inPlace reports whether results are drawn over each other, as previews are.
func (t *tableRenderer) inPlace() bool { return t.o.InPlace && t.o.Size != nil }

func (t *tableRenderer) Flush(preview bool) error {
	if preview {
		return t.repaint()
	}
	if t.inPlace() {
		t.held, t.preview = t.preview, t.held
		t.last.reset()
		t.last.text, t.last.cells = append(t.last.text, t.preview.text...), append(t.last.cells, t.preview.cells...)
		return t.repaint()
	}
	if err := t.print(false); err != nil {
		return err
	}
	t.open, t.printed, t.number = false, -1, 0
	t.layout.widths = nil
	return nil
}

func (t *tableRenderer) Tick() error {
	if t.inPlace() {
		return nil // the result is not complete yet
	}
	return t.print(true)
}

func (t *tableRenderer) Clear() error {
	t.erase()
	return t.write()
}

func (t *tableRenderer) End() error {
	if t.held.rows() == 0 && t.last.rows() > 0 { // drawn in place: the last result stays, in full
		t.held, t.last = t.last, t.held
	}
	if err := t.print(false); err != nil {
		return err
	}
	t.erase()
	if !t.some && !t.o.Expanded {
		t.layout.fit(&t.held, false)
		t.buf = t.layout.appendHeader(t.buf)
	}
	return t.write()
}

// print writes the held rows. more: further rows may follow in this table.
func (t *tableRenderer) print(more bool) error {
	n := t.held.rows()
	if n == 0 {
		return nil
	}
	t.erase()
	if !t.open && t.some {
		t.buf = append(t.buf, '\n')
	}
	if t.printed < 0 && t.tooWide(&t.held) {
		t.o.Expanded = true
	}
	t.open, t.some = true, true
	if t.o.Expanded {
		for row := range n {
			t.number++
			t.buf = t.layout.appendExpanded(t.buf, &t.held, row, t.number)
		}
		t.held.reset()
		return t.write()
	}
	if t.layout.fit(&t.held, more) {
		t.printed = -1
	}
	screen := 0
	if t.o.Size != nil {
		_, screen = t.o.Size()
	}
	for row := range n {
		if t.printed < 0 || screen > 10 && t.printed >= screen-3 {
			t.buf = t.layout.appendHeader(t.buf)
			t.printed = 0
		}
		t.buf = t.layout.appendRow(t.buf, &t.held, row)
		t.printed++
	}
	t.held.reset()
	return t.write()
}

// wrapped is how much of a text in the last column must fit on the first line of a row: the
// rest may go on in the next.
const wrapped = 24

// tooWide reports whether rows are wider than the terminal, and should not be.
func (t *tableRenderer) tooWide(g *grid) bool {
	if !t.o.Auto || t.o.Size == nil || t.o.Expanded || g.ncols < 2 {
		return false
	}
	l := layout{heads: t.heads, color: t.o.Color}
	l.fit(g, false)
	total := -1
	for i, w := range l.widths {
		if i == len(l.widths)-1 && !l.heads[i].right {
			w = min(w, wrapped)
		}
		total += w + 3
	}
	columns, _ := t.o.Size()
	return total > columns
}

func (t *tableRenderer) write() error {
	if len(t.buf) == 0 {
		return nil
	}
	_, err := t.w.Write(t.buf)
	t.buf = t.buf[:0]
	return err
}

// appendExpanded writes a row with one line per column, for rows too wide for the
// screen:
//
//	-[ row 1 ]----+------
//	function_name | fib
//	duration      | 1.23ms
func (l *layout) appendExpanded(dst []byte, g *grid, row, number int) []byte {
	name, value := 0, 0
	cells := g.cells[row*g.ncols : (row+1)*g.ncols]
	for i, h := range l.heads {
		name = max(name, h.width)
		value = max(value, min(cells[i].width, maxPad))
	}
	from := len(dst)
	dst = fmt.Appendf(dst, "-[ row %d ]", number)
	dst = appendRepeat(dst, '-', name+1-(len(dst)-from))
	dst = append(dst, '+')
	dst = appendRepeat(dst, '-', value+1)
	dst = append(dst, '\n')
	for i, c := range cells {
		for n := range c.lines {
			used := 0
			if n == 0 {
				dst = append(dst, l.heads[i].name...)
				used = l.heads[i].width
			}
			dst = appendRepeat(dst, ' ', name-used)
			dst = append(dst, " |"...)
			switch text := g.line(c, n); {
			case c.null && l.color:
				dst = append(dst, " "+dim...)
				dst = append(dst, nullText...)
				dst = append(dst, plain...)
			case len(text) > 0:
				dst = append(append(dst, ' '), text...)
			}
			dst = append(dst, '\n')
		}
	}
	return dst
}
