package server_test

import (
	"bufio"
	"cmp"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// rounds is the program, waiting to begin.
func rounds(t *testing.T) (pid int, run func() (pairs [][]string)) {
	testenv.NeedUprobes(t)
	cmd := exec.Command(testenv.CompileC(t, "testdata/rounds.c", "-O0"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatal("the target does not begin")
	}
	return cmd.Process.Pid, func() (pairs [][]string) {
		fmt.Fprintln(in, "go")
		for lines.Scan() {
			pairs = append(pairs, strings.Split(lines.Text(), ","))
		}
		return pairs
	}
}

const pairsOfRounds = `SELECT b.arg0, b.arg1 FROM function_start a WINDOW JOIN function_start b WINDOW 100ms a FOLLOWED BY b
ON a.arg0 = b.arg0 WHERE a.function_name = 'request' AND a.arg1 = 1 AND b.function_name = 'work'`

// TestGatedPlanIsExact runs one program under every plan at once: each gives the
// pairs that the program prints, and the gated ones acquire less.
func TestGatedPlanIsExact(t *testing.T) {
	pid, run := rounds(t)
	plans := []string{"all", "left", "auto"}
	var results []wire.Result
	for _, p := range plans {
		s := newSession(t, wire.Options{PID: pid})
		ask(t, s, "SET join_plan = "+p)
		results = append(results, start(t, s, pairsOfRounds))
	}
	want := run()
	if len(want) != 40 {
		t.Fatalf("the program printed %d pairs", len(want))
	}
	for i, r := range results {
		a := read(t, r)
		complete(t, a)
		slices.SortFunc(a.rows, func(x, y []string) int { return cmp.Or(cmp.Compare(len(x[0]), len(y[0])), slices.Compare(x, y)) })
		if got := fmt.Sprint(a.rows); got != fmt.Sprint(want) {
			t.Errorf("join_plan = %s: %s\nwant %v", plans[i], got, want)
		}
	}
}

// TestGatedPlanAcquiresLess, and EXPLAIN ANALYZE says how much.
func TestGatedPlanAcquiresLess(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileC(t, "testdata/rounds.c", "-O0")
	testenv.Once(t, func() error { return acquiresLess(t, target) })
}

// acquiresLess returns what may be otherwise where the program is held up.
func acquiresLess(t *testing.T, target string) error {
	t.Helper()
	acquired := map[string]int{}
	share := map[string]float64{}
	for _, p := range []string{"all", "left"} {
		s := newSession(t, wire.Options{Command: []string{target, "now"}})
		ask(t, s, "SET join_plan = "+p)
		var text strings.Builder
		for _, row := range ask(t, s, "EXPLAIN ANALYZE "+pairsOfRounds).rows {
			text.WriteString(row[0] + "\n")
		}
		find := func(pattern string) string {
			m := regexp.MustCompile(pattern).FindStringSubmatch(text.String())
			if m == nil {
				return ""
			}
			return m[1]
		}
		acquired[p], _ = strconv.Atoi(find(`(\d+) tuples acquired`))
		share[p], _ = strconv.ParseFloat(find(`b was acquired for (\S+) % of the time`), 64)
		if !strings.Contains(text.String(), "* "+p+": f(a)·") {
			t.Errorf("join_plan = %s is not in force:\n%s", p, &text)
		}
		if rows := find(`, (\d+) rows given`); rows != "40" {
			t.Errorf("join_plan = %s: %s rows\n%s", p, rows, &text)
		}
	}
	if acquired["all"] != 12*210+4 {
		t.Errorf("all: %d tuples were acquired", acquired["all"])
	}
	if n := acquired["left"]; n < 4+40 {
		t.Errorf("left: %d tuples were acquired", n)
	} else if n > 12*210/2 {
		return fmt.Errorf("left: %d tuples were acquired", n)
	}
	if s := share["left"]; s < 10 || s > 60 {
		return fmt.Errorf("left: b was acquired for %v %% of the time", s)
	}
	return nil
}

// TestGatingRefusals: what a forced plan cannot do is said, with the way out.
func TestGatingRefusals(t *testing.T) {
	pid, _ := rounds(t)
	for _, c := range []struct{ set, query, want string }{
		{"SET join_plan = right", pairsOfRounds, "join_plan = right is not possible: all rows of a that are needed come before those of b"},
		{"SET join_plan = left", strings.Replace(pairsOfRounds, "a FOLLOWED BY b", "", 1), "SET join_gating = 'gated' accepts that"},
	} {
		s := newSession(t, wire.Options{PID: pid})
		ask(t, s, c.set)
		if _, err := s.Execute(t.Context(), c.query); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.set, err)
		}
	}
	s := newSession(t, wire.Options{PID: pid})
	if n := ask(t, s, "SELECT COUNT(*) FROM sys.probes WHERE provider = 'uprobe'"); number(t, n, 0, 0) != 0 {
		t.Error("what was refused is attached")
	}
}

// TestInexactGatesReportLosses: with join_gating = gated a join that looks both
// ways runs as the paper has it. A notice says so at the beginning, and the
// summary for how much of the time there could be pairs, and how late gates opened.
func TestInexactGatesReportLosses(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileC(t, "testdata/rounds.c", "-O0")
	const bothWays = `SELECT b.arg1 FROM function_start a WINDOW JOIN function_start b WINDOW 100ms ON a.arg0 = b.arg0
WHERE a.function_name = 'request' AND a.arg1 = 1 AND b.function_name = 'work'`
	const byLoad = `SELECT b.arg1 FROM SAMPLE(memory_usage, 50ms) m WINDOW JOIN function_start b WINDOW 10ms WHERE b.function_name = 'work'`
	for _, c := range []struct {
		name, plan, query string
		least, most       int // rows
		notice, note      string
	}{
		{"what came before is missing", "left", bothWays, 40, 40,
			`^pairs exist only while b is open, which a opens \(join_gating = gated\): calls of b from before a row of a are needed`,
			`^b was acquired for ([1-9]|[1-5]\d)(\.\d+)? % of the time, from each row of a on$`},
		{"everything is there", "all", bothWays, 840, 840, "", ""},
		{"a sampler opens", "left", byLoad, 0, 3000,
			`^pairs exist only while b is open, which m opens`,
			`^b was acquired for \d+(\.\d+)? % of the time, from \S+ behind rows of m on, \S+ at most$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSession(t, wire.Options{Command: []string{target, "now"}})
			ask(t, s, "SET join_gating = gated")
			ask(t, s, "SET join_plan = "+c.plan)
			a := ask(t, s, c.query)
			complete(t, a)
			if n := len(a.rows); n < c.least || n > c.most {
				t.Errorf("%d rows", n)
			}
			matches := func(pattern string, lines []string) bool {
				return slices.ContainsFunc(lines, regexp.MustCompile(pattern).MatchString)
			}
			if c.notice == "" {
				if len(a.summary.Notes) > 0 || matches("join_gating", a.notices) {
					t.Errorf("it says %q and %q", a.notices, a.summary.Notes)
				}
				return
			}
			if !matches(c.notice, a.notices) {
				t.Errorf("its notices are %q", a.notices)
			}
			if !matches(c.note, a.summary.Notes) {
				t.Errorf("its notes are %q", a.summary.Notes)
			}
		})
	}
}

// TestThreeInputs: the first source opens the gates of both others, each for its
// own window, in every combination; the pairs are the same.
func TestThreeInputs(t *testing.T) {
	pid, run := rounds(t)
	const query = `SELECT b.arg0, b.arg1, COUNT(*) FROM function_start a WINDOW JOIN function_start b WINDOW 100ms a FOLLOWED BY b
WINDOW JOIN function_duration c WINDOW 60ms a FOLLOWED BY c
ON a.arg0 = b.arg0 AND c.arg0 = a.arg0 AND c.start_time > a.timestamp
WHERE a.function_name = 'request' AND a.arg1 = 1 AND b.function_name = 'work' AND c.function_name = 'work' GROUP BY b.arg0, b.arg1`
	var results []wire.Result
	for _, p := range []string{"all", "left"} {
		s := newSession(t, wire.Options{PID: pid})
		ask(t, s, "SET join_plan = "+p)
		text := fmt.Sprint(ask(t, s, "EXPLAIN "+query).rows)
		for _, want := range []string{"all, all: ", "left, all: ", "all, left: ", "left, left: f(a)·", "a opens c for 60ms behind each row (flag at entries; opened in the kernel); exact"} {
			if !strings.Contains(text, want) {
				t.Errorf("EXPLAIN does not say %q:\n%s", want, text)
			}
		}
		results = append(results, start(t, s, query))
	}
	want := run()
	for i, r := range results {
		a := read(t, r)
		complete(t, a)
		if len(a.rows) != len(want) {
			t.Errorf("result %d has %d groups, want %d", i, len(a.rows), len(want))
		}
		for _, row := range a.rows {
			if row[2] != "10" {
				t.Errorf("result %d has %v, want 10 partners each", i, row)
			}
		}
	}
}

// TestGatedSamplersLoseNothing: behind a gate a sampler has every sample of the
// windows that it has without, or has counted it as missed.
func TestGatedSamplersLoseNothing(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileC(t, "testdata/rounds.c", "-O0")
	for _, c := range []struct {
		stream, followed, way string
		samples               int // of each window
	}{
		{"memory_usage", "a FOLLOWED BY m", "a opens m for 100ms behind each row (paused; opened in the kernel); exact", 20},
		{"cpu_usage", "a FOLLOWED BY m", "a opens m for 100ms behind each row (reads but emits no rows; opened in the kernel); exact", 20},
		{"memory_usage", "", "m gives rows of 100ms before and 100ms behind each of a (holds its rows); exact", 40},
	} {
		t.Run(c.stream+" "+c.followed, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, wire.Options{Command: []string{target, "now"}})
			ask(t, s, "SET join_plan = left")
			query := fmt.Sprintf(`SELECT a.arg0, COUNT(*) FROM function_start a WINDOW JOIN SAMPLE(%s, 5ms) m WINDOW 100ms %s
WHERE a.function_name = 'request' AND a.arg1 = 1 GROUP BY a.arg0`, c.stream, c.followed)
			if text := fmt.Sprint(ask(t, s, "EXPLAIN "+query).rows); !strings.Contains(text, c.way) {
				t.Errorf("EXPLAIN does not say %q:\n%s", c.way, text)
			}
			a := ask(t, s, query+" FOR 1min")
			complete(t, a)
			missed := uint64(0)
			for _, l := range a.summary.Losses {
				missed += l.N
			}
			got := 0
			for i, row := range a.rows {
				n := int(number(t, a, i, 1))
				if got += n; n > c.samples+1 {
					t.Errorf("round %s has %d samples", row[0], n)
				}
			}
			// A window whose samples were all missed has no row.
			if want := 4 * (c.samples - 1); len(a.rows) > 4 || got+int(missed) < want {
				t.Errorf("%d samples in %d windows, and %d were missed; want %d", got, len(a.rows), missed, want)
			}
		})
	}
}
