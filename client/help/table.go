package help

import (
	"slices"
	"strings"
)

// narrowest is the minimum width of a column when a table is squeezed.
const narrowest = 8

// table writes a Markdown table with aligned columns. If it is wider than the screen,
// cells of its widest columns are wrapped.
func (p *writer) table(lines []string) {
	var rows [][][]string // rows, cells, words
	for i, l := range lines {
		if i == 1 { // |---|---|
			continue
		}
		var row [][]string
		for _, c := range splitCells(l) {
			row = append(row, breakWords(p.style.words(c), p.style.width()/2))
		}
		rows = append(rows, row)
	}
	n := len(rows[0])
	natural, least := make([]int, n), make([]int, n)
	for _, row := range rows {
		for c := range min(n, len(row)) {
			natural[c] = max(natural[c], cells(strings.Join(row[c], " ")))
			for _, w := range row[c] {
				least[c] = max(least[c], cells(w))
			}
		}
	}
	widths := squeeze(natural, least, p.style.width()-3*(n-1)-1)
	for i, row := range rows {
		p.row(row, widths, i == 0)
		if i == 0 {
			p.rule(widths)
		}
	}
}

// row writes one row, as many lines as its tallest cell.
func (p *writer) row(row [][]string, widths []int, head bool) {
	var texts [][]string
	height := 1
	for c := range widths {
		var lines []string
		if c < len(row) {
			lines = wrap(row[c], widths[c])
		}
		texts = append(texts, lines)
		height = max(height, len(lines))
	}
	for i := range height {
		line := ""
		for c, w := range widths {
			text := ""
			if i < len(texts[c]) {
				text = texts[c][i]
			}
			if c > 0 {
				line += " |"
			}
			pad := strings.Repeat(" ", max(0, w-cells(text)))
			if head {
				text = p.style.bold(text)
			}
			line += " " + text + pad
		}
		p.b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

func (p *writer) rule(widths []int) {
	for c, w := range widths {
		if c > 0 {
			p.b.WriteByte('+')
		}
		p.b.WriteString(strings.Repeat("-", w+1))
		if c < len(widths)-1 {
			p.b.WriteByte('-')
		}
	}
	p.b.WriteByte('\n')
}

// squeeze returns column widths whose sum is at most total if possible: it narrows
// the widest columns, and a column below its longest word only if necessary.
func squeeze(natural, least []int, total int) []int {
	widths := slices.Clone(natural)
	sum := 0
	for _, w := range widths {
		sum += w
	}
	for _, floor := range [][]int{least, nil} {
		for sum > total {
			widest := -1
			for c, w := range widths {
				low := narrowest
				if floor != nil {
					low = max(low, floor[c])
				}
				if w > low && (widest < 0 || w > widths[widest]) {
					widest = c
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
			sum--
		}
	}
	return widths
}

// splitCells returns the cells of a table line. \| is a bar within a cell.
func splitCells(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, bar)
	line = strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	cells := strings.Split(line, "|")
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(c), bar, "|")
	}
	return cells
}

// breakWords breaks words wider than half the screen after commas and bars.
func breakWords(words []string, width int) (out []string) {
	for _, w := range words {
		for cells(w) > width {
			cut := strings.LastIndexAny(w[:min(width, len(w))], ",|")
			if cut <= 0 || cut+1 == len(w) {
				break
			}
			out = append(out, w[:cut+1])
			w = w[cut+1:]
		}
		out = append(out, w)
	}
	return out
}
