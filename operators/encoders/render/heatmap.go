package render

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Heatmap is a picture of rows over a common axis cut into cells; a larger value is darker.
type Heatmap struct {
	Title    string
	About    []string // lines below the title of the SVG
	Legend   []string // lines that explain its colours
	Rows     []HeatRow
	Cells    int    // of the axis
	From, To string // labels of both ends of the axis
	omitted  int    // rows not shown
}

type HeatRow struct {
	Name  string
	At    []float64 // by cell; may be shorter than the axis
	Part  []float64 // of At, the part drawn separately; nil: none
	Total string    // total of the row, as text
	Full  float64   // value of a full cell, if the row is drawn in proportion; 0: see heatmap.top
	Shown func(x float64) string
}

// Count formats a number of occurrences.
func Count(x float64) string { return fmt.Sprintf("%.0f", x) }

// depth returns how dark a cell of the row is, 0 to 1.
func (r *HeatRow) depth(x, most float64) float64 {
	if r.Full > 0 {
		return min(1, max(0, x/r.Full))
	}
	return depth(x, most)
}

// Sizes of the SVG of a heatmap, in pixels.
const (
	heatRowHeight  = 16.0
	heatWidth      = 1024.0
	mostHeatRows   = 400
	mostHeatName   = 48
	heatTextCells  = 72 // columns of the text form
	heatNameInText = 32
)

// shades are the characters of the text form, from zero to the maximum.
var shades = []rune(" ░▒▓█")

// top returns the largest cell of the rows that are not drawn in proportion.
func (h *Heatmap) top() (most float64) {
	for _, r := range h.Rows {
		if r.Full > 0 {
			continue
		}
		for _, x := range r.At {
			most = max(most, x)
		}
	}
	return most
}

// depth returns how dark a cell is, 0 to 1, by the logarithm of its value, so that any
// non-zero value is visible.
func depth(x, most float64) float64 {
	switch {
	case x <= 0:
		return 0
	case most <= 1:
		return x / most
	}
	return 0.15 + 0.85*math.Log1p(x)/math.Log1p(most)
}

// Text returns the picture as text, one line per row.
func (h *Heatmap) Text() string {
	const cells = heatTextCells
	if h.Cells == 0 || len(h.Rows) == 0 {
		return "nothing"
	}
	// Cells of the axis are added up to columns, or stretched over several columns.
	columns := make([][]float64, len(h.Rows))
	together := float64(max(1, h.Cells/cells)) // cells per column
	most, longest := 0.0, 0
	for i, r := range h.Rows {
		columns[i] = make([]float64, cells)
		for c, x := range r.At {
			columns[i][c*cells/h.Cells] += x
			for j := c*cells/h.Cells + 1; j < (c+1)*cells/h.Cells; j++ {
				columns[i][j] = x
			}
		}
		if r.Full == 0 {
			most = max(most, slices.Max(columns[i]))
		}
		longest = max(longest, len([]rune(Shortened(r.Name, heatNameInText))))
	}
	var b strings.Builder
	for i, r := range h.Rows {
		fmt.Fprintf(&b, "%-*s │", longest, Shortened(r.Name, heatNameInText))
		for _, x := range columns[i] {
			d := r.depth(x/together, most)
			if r.Full == 0 {
				d = depth(x, most)
			}
			b.WriteRune(shades[int(math.Ceil(d*float64(len(shades)-1)))])
		}
		fmt.Fprintf(&b, "│ %s\n", r.Total)
	}
	fmt.Fprintf(&b, "%*s  %s%*s", longest, "", h.From, max(1, cells-len([]rune(h.From))), h.To)
	if h.omitted > 0 {
		fmt.Fprintf(&b, "\nand %d more", h.omitted)
	}
	return b.String()
}

// Svg returns the picture as SVG.
func (h *Heatmap) Svg() string {
	rows, omitted := h.Rows, h.omitted
	if len(rows) > mostHeatRows {
		omitted += len(rows) - mostHeatRows
		rows = rows[:mostHeatRows]
	}
	p := picture{title: h.Title, about: h.About, legend: h.Legend}
	left, total := 0.0, 0.0
	for _, r := range rows {
		left = max(left, textWidth(Shortened(r.Name, mostHeatName)))
		total = max(total, textWidth(r.Total))
	}
	left += 8
	height := heatRowHeight * float64(len(rows))
	p.need(0, 0, left+heatWidth+8+total, height+lineHeight+4)
	most := h.top()
	// The axis has its own coordinates: a cell is one wide, a row one high.
	p.printf(`<svg x="%s" y="0" width="%s" height="%s" viewBox="0 0 %d %d" preserveAspectRatio="none" shape-rendering="crispEdges">`+"\n",
		pixels(left), pixels(heatWidth), pixels(height), max(1, h.Cells), max(1, len(rows)))
	for i := range rows {
		if i%2 == 0 {
			p.printf(`<rect class="ep-band" x="0" y="%d" width="%d" height="1" fill="#f2f5f8"/>`+"\n", i, max(1, h.Cells))
		}
	}
	for i := range rows {
		drawRow(&p.body, i, &rows[i], most)
	}
	p.printf("</svg>\n")
	for i, r := range rows {
		y := heatRowHeight*(float64(i)+0.5) + fontSize*0.35
		p.text(left-8, y, "end", "text", Shortened(r.Name, mostHeatName))
		p.text(left+heatWidth+8, y, "start", "text", r.Total)
	}
	y := height + lineHeight
	p.text(left, y, "start", "dim", h.From)
	p.text(left+heatWidth, y, "end", "dim", h.To)
	if omitted > 0 {
		p.text(left+heatWidth/2, y, "middle", "dim", fmt.Sprintf("and %d rows more", omitted))
	}
	return p.String()
}

// drawRow draws the cells of a row; adjacent cells of one shade are one rectangle. A part
// that is drawn separately is at the bottom.
func drawRow(b *strings.Builder, row int, r *HeatRow, most float64) {
	drawCells(b, r, r.At, most, fmt.Sprintf(`y="%d.08" height="0.84" fill="#1f6fb2" class="ep-bar"`, row))
	drawCells(b, r, r.Part, most, fmt.Sprintf(`y="%d.62" height="0.3" fill="#d9722e" class="ep-part"`, row))
}

func drawCells(b *strings.Builder, r *HeatRow, at []float64, most float64, how string) {
	const steps = 16
	step := func(x float64) int { return int(math.Ceil(r.depth(x, most) * steps)) }
	for i := 0; i < len(at); {
		s, from := step(at[i]), i
		sum := 0.0
		for i < len(at) && step(at[i]) == s {
			sum += at[i]
			i++
		}
		if s == 0 {
			continue
		}
		fmt.Fprintf(b, `<rect x="%d" width="%d" %s fill-opacity="%.2g"><title>%s: %s</title></rect>`+"\n",
			from, i-from, how, float64(s)/steps, xmlText(r.Name), xmlText(r.Shown(sum)))
	}
}
