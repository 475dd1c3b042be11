package top

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
)

// detailLines returns what is known of the picked function.
func (m *model) detailLines(room int) []string {
	d := m.detail
	lines := []string{styleHead.Render(fit(" "+clean(d.of.name)+"  "+clean(d.of.module), m.width))}
	for i := range m.snapshot.Functions {
		if f := &m.snapshot.Functions[i]; f.key() == d.of {
			lines = append(lines, fmt.Sprintf(" %s calls/s   total %s   self %s   avg %s   p99 %s   cost %s",
				f.sign(rateText(f.Calls)), percentText(f.Total), percentText(f.Self), f.estimate(durationText(f.Avg)), f.estimate(durationText(f.P99)), f.sign(percentText(f.Cost))))
			if f.Why != "" {
				lines = append(lines, styleDim.Render(" not counted: "+clean(f.Why)))
			}
		}
	}
	half := max(1, (room-len(lines)-3)/2)
	left, right := m.callerLines(half), m.latencyLines(half)
	width := m.width / 2
	for i := range max(len(left), len(right)) {
		line := func(of []string) string {
			if i < len(of) {
				return of[i]
			}
			return ""
		}
		cut := lipgloss.NewStyle().MaxWidth(width - 1).Render(line(left))
		lines = append(lines, cut+strings.Repeat(" ", width-cells(cut))+line(right))
	}
	return append(lines, m.argumentLines(room-len(lines))...)
}

// callerLines returns who calls the function: as calls say, or else samples.
func (m *model) callerLines(room int) []string {
	d := m.detail
	if f := d.found; f != nil && f.calls > 0 {
		lines := []string{"", styleTitle.Render(fmt.Sprintf(" callers of %s", plural(f.calls, "call")))}
		for _, c := range f.callers[:min(len(f.callers), room)] {
			lines = append(lines, shareLine(float64(c.n)/float64(f.calls), c.text))
		}
		return lines
	}
	lines := []string{"", styleTitle.Render(" callers, by samples")}
	for _, p := range d.paths[:min(len(d.paths), room)] {
		text := p.callers
		if text == "" {
			text = "(outermost)"
		}
		lines = append(lines, shareLine(p.share, text))
	}
	return lines
}

func shareLine(share float64, text string) string {
	return fmt.Sprintf(" %4.0f%% %s", 100*share, clean(text))
}

// latencyLines returns the histogram of durations.
func (m *model) latencyLines(room int) []string {
	f := m.detail.found
	lines := []string{"", styleTitle.Render("latency")}
	switch {
	case f == nil:
		return append(lines, styleDim.Render(fmt.Sprintf("reading up to %d calls ...", callsRead)))
	case f.err != nil:
		return append(lines, styleDim.Render(clean(firstLine(f.err.Error()))))
	case f.calls == 0:
		return append(lines, styleDim.Render("no call has ended within 3 s"))
	}
	all := histogram(f.durations)
	if len(all) > room { // the rare end
		all = all[:room]
	}
	most := 0
	for _, b := range all {
		most = max(most, b.n)
	}
	width := max(4, m.width/2-18)
	for _, b := range all {
		lines = append(lines, fmt.Sprintf("< %7s %s %d", durationText(b.below), styleBar.Render(bar(float64(b.n)/float64(most), width)), b.n))
	}
	return lines
}

// argumentLines returns the most frequent values of the arguments.
func (m *model) argumentLines(room int) []string {
	f := m.detail.found
	if f == nil || f.calls == 0 || room < 3 {
		return nil
	}
	lines := []string{"", styleTitle.Render(" arguments (registers), with their shares")}
	for a, values := range f.arguments {
		var b strings.Builder
		fmt.Fprintf(&b, " arg%d", a)
		for _, v := range values[:min(len(values), 4)] {
			fmt.Fprintf(&b, "  %s %s", clean(v.text), styleDim.Render(fmt.Sprintf("%.0f%%", 100*float64(v.n)/float64(f.calls))))
		}
		if more := len(values) - 4; more > 0 {
			b.WriteString(styleDim.Render(fmt.Sprintf("  %d more", more)))
		}
		lines = append(lines, b.String())
	}
	return lines
}
