package render

import (
	"bytes"
	"fmt"
)

// repaint draws the new preview over the one on the screen. Its lines are cut to the
// terminal's width and height, because the cursor can only return to lines that are
// still on the screen and whose number is known.
func (t *tableRenderer) repaint() error {
	if t.o.Size == nil || t.preview.rows() == 0 {
		t.preview.reset()
		return nil
	}
	columns, lines := t.o.Size()
	l := layout{heads: t.heads}
	var all []byte
	if t.o.Expanded || t.tooWide(&t.preview) {
		for row := range t.preview.rows() {
			all = l.appendExpanded(all, &t.preview, row, row+1)
		}
	} else {
		l.fit(&t.preview, false)
		all = l.appendHeader(all)
		for row := range t.preview.rows() {
			all = l.appendRow(all, &t.preview, row)
		}
	}
	rows := t.preview.rows()
	t.preview.reset()

	t.erase()
	total := bytes.Count(all, newline)
	room := max(lines-2, 1)
	for n := 0; n < total; n++ {
		if n == room-1 && total > room {
			t.buf = fmt.Appendf(t.buf, "... %d rows in all\n", rows)
			t.drawn++
			break
		}
		line, rest, _ := bytes.Cut(all, newline)
		t.buf = append(t.buf, clip(line, columns-1)...)
		t.buf = append(t.buf, '\n')
		t.drawn++
		all = rest
	}
	return t.write()
}

// erase removes the preview from the screen: go to its first line and clear to the
// end. The cursor may not be in column 0 (a terminal echoes Ctrl-C as ^C).
func (t *tableRenderer) erase() {
	if t.drawn == 0 {
		return
	}
	t.buf = fmt.Appendf(t.buf, "\r\x1b[%dA\x1b[J", t.drawn)
	t.drawn = 0
}
