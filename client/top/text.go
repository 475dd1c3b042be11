package top

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"endoscope/client/render"
)

// unknown is shown for a figure that is not known.
const unknown = "·"

// clean makes a name of the program safe for the screen, on one line.
func clean(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(render.Escape(s))
}

// rateText formats a number per second in at most 7 cells.
func rateText(n float64) string {
	switch {
	case n < 0:
		return unknown
	case n == 0:
		return "0"
	case n < 9.95:
		return fmt.Sprintf("%.1f", n)
	case n < 99_999.5:
		return fmt.Sprintf("%.0f", n)
	case n < 9.995e6:
		return fmt.Sprintf("%.0fk", n/1e3)
	}
	return fmt.Sprintf("%.1fM", n/1e6)
}

// sign says what a figure of calls is that does not count each of them.
func (f *Function) sign(text string) string {
	if text == unknown {
		return text
	}
	return [...]string{Sampled: "", AtLeast: "≥", Estimated: "~", Counted: ""}[f.How] + text
}

// estimate is sign for figures that are no counts.
func (f *Function) estimate(text string) string {
	if text == unknown || f.How != AtLeast && f.How != Estimated {
		return text
	}
	return "~" + text
}

// percentText formats a share of a CPU in at most 6 cells.
func percentText(share float64) string {
	switch p := 100 * share; {
	case share < 0:
		return unknown
	case p == 0:
		return "0%"
	case p < 0.05:
		return "<0.1%"
	case p < 99.95:
		return fmt.Sprintf("%.1f%%", p)
	default:
		return fmt.Sprintf("%.0f%%", p)
	}
}

func durationText(d time.Duration) string {
	if d <= 0 {
		return unknown
	}
	return render.HumanDuration(d.Nanoseconds())
}

var sparks = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the last width values, each a cell, relative to their greatest.
func sparkline(values []float64, width int) string {
	values = values[max(0, len(values)-width):]
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", width-len(values)))
	for _, v := range values {
		if most == 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(sparks[min(len(sparks)-1, int(v/most*float64(len(sparks))))])
	}
	return b.String()
}

// bar draws a share of width cells, in eighths of a cell.
func bar(share float64, width int) string {
	eighths := int(share*float64(width)*8 + 0.5)
	if share > 0 {
		eighths = max(eighths, 1)
	}
	full := min(eighths/8, width)
	text := strings.Repeat("█", full)
	if rest := eighths % 8; rest > 0 && full < width {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}

// cells returns how many cells of the screen a text takes. Most texts are plain, and it is
// asked for each cell of the table.
func cells(text string) int {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return lipgloss.Width(text)
		}
	}
	return len(text)
}

// fit cuts a text to a width, or fills it up with spaces.
func fit(text string, width int) string {
	if w := cells(text); w > width {
		runes := []rune(text)
		for len(runes) > 0 && cells(string(runes)) > width-1 {
			runes = runes[:len(runes)-1]
		}
		text = string(runes) + "…"
	}
	return text + strings.Repeat(" ", max(0, width-cells(text)))
}

// right puts a text at the right of a width.
func right(text string, width int) string {
	return strings.Repeat(" ", max(0, width-cells(text))) + text
}
