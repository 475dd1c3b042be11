package handlersuite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// engine is shared by all tests.
var engine = sync.OnceValues(func() (*server.Engine, error) { return server.New(server.Options{}) })

func TestMain(m *testing.M) {
	code := m.Run()
	if e, _ := engine(); e != nil {
		if err := e.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "closing the engine:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// record is the folder to which the stacks of each program are written, for the tests
// of the analysis (endoscope/operators/handlers, testdata/stacks).
var record = flag.String("record", "", "`folder` to write stacks to")

// program is a program with known handlers.
type program struct {
	name  string
	start func(t *testing.T) (pid int, settings []string)
	// want are the handlers that must be found. also are handlers that may be found,
	// depending on the load. Every other one found is wrong.
	want, also []string
	never      []string // functions that the paper's analysis would mistake for handlers
	// rename returns the name of a function in this build of the program.
	rename map[string]func(t *testing.T, pid int) string
}

// A program is observed for at least this time, and until all its handlers are found
// and were the same in two consecutive analyses (stable in the sense of the paper),
// for at most limit. On a busy machine there are few samples.
const (
	period   = 6 * time.Second
	limit    = 3 * time.Minute
	analysis = 2 * time.Second
)

// Over all programs, at least four fifths of the functions found are handlers, and
// four fifths of the handlers are found.
func TestPrecisionAndRecall(t *testing.T) {
	testenv.NeedUprobes(t)
	var mu sync.Mutex
	var all score
	t.Run("programs", func(t *testing.T) {
		for _, p := range programs {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				pid, settings := p.start(t)
				for i, name := range p.want {
					if f := p.rename[name]; f != nil {
						p.want[i] = f(t, pid)
					}
				}
				found := p.observe(t, pid, settings)
				if *record != "" {
					p.record(t, pid, settings)
				}
				s := p.judge(found)
				mu.Lock()
				defer mu.Unlock()
				all.add(s)
				t.Logf("%s: %v", p.name, s)
				for _, h := range found {
					t.Logf("  %v %v", h, p.verdict(h.name))
				}
				for _, name := range p.want {
					if !slices.ContainsFunc(found, func(h handler) bool { return h.name == name }) {
						t.Logf("  missed: %s", name)
					}
				}
				for _, name := range p.never {
					if slices.ContainsFunc(found, func(h handler) bool { return h.name == name }) {
						t.Errorf("%s is taken for a handler", name)
					}
				}
				wrong := 0
				for _, h := range found[:min(len(found), 5)] {
					if p.verdict(h.name) != "" {
						wrong++
					}
				}
				if wrong > 1 {
					t.Errorf("%d of the first five are wrong", wrong)
				}
				if s.precision() < 1 || s.recall() < 1 {
					t.Log(ask(t, pid, settings, "SELECT text(TRIE(stack, state, syscall)) FROM SAMPLE(stack_sample, 10ms) FOR 2s", nil)[0][0].S)
				}
				if s.precision() < 0.3 || s.recall() < 0.5 { // two wrong ones for each right one are preferable to a missed handler
					t.Errorf("%s: %v", p.name, s)
				}
			})
		}
	})
	t.Logf("over all: %v", all)
	if all.precision() < 0.8 || all.recall() < 0.8 {
		t.Errorf("over all: %v", all)
	}
}

// score counts functions.
type score struct{ found, right, wanted, got int }

func (s *score) add(o score) {
	s.found, s.right, s.wanted, s.got = s.found+o.found, s.right+o.right, s.wanted+o.wanted, s.got+o.got
}

func (s score) precision() float64 { return float64(s.right) / float64(max(s.found, 1)) }
func (s score) recall() float64    { return float64(s.got) / float64(max(s.wanted, 1)) }

func (s score) String() string {
	return fmt.Sprintf("precision %.2f (%d of %d), recall %.2f (%d of %d)", s.precision(), s.right, s.found, s.recall(), s.got, s.wanted)
}

func (p *program) verdict(name string) string {
	if slices.Contains(p.want, name) || slices.Contains(p.also, name) {
		return ""
	}
	return "(WRONG)"
}

func (p *program) judge(found []handler) (s score) {
	s.found, s.wanted = len(found), len(p.want)
	for _, h := range found {
		if p.verdict(h.name) == "" {
			s.right++
		}
		if slices.Contains(p.want, h.name) {
			s.got++
		}
	}
	return s
}

// handler is a handler that was found.
type handler struct {
	name, kind, node string
	samples          int64
	confidence       float64
}

func (h handler) String() string {
	return fmt.Sprintf("%-9s %-9s %6d %.2f %s", h.kind, h.node, h.samples, h.confidence, h.name)
}

// functionsOf returns the functions of the executable of a process, by address.
func functionsOf(t *testing.T, pid int) (names []string) {
	t.Helper()
	for _, row := range ask(t, pid, nil, "SHOW FUNCTIONS", nil) {
		names = append(names, row[0].S)
	}
	return names
}

// observe returns the distinct handlers of a process, those with most samples first.
func (p *program) observe(t *testing.T, pid int, settings []string) (found []handler) {
	t.Helper()
	begin := time.Now()
	query := fmt.Sprintf("SELECT timestamp, handler, kind, node_type, samples, confidence FROM SAMPLE(event_handlers, %v) FOR %vs", analysis, limit.Seconds())
	var before []handler
	ask(t, pid, settings, query, func(rows [][]types.Value) bool {
		before, found = found, nil
		last := rows[len(rows)-1][0].I
		for _, row := range rows {
			h := handler{name: row[1].S, kind: row[2].S, node: row[3].S, samples: row[4].I, confidence: row[5].F}
			if strings.HasSuffix(h.name, ")") && !strings.HasPrefix(h.name, "(") { // C++'s arguments
				h.name, _, _ = strings.Cut(h.name, "(")
			}
			if row[0].I == last && !slices.ContainsFunc(found, func(o handler) bool { return o.name == h.name }) {
				found = append(found, h)
			}
		}
		return time.Since(begin) < period || p.judge(found).recall() < 1 || names(found) != names(before)
	})
	t.Logf("%s: stable after %v", p.name, time.Since(begin).Round(time.Second))
	slices.SortFunc(found, func(a, b handler) int { return int(b.samples - a.samples) })
	return found
}

// record writes the samples of the program's stacks, one line each: the number of
// occurrences, the thread's state and system call (columns state and syscall of
// stack_sample), and the functions, outermost first; system functions begin with '-'.
func (p *program) record(t *testing.T, pid int, settings []string) {
	t.Helper()
	lines := map[string]int{}
	for _, row := range ask(t, pid, settings, "SELECT state, syscall, stack FROM SAMPLE(stack_sample, 10ms) FOR 4s", nil) {
		frames, _ := row[2].A.([]types.Value)
		var stack []string
		for _, f := range slices.Backward(frames) {
			name := f.A.([]types.Value)
			if text := name[0].S; name[2].S != "user" {
				stack = append(stack, "-"+text)
			} else {
				stack = append(stack, text)
			}
		}
		syscall := row[1].S
		if row[1].IsNull {
			syscall = "-"
		}
		lines[row[0].S+" "+syscall+" "+strings.Join(stack, ";")]++
	}
	var text strings.Builder
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&text, "%d %s\n", lines[line], line)
	}
	if err := os.WriteFile(filepath.Join(*record, strings.NewReplacer(" ", "_", ",", "").Replace(p.name)+".txt"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// names returns the sorted names of handlers.
func names(hs []handler) string {
	var all []string
	for _, h := range hs {
		all = append(all, h.name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// ask runs a query on a process to its end, or until more, which is called with each
// batch of rows, returns false.
func ask(t *testing.T, pid int, settings []string, query string, more func(rows [][]types.Value) bool) (rows [][]types.Value) {
	t.Helper()
	e, err := engine()
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.NewSession(context.Background(), wire.Options{PID: pid})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, st := range settings {
		r, err := s.Execute(context.Background(), "SET "+st)
		if err != nil {
			t.Fatalf("SET %s: %v", st, err)
		}
		r.Close()
	}
	r, err := s.Execute(context.Background(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for enough := false; !enough; {
		ev, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Kind {
		case wire.Notice:
			t.Log(ev.Text)
		case wire.Rows:
			for i := range ev.Batch.Len() {
				row := make([]types.Value, len(ev.Batch.Cols))
				for c := range row {
					row[c] = ev.Batch.Cols[c].Value(ev.Batch.Row(i))
				}
				rows = append(rows, row)
			}
			ev.Batch.Release()
			if more != nil {
				enough = !more(rows)
				rows = nil
			}
		}
	}
	for _, l := range r.Summary().Losses {
		t.Logf("lost %d: %s", l.N, l.Cause)
	}
	return rows
}
