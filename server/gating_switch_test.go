package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/gating"
	"endoscope/server/query"
	"endoscope/server/wire"
)

// switched runs testdata/rounds.c and a join over it; during is called again and
// again meanwhile. It compares what the join gives with what the program prints,
// and returns the query's gating.
func switched(t *testing.T, pause func() time.Duration, during func(*gating.Gating)) *gating.Gating {
	testenv.NeedUprobes(t)
	cmd := exec.Command(testenv.CompileC(t, "testdata/rounds.c", "-O0"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	out := bufio.NewScanner(stdout)
	out.Scan()

	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := newSession(t.Context(), e, wire.Options{PID: cmd.Process.Pid}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := execute(t, s, `SELECT b.arg0, b.arg1 FROM function_start a WINDOW JOIN function_start b WINDOW 100ms a FOLLOWED BY b
ON a.arg0 = b.arg0 WHERE a.function_name = 'request' AND a.arg1 = 1 AND b.function_name = 'work'`)
	g := r.(*query.Result).Query.Gating
	if len(g.Plans) != 2 || g.Plans[1].Name != "left" {
		t.Fatalf("the plans are %+v", g.Plans)
	}
	fmt.Fprintln(in, "go")
	var want, got []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for out.Scan() {
			want = append(want, out.Text())
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(pause()):
			during(g)
		}
	}
	cmd.Wait()
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Batch != nil {
			for i := range ev.Batch.Len() {
				at := ev.Batch.Row(i)
				got = append(got, fmt.Sprintf("%d,%d", ev.Batch.Cols[0].Int[at], ev.Batch.Cols[1].Int[at]))
			}
			ev.Batch.Release()
		}
	}
	if sum := r.Summary(); len(sum.Losses) > 0 {
		t.Fatalf("lost: %v", sum.Losses)
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) != 40 || !slices.Equal(got, want) {
		t.Errorf("pairs:\n%s\nwant:\n%s", strings.Join(got, " "), strings.Join(want, " "))
	}
	return g
}

// TestPlansChangeWhileRunning: however often the plan changes, no pair is lost
// and none is given twice.
func TestPlansChangeWhileRunning(t *testing.T) {
	testenv.Once(t, func() error {
		changes := 0
		switched(t, func() time.Duration { return time.Duration(rand.IntN(20)) * time.Millisecond }, func(g *gating.Gating) {
			g.Mu.Lock()
			g.Enforce(1 - g.Current)
			g.Mu.Unlock()
			changes++
		})
		if changes < 20 {
			return fmt.Errorf("the plan changed %d times", changes)
		}
		return nil
	})
}

// TestPlanIsChosen: the query begins with everything, sees that it is needed for
// a quarter of the time only, and changes once. What it measures depends on the
// pace of the program.
func TestPlanIsChosen(t *testing.T) {
	var g *gating.Gating
	testenv.Once(t, func() error {
		measuring := func() time.Duration { return 130 * time.Millisecond }
		g = switched(t, measuring, func(g *gating.Gating) { g.Evaluate() })
		if len(g.Switches) != 1 || g.Switches[0].From != 0 || g.Switches[0].To != 1 || g.Switches[0].Expect >= g.Switches[0].Before {
			return fmt.Errorf("changes of plan: %+v", g.Switches)
		}
		if needed := g.Links[0].Needed.Value(); needed < 0.03 || needed > 0.6 {
			return fmt.Errorf("the gate's opener keeps it open for %.2g of the time", needed)
		}
		if rate := g.Inputs[g.Links[0].GatedInput].Rate.Value(); rate < 100 || rate > 3000 {
			return fmt.Errorf("there are %.4g calls of work a second, shut out or not", rate)
		}
		return nil
	})
	var b strings.Builder
	g.Explain(&b)
	if !strings.Contains(b.String(), "from all (") || !strings.Contains(b.String(), "* left: f(a)") {
		t.Errorf("EXPLAIN says\n%s", &b)
	}
}
