package top

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"endoscope/planner/types"
)

// stack returns a stack, leaf first, of functions of the program app.
func stack(names ...string) (frames []types.Value) {
	for _, n := range names {
		frames = append(frames, types.Value{Type: types.List, A: []types.Value{types.Str(n), types.Str("app"), types.Str("user")}})
	}
	return frames
}

func TestProfileAddsUpStacks(t *testing.T) {
	var p profile
	p.add([]sampled{
		{1, stack("work", "run", "main"), true, 30},
		{1, stack("wait", "run", "main"), false, 70},
		{2, stack("fib", "fib", "main"), true, 100}, // recursion counts once
	})
	weight := p.weight
	for name, want := range map[string]share{
		"work": {total: 0.3, self: 0.3}, "wait": {total: 0.7}, "run": {total: 1}, "main": {total: 2}, "fib": {total: 1, self: 1},
	} {
		got := p.shares[key{name, "app"}]
		if got == nil || math.Abs(got.total/weight-want.total) > 1e-9 || math.Abs(got.self/weight-want.self) > 1e-9 {
			t.Errorf("%s: %+v, want total %v, self %v", name, got, want.total, want.self)
		}
	}
	if got := p.cpu / weight; math.Abs(got-1.3) > 1e-9 {
		t.Errorf("%v CPUs, want 1.3", got)
	}
	if paths := p.pathsTo(key{"run", "app"}); len(paths) != 1 || paths[0] != (path{"main", 1}) {
		t.Errorf("paths to run: %+v", paths)
	}
	for range 200 { // what is no longer sampled is forgotten
		p.add([]sampled{{1, stack("main"), true, 100}})
	}
	if len(p.shares) != 1 {
		t.Errorf("%d functions are remembered", len(p.shares))
	}
}

// What is counted remains so, and others come as long as there is room.
func TestChoice(t *testing.T) {
	fs := newFigures()
	var candidates []key
	for i := range 2 * mostCounted {
		candidates = append(candidates, key{fmt.Sprint("f", i), "app"})
	}
	fs.known[candidates[0]] = &figure{rate: -1, why: "it cannot be probed"}
	set := fs.choose(candidates[:10], nil)
	if len(set) != 9 || slices.Contains(set, candidates[0]) {
		t.Errorf("of ten candidates, one of which cannot be counted, %v are", set)
	}
	all := fs.choose(candidates[5:], set)
	if len(all) != mostCounted || !slices.Equal(all[:9], set) {
		t.Errorf("%d functions are counted, first %v", len(all), all[:9])
	}
}

// The rate of a function whose calls are all counted is that of the last seconds, that of an
// estimate a mean since counting began.
func TestFigures(t *testing.T) {
	fs := newFigures()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	work, rare, few := key{"work", "app"}, key{"rare", "app"}, key{"few", "app"}
	set := []key{work, rare, few}
	fs.begin(set, at(0))
	fs.record(set, []called{{key: work, n: 2000, exact: true, share: 1}, {key: rare, n: 100, share: 0.5, bounded: true}, {key: few, n: 4, share: 0.01}}, at(2), 0)
	fs.record(set, []called{{key: work, n: 2600, exact: true, share: 1, avg: 5, p99: 9}, {key: rare, n: 800, share: 0.5, bounded: true}, {key: key{"other", "app"}, n: 1}}, at(4), 3*time.Millisecond)
	for k, want := range map[key]figure{
		work: {how: Counted, rate: 300, avg: 5, p99: 9}, rare: {how: Estimated, rate: 200}, few: {how: AtLeast, rate: 2},
	} {
		if f := fs.known[k]; f == nil || f.how != want.how || f.rate != want.rate || f.avg != want.avg || f.p99 != want.p99 {
			t.Errorf("%s: %+v, want %+v", k.name, f, want)
		}
	}
	if len(fs.known) != 3 || math.Abs(fs.price-1e-6) > 1e-9 {
		t.Errorf("%d functions are known, a call costs %g", len(fs.known), fs.price)
	}
	fs.begin(set, at(10))
	fs.record(set, []called{{key: work, n: 100, exact: true, share: 1}}, at(12), 0)
	if f := fs.known[work]; f.rate != 50 {
		t.Errorf("after counting began again %+v", f)
	}
}

func TestCondition(t *testing.T) {
	got := condition([]key{{"a", "x"}, {"o'b", "y"}, {"c", "x"}})
	if want := "module = 'x' AND function_name IN ('a', 'c') OR module = 'y' AND function_name IN ('o''b')"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestNoticeSaysWhatIsNotCounted(t *testing.T) {
	m := &Meter{figures: newFigures()}
	set := []key{{"main", "app"}, {"work", "app"}}
	m.leaveOut(set, "1 function is not monitored: main (it has no return)")
	if f := m.figures.known[set[0]]; f == nil || f.why != "it has no return" {
		t.Errorf("main: %+v", f)
	}
	if m.figures.known[set[1]] != nil {
		t.Error("work is left out")
	}
	m.figures.record(set, []called{{key: set[1], n: 4}}, time.Now(), 0)
	if f := m.figures.known[set[0]]; f.rate >= 0 {
		t.Errorf("main has a rate: %+v", f)
	}
	m.refuse(set[1:], fmt.Errorf("cannot probe work: it is too short\nhint"))
	if f := m.figures.known[set[1]]; f.why != "cannot probe work: it is too short" || f.rate >= 0 {
		t.Errorf("work: %+v", f)
	}
}

func TestHistogram(t *testing.T) {
	got := histogram([]time.Duration{1, 3, 3, 900, 1023, 1024})
	var text []string
	for _, b := range got {
		if b.n > 0 {
			text = append(text, fmt.Sprintf("<%d:%d", b.below, b.n))
		}
	}
	if want := "<2:1 <4:2 <1024:2 <2048:1"; strings.Join(text, " ") != want || len(got) != 11 {
		t.Errorf("%v (%d buckets), want %s", text, len(got), want)
	}
}

func TestTexts(t *testing.T) {
	for got, want := range map[string]string{
		rateText(-1): "·", rateText(0): "0", rateText(3.14): "3.1", rateText(1234): "1234", rateText(345678): "346k", rateText(12.3e6): "12.3M",
		percentText(-1): "·", percentText(0): "0%", percentText(0.0001): "<0.1%", percentText(0.123): "12.3%", percentText(4): "400%",
		sparkline([]float64{0, 1, 2}, 4): " ▁▅█", sparkline([]float64{0, 0}, 2): "  ",
		bar(0.5, 4): "██", bar(0.01, 4): "▏", bar(1, 4): "████",
		fit("abcdef", 4): "abc…", fit("ab", 4): "ab  ", clean("a\n\x1b[2J"): `a\n\x1b[2J`,
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// screenOf returns a screen with a snapshot.
func screenOf(t *testing.T, width, height int) *model {
	t.Helper()
	m := newModel(t.Context(), &Meter{}, "pid 42")
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	s := &Snapshot{At: time.Unix(0, 0), CPU: 1.5, Threads: 12, Limit: 0.01, Counting: 0.002, Sampling: 0.001}
	for i := range 60 {
		s.Functions = append(s.Functions, Function{Name: fmt.Sprintf("function_number_%02d", i), Module: "app", How: How(i % 4),
			Calls: float64(i * i * 1000), Total: float64(i) / 10, Self: float64(60-i) / 100, Avg: time.Duration(i) * time.Microsecond, P99: time.Duration(i) * time.Millisecond, Cost: -1})
	}
	s.Functions = append(s.Functions, Function{Name: "std::vector<int>::evil\x1b[2J\n" + strings.Repeat("長い", 50), Module: "lib", Calls: -1, Cost: -1})
	m.Update(s)
	return m
}

func press(m *model, keys ...string) (last tea.Cmd) {
	special := map[string]tea.Key{"down": {Code: tea.KeyDown}, "enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape},
		"right": {Code: tea.KeyRight}, "end": {Code: tea.KeyEnd}, "space": {Code: tea.KeySpace, Text: " "}}
	for _, k := range keys {
		key, ok := special[k]
		if !ok {
			key = tea.Key{Code: []rune(k)[0], Text: k}
		}
		_, last = m.Update(tea.KeyPressMsg(key))
	}
	return last
}

// Whatever is shown, it has as many lines as the screen, none is wider, and no character of
// a name reaches the terminal as a control sequence.
func TestScreenFits(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 10}, {200, 60}} {
		m := screenOf(t, size[0], size[1])
		check := func(what string) {
			t.Helper()
			text := m.View().Content
			lines := strings.Split(text, "\n")
			if len(lines) != size[1] {
				t.Errorf("%v %s: %d lines", size, what, len(lines))
			}
			for _, l := range lines {
				if w := lipgloss.Width(l); w > size[0] {
					t.Errorf("%v %s: %d cells: %q", size, what, w, l)
				}
			}
			if strings.Contains(text, "\x1b[2J") {
				t.Errorf("%v %s: a name clears the screen", size, what)
			}
		}
		check("table")
		press(m, "end")
		check("last row")
		press(m, "enter")
		check("details")
		m.Update(&found{of: m.picked, calls: 3, callers: []tally{{"main", 3}}, arguments: [shownArguments][]tally{{{"1", 3}}}, durations: []time.Duration{1, 2, 3e9}})
		check("calls")
		press(m, "esc", "?")
		check("help")
		press(m, "?", "/", "n", "o", "n", "e")
		check("filter without match")
	}
}

func TestKeys(t *testing.T) {
	m := screenOf(t, 80, 24)
	names := func() (all []string) {
		for _, r := range m.rows[:2] {
			all = append(all, r.Name)
		}
		return all
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if got := names(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	expect("by self time", "function_number_00", "function_number_01")
	press(m, "2")
	expect("by calls", "function_number_59", "function_number_58")
	press(m, "r")
	if m.rows[len(m.rows)-1].Name != "function_number_59" {
		t.Error("r does not turn the order")
	}
	press(m, "r", "/", "_", "1", "enter")
	expect("filtered", "function_number_19", "function_number_18")
	if len(m.rows) != 10 {
		t.Errorf("%d rows have _1", len(m.rows))
	}
	press(m, "down", "space")
	if m.picked.name != "function_number_18" || !m.paused {
		t.Errorf("picked %s, paused %v", m.picked.name, m.paused)
	}
	before := m.snapshot
	m.Update(&Snapshot{})
	if m.snapshot != before {
		t.Error("a paused screen changes")
	}
	m.Update(&Snapshot{Ended: true})
	if !m.snapshot.Ended || !strings.Contains(m.View().Content, "the target has ended") {
		t.Error("the end of the target is not shown")
	}
	if quit := press(m, "q"); quit == nil || quit() != (tea.QuitMsg{}) {
		t.Error("q does not quit")
	}
}

// TestSelfIsMeasuredCPUTime: samples say where the CPU time goes, the kernel how much it is.
func TestSelfIsMeasuredCPUTime(t *testing.T) {
	m := NewMeter(nil, Limit)
	m.profile.add([]sampled{{1, stack("work", "main"), true, 30}, {1, stack("read", "main"), true, 10}, {1, stack("wait", "main"), false, 60}})
	self := func(name string) float64 {
		for _, f := range m.Snapshot().Functions {
			if f.Name == name {
				return f.Self
			}
		}
		return math.NaN()
	}
	if s := m.Snapshot(); math.Abs(s.CPU-0.4) > 1e-9 || math.Abs(self("work")-0.3) > 1e-9 {
		t.Errorf("by samples alone: CPU %g, work %g", s.CPU, self("work"))
	}
	m.use(0.8)
	if s := m.Snapshot(); math.Abs(s.CPU-0.8) > 1e-9 || math.Abs(self("work")-0.6) > 1e-9 || math.Abs(self("read")-0.2) > 1e-9 || self("wait") != 0 {
		t.Errorf("CPU %g, work %g, read %g, wait %g", s.CPU, self("work"), self("read"), self("wait"))
	}
	for range 20 {
		m.use(0) // it is idle now
	}
	if s := m.Snapshot(); s.CPU > 1e-3 || self("work") > 1e-3 {
		t.Errorf("idle: CPU %g, work %g", s.CPU, self("work"))
	}
}
