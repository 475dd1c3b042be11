package top

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// column is a column of the table.
type column struct {
	title string
	width int // 0: what is left
	text  func(f *Function) string
	value func(f *Function) float64 // to sort by, the greatest first; nil: by name
}

var columns = []column{
	{"FUNCTION", 0, func(f *Function) string { return clean(f.Name) }, nil},
	{"CALLS/s", 9, func(f *Function) string { return f.sign(rateText(f.Calls)) }, func(f *Function) float64 { return f.Calls }},
	{"TOTAL", 7, func(f *Function) string { return percentText(f.Total) }, func(f *Function) float64 { return f.Total }},
	{"SELF", 7, func(f *Function) string { return percentText(f.Self) }, func(f *Function) float64 { return f.Self }},
	{"AVG", 9, func(f *Function) string { return f.estimate(durationText(f.Avg)) }, func(f *Function) float64 { return float64(f.Avg) }},
	{"P99", 9, func(f *Function) string { return f.estimate(durationText(f.P99)) }, func(f *Function) float64 { return float64(f.P99) }},
	{"COST", 7, func(f *Function) string { return f.sign(percentText(f.Cost)) }, func(f *Function) float64 { return f.Cost }},
}

// trendColumn shows the last seconds of the sorted column.
const (
	trendColumn = 10
	bySelf      = 3 // the column sorted by at first
)

// model is the state of the screen. It implements tea.Model.
type model struct {
	meter  *Meter
	target string
	ctx    context.Context

	width, height int
	snapshot      *Snapshot
	rows          []*Function // filtered and sorted
	history       map[key][][]float64
	sort          int
	descending    bool
	filter        string
	typing        bool // the filter
	paused        bool
	help          bool
	picked        key // the row of the cursor
	first         int // the first row on the screen
	detail        *detail
}

func newModel(ctx context.Context, m *Meter, target string) *model {
	return &model{ctx: ctx, meter: m, target: target, width: 80, height: 24, history: map[key][][]float64{}, sort: bySelf, descending: true}
}

func (m *model) Init() tea.Cmd { return nil }

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case *Snapshot:
		m.take(msg)
	case *found:
		if m.detail != nil && m.detail.of == msg.of {
			m.detail.found = msg
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// take shows a snapshot, unless the screen is paused.
func (m *model) take(s *Snapshot) {
	if m.paused && !s.Ended {
		return
	}
	m.snapshot = s
	now := map[key][][]float64{}
	for i := range s.Functions {
		f := &s.Functions[i]
		k := f.key()
		h := m.history[k]
		if h == nil {
			h = make([][]float64, len(columns))
		}
		for c := range columns {
			if v := columns[c].value; v != nil {
				h[c] = append(h[c], max(0, v(f)))
				h[c] = h[c][max(0, len(h[c])-trendColumn):]
			}
		}
		now[k] = h
	}
	m.history = now
	m.arrange()
}

func (f *Function) key() key { return key{f.Name, f.Module} }

// arrange filters and sorts the rows.
func (m *model) arrange() {
	m.rows = m.rows[:0]
	if m.snapshot == nil {
		return
	}
	want := strings.ToLower(m.filter)
	for i := range m.snapshot.Functions {
		f := &m.snapshot.Functions[i]
		if strings.Contains(strings.ToLower(f.Name), want) || strings.Contains(strings.ToLower(f.Module), want) {
			m.rows = append(m.rows, f)
		}
	}
	value := columns[m.sort].value
	slices.SortFunc(m.rows, func(a, b *Function) int {
		byName := cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Module, b.Module))
		if value == nil {
			if m.descending {
				return byName
			}
			return -byName
		}
		// Samples of less than 0.05 % are noise, and shown as 0.
		by := cmp.Or(cmp.Compare(rounded(value(b)), rounded(value(a))), cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total))
		if !m.descending {
			by = -by
		}
		return cmp.Or(by, byName)
	})
}

func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }

// cursor returns the row of the cursor: that of the picked function, else the first.
func (m *model) cursor() int {
	return max(0, slices.IndexFunc(m.rows, func(f *Function) bool { return f.key() == m.picked }))
}

// move moves the cursor by n rows.
func (m *model) move(n int) {
	if len(m.rows) > 0 {
		m.picked = m.rows[max(0, min(m.cursor()+n, len(m.rows)-1))].key()
	}
}

func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	if m.typing {
		m.typeFilter(name, k.Text)
		return nil
	}
	page := max(1, m.height-tableTop-2)
	switch name {
	case "q":
		if m.detail == nil && !m.help {
			return tea.Quit
		}
		m.detail, m.help = nil, false
	case "esc", "backspace":
		if m.detail == nil && !m.help {
			m.filter = ""
		}
		m.detail, m.help = nil, false
	case "?", "h":
		m.help = !m.help
	case "space", "p":
		m.paused = !m.paused
	case "/":
		m.typing, m.detail = true, nil
	case "right", "s", ">":
		m.sort = (m.sort + 1) % len(columns)
	case "left", "<":
		m.sort = (m.sort + len(columns) - 1) % len(columns)
	case "r":
		m.descending = !m.descending
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-page)
	case "pgdown":
		m.move(page)
	case "home", "g":
		m.move(-len(m.rows))
	case "end", "G":
		m.move(len(m.rows))
	case "enter":
		if m.detail == nil && len(m.rows) > 0 {
			f := m.rows[m.cursor()]
			m.picked = f.key()
			m.detail = &detail{of: m.picked, paths: m.meter.paths(m.picked)}
			return m.ask(*f)
		}
	default:
		if len(name) == 1 && name[0] >= '1' && int(name[0]-'1') < len(columns) {
			m.sort = int(name[0] - '1')
		}
	}
	m.arrange()
	return nil
}

// typeFilter edits the filter.
func (m *model) typeFilter(name, text string) {
	switch name {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	default:
		m.filter += text
	}
	m.arrange()
}
