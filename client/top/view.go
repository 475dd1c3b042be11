package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"endoscope/client/runner"
)

// The colours are those of the terminal's palette, so that they fit its background.
var (
	styleTitle  = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Cyan)
	styleDim    = lipgloss.NewStyle().Faint(true)
	styleHead   = lipgloss.NewStyle().Bold(true).Reverse(true)
	styleSorted = lipgloss.NewStyle().Bold(true).Reverse(true).Foreground(lipgloss.Cyan)
	stylePicked = lipgloss.NewStyle().Bold(true).Background(lipgloss.Blue).Foreground(lipgloss.BrightWhite)
	styleTrend  = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	styleBar    = lipgloss.NewStyle().Foreground(lipgloss.Green)
	styleWarn   = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red)
	styleGood   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	styleKey    = lipgloss.NewStyle().Bold(true)
)

// marks show how the figures of a function come about.
var marks = [...]string{Sampled: "○", AtLeast: "◐", Estimated: "◐", Counted: "●"}

// tableTop is the number of lines above the rows.
const tableTop = 4

// View implements tea.Model.
func (m *model) View() tea.View {
	lines := m.header()
	room := max(1, m.height-len(lines)-1)
	switch {
	case m.help:
		lines = append(lines, helpLines...)
	case m.snapshot == nil:
		lines = append(lines, "", "  Reading stacks; the first figures come after a second ...")
	case m.detail != nil:
		lines = append(lines, m.detailLines(room)...)
	default:
		lines = append(lines, m.table(room-1)...)
	}
	body := max(1, m.height-1)
	for len(lines) < body {
		lines = append(lines, "")
	}
	lines = append(lines[:body], m.keys())
	for i, l := range lines {
		if cells(l) > m.width {
			lines[i] = lipgloss.NewStyle().MaxWidth(m.width).Render(l)
		}
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen, v.WindowTitle = true, "endoscope top "+m.target
	return v
}

// header returns the lines that say what is measured, and what that costs.
func (m *model) header() []string {
	state := ""
	s := m.snapshot
	switch {
	case s != nil && s.Err != nil:
		state = styleWarn.Render(clean(firstLine(s.Err.Error())))
	case s != nil && s.Ended:
		state = styleWarn.Render("the target has ended")
	case m.paused:
		state = styleWarn.Render("paused")
	case s != nil:
		state = styleDim.Render(s.At.Format(time.TimeOnly))
	}
	left := styleTitle.Render("endoscope top") + "  " + clean(m.target)
	first := left + right(state, m.width-cells(left))
	if s == nil {
		return []string{first, "", ""}
	}
	n := s.numbers()
	covered := fmt.Sprintf("CPU %s  %s  %s: %s %d counted  %s %d estimated  %s %d sampled",
		percentText(s.CPU), plural(s.Threads, "thread"), plural(len(s.Functions), "function"), marks[Counted], n[Counted], marks[Estimated], n[AtLeast]+n[Estimated], marks[Sampled], n[Sampled])
	style := styleGood
	if s.Overhead() > s.Limit {
		style = styleWarn
	}
	measured := "being measured"
	if s.Counting > 0 {
		measured = runner.Percent(s.Overhead())
	}
	cost := style.Render("overhead "+measured) + styleDim.Render(fmt.Sprintf(" of its CPU time, within %.3g %%  samples %s", 100*s.Limit, runner.Percent(s.Sampling)))
	return []string{first, covered, cost}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// table returns the heading and the rows that fit.
func (m *model) table(room int) []string {
	widths, trend := m.widths()
	heading := "  "
	for i, c := range columns {
		title := c.title
		if i == m.sort {
			title = arrow(m.descending) + title
		}
		text := right(title, widths[i])
		if i == 0 {
			text = fit(title, widths[i])
		}
		if i == m.sort {
			text = styleSorted.Render(text)
		} else {
			text = styleHead.Render(text)
		}
		heading += text
	}
	if trend > 0 {
		heading += styleHead.Render(right("TREND", trend+1))
	}
	lines := []string{strings.Replace(heading, "  ", styleHead.Render("  "), 1)}
	at := m.cursor()
	m.first = max(0, min(m.first, at, len(m.rows)-room))
	if at >= m.first+room {
		m.first = at - room + 1
	}
	for i := m.first; i < min(len(m.rows), m.first+room); i++ {
		lines = append(lines, m.row(m.rows[i], i == at && m.picked != key{}, widths, trend))
	}
	if len(m.rows) == 0 {
		why := "  No stack has a function with a name yet."
		if m.filter != "" {
			why = fmt.Sprintf("  No function of %d has %q in its name or module.", len(m.snapshot.Functions), clean(m.filter))
		}
		lines = append(lines, "", why)
	}
	return lines
}

func arrow(descending bool) string {
	if descending {
		return "▼"
	}
	return "▲"
}

// widths returns the widths of the columns, and that of the trend; 0: there is no room.
func (m *model) widths() (widths []int, trend int) {
	left := m.width - 2
	for _, c := range columns {
		widths = append(widths, c.width)
		left -= c.width
	}
	const least = 16 // of the name
	if trend = min(trendColumn, left-least-1); trend < 4 {
		trend = 0
	} else {
		left -= trend + 1
	}
	widths[0] = max(least, left)
	return widths, trend
}

func (m *model) row(f *Function, picked bool, widths []int, trend int) string {
	name := clean(f.Name)
	text := fit(name, widths[0])
	if room := widths[0] - cells(name); room > 4 && !picked {
		text = name + styleDim.Render(fit(" "+clean(f.Module), room))
	}
	line := marks[f.How] + " " + text
	for i, c := range columns[1:] {
		line += right(c.text(f), widths[i+1])
	}
	if trend > 0 {
		sorted := max(m.sort, 1)
		text := " " + sparkline(m.history[f.key()][sorted], trend)
		if !picked {
			text = styleTrend.Render(text)
		}
		line += text
	}
	if picked {
		return stylePicked.Render(line)
	}
	return line
}

// keys returns the last line.
func (m *model) keys() string {
	if m.typing {
		return styleKey.Render("filter: ") + clean(m.filter) + "▏" + styleDim.Render("  enter: done  esc: none")
	}
	keys := []string{"↑↓", "pick", "enter", "details", "←→", "sort", "/", "filter", "space", "pause", "?", "help", "q", "quit"}
	if m.detail != nil || m.help {
		keys = []string{"esc", "back", "q", "back", "ctrl-c", "quit"}
	}
	var b strings.Builder
	for i := 0; i < len(keys); i += 2 {
		fmt.Fprintf(&b, "%s %s  ", styleKey.Render(keys[i]), styleDim.Render(keys[i+1]))
	}
	if m.filter != "" {
		b.WriteString(styleWarn.Render("/" + clean(m.filter)))
	}
	return b.String()
}

var helpLines = strings.Split(`
  ● every call is counted     ◐ calls are counted in slices of time:
    ~ is an estimate, ≥ what was seen of too few slices for one
  ○ known by stack samples alone: of the system, of an interpreter, not yet counted

  CALLS/s  calls per second            TOTAL  time in it and in what it calls,
  AVG      mean duration of a call            waiting or not, of a second
  P99      99 % of calls are shorter   SELF   CPU time, by samples
  COST     of a CPU, if all its calls  TREND  the last ten seconds of the
           were counted                       sorted column

  ↑ ↓ pgup pgdn home end   pick a function     enter   callers, latency, ...
  ← → s or 1 to 7          sort by a column    r       the other way round
  /                        filter by name      space   pause
  esc                      back, no filter     q       quit

  endoscope help top says more.`, "\n")
