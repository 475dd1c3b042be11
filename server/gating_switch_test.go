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
	"endoscope/server/wire"
)

// switched runs testdata/rounds.c and a join over it; during is called again and
// again meanwhile. It compares what the join gives with what the program prints,
// and returns the query's gating.
func switched(t *testing.T, during func(*gating)) *gating {
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
	g := r.(*queryResult).q.gating
	if len(g.plans) != 2 || g.plans[1].name != "left" {
		t.Fatalf("the plans are %+v", g.plans)
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
		during(g)
		select {
		case <-done:
			running = false
		default:
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
	changes := 0
	switched(t, func(g *gating) {
		g.mu.Lock()
		g.enforce(1 - g.current)
		g.mu.Unlock()
		changes++
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // for which this plan runs
	})
	if changes < 20 {
		t.Errorf("the plan changed %d times", changes)
	}
}

// TestPlanIsChosen: the query begins with everything, sees that it is needed for
// a quarter of the time only, and changes once.
func TestPlanIsChosen(t *testing.T) {
	g := switched(t, func(g *gating) {
		time.Sleep(130 * time.Millisecond) // in which it measures
		g.evaluate()
	})
	if len(g.switches) != 1 || g.switches[0].from != 0 || g.switches[0].to != 1 || g.switches[0].expect >= g.switches[0].before {
		t.Errorf("changes of plan: %+v", g.switches)
	}
	if needed := g.edges[0].needed.Value(); needed < 0.03 || needed > 0.6 {
		t.Errorf("the gate's opener keeps it open for %.2g of the time", needed)
	}
	if rate := g.inputs[g.edges[0].gated].rate.Value(); rate < 100 || rate > 3000 {
		t.Errorf("there are %.4g calls of work a second, shut out or not", rate)
	}
	var b strings.Builder
	g.explain(&b)
	if !strings.Contains(b.String(), "from all (") || !strings.Contains(b.String(), "* left: f(a)") {
		t.Errorf("EXPLAIN says\n%s", &b)
	}
}
