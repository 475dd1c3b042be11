package handlersuite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"endoscope/operators/batch"
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

// program is one whose handlers are known.
type program struct {
	name  string
	start func(t *testing.T) (pid int, settings []string)
	// want are the handlers that must be found, also are others that may be:
	// whether they are depends on the load. Everything else that is found is wrong.
	want, also []string
	period     string // how long it is observed, if not for the usual one
	// rename says what a function is called in this build of the program.
	rename map[string]func(t *testing.T, pid int) string
}

// period is how long a program is observed. What is found must be found by then,
// long before the 30 s after which the paper's handlers are stable.
const period = "6s"

// Over all programs four fifths of what is found are handlers, and four fifths of
// the handlers are found.
func TestPrecisionAndRecall(t *testing.T) {
	testenv.NeedUprobes(t)
	var mu sync.Mutex
	var all score
	t.Run("programs", func(t *testing.T) {
		for _, p := range programs {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				pid, settings := p.start(t)
				found := handlersOf(t, pid, settings, cmp.Or(p.period, period))
				for i, name := range p.want {
					if f := p.rename[name]; f != nil {
						p.want[i] = f(t, pid)
					}
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
				if s.precision() < 1 || s.recall() < 1 {
					t.Log(ask(t, pid, settings, "SELECT text(TRIE(stack, state, syscall)) FROM SAMPLE(stack_sample, 10ms) FOR 2s")[0][0].S)
				}
				if s.precision() < 0.5 || s.recall() < 0.5 {
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

// handler is one that was found.
type handler struct {
	name, kind, node string
	samples          int64
	confidence       float64
}

func (h handler) String() string {
	return fmt.Sprintf("%-9s %-9s %6d %.2f %s", h.kind, h.node, h.samples, h.confidence, h.name)
}

// functionsOf are the functions of a process' executable, by address.
func functionsOf(t *testing.T, pid int) (names []string) {
	t.Helper()
	for _, row := range ask(t, pid, nil, "SHOW FUNCTIONS") {
		names = append(names, row[0].S)
	}
	return names
}

// handlersOf are the handlers of a process that are found at the end of the
// period, each once, those with most samples first.
func handlersOf(t *testing.T, pid int, settings []string, period string) []handler {
	t.Helper()
	var last int64
	var found []handler
	for _, row := range ask(t, pid, settings, "SELECT timestamp, handler, kind, node_type, samples, confidence FROM SAMPLE(event_handlers, 2s) FOR "+period) {
		if at := row[0].I; at != last {
			last, found = at, nil
		}
		h := handler{name: row[1].S, kind: row[2].S, node: row[3].S, samples: row[4].I, confidence: row[5].F}
		if strings.HasSuffix(h.name, ")") && !strings.HasPrefix(h.name, "(") { // C++'s arguments
			h.name, _, _ = strings.Cut(h.name, "(")
		}
		if !slices.ContainsFunc(found, func(o handler) bool { return o.name == h.name }) {
			found = append(found, h)
		}
	}
	slices.SortFunc(found, func(a, b handler) int { return int(b.samples - a.samples) })
	return found
}

// ask runs a query of a process to its end.
func ask(t *testing.T, pid int, settings []string, query string) (rows [][]batch.Value) {
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
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
				row := make([]batch.Value, len(ev.Batch.Cols))
				for c := range row {
					row[c] = ev.Batch.Cols[c].Value(ev.Batch.Row(i))
				}
				rows = append(rows, row)
			}
			ev.Batch.Release()
		}
	}
	for _, l := range r.Summary().Losses {
		t.Logf("lost %d: %s", l.N, l.Cause)
	}
	return rows
}

// run starts a program that ends with the test.
func run(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: credential(cmd)}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// credential is what a command was given of them before.
func credential(cmd *exec.Cmd) *syscall.Credential {
	if cmd.SysProcAttr == nil {
		return nil
	}
	return cmd.SysProcAttr.Credential
}
