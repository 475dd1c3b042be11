package render

import "fmt"

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
