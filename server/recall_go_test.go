package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// What is recalled of a goroutine is what it did itself, whichever threads it ran on.
func TestRecallOfGoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileGo(t, filepath.Join("testdata", "gorecall"))
	t.Run("function_duration", func(t *testing.T) { testRecallOfGoroutines(t, program, "function_duration", 0) })
	// The return of slow is still to come.
	t.Run("function_start", func(t *testing.T) { testRecallOfGoroutines(t, program, "function_start", 1) })
}

// testRecallOfGoroutines has a trigger on calls of slow, whose last events are not recorded yet.
func testRecallOfGoroutines(t *testing.T, program, stream string, last int) {
	cmd := exec.Command(program)
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
	lines.Buffer(nil, 1<<22)
	lines.Scan() // it is ready
	s := newSession(t, wire.Options{PID: cmd.Process.Pid})
	run(t, s, "CREATE TRIGGER late ON "+stream+` WHEN function_name = 'main.slow'
BEGIN RECALL function_call WHERE function_name IN ('main.request', 'main.branch', 'main.leaf', 'main.slow') LAST 1h END`)
	fmt.Fprintln(in)
	logs, slows, total := map[int64]string{}, map[int64][]int{}, 0
	for lines.Scan() && lines.Text() != "done" {
		f := strings.Fields(lines.Text())
		id, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			t.Fatal(lines.Text())
		}
		if f[0] == "log" {
			logs[id] = f[2]
			continue
		}
		for _, at := range strings.Split(f[2], ",") {
			n, err := strconv.Atoi(at)
			if err != nil {
				t.Fatal(lines.Text())
			}
			slows[id] = append(slows[id], n)
			total++
		}
	}
	testenv.Until(t, "all slow calls have activated the trigger", func() bool {
		return triggerColumn(t, s, "late", "activations") == strconv.Itoa(total)
	})
	run(t, s, "DROP TRIGGER late")
	type firing struct {
		recalled  int
		events    strings.Builder
		goroutine int64
		tids      map[int64]bool
	}
	var firings []*firing
	for _, r := range triggered(t, s).rows {
		var row struct {
			summary
			Event          string
			Function       string `json:"function_name"`
			Goroutine, TID int64
		}
		if err := json.Unmarshal([]byte(r[4]), &row); err != nil {
			t.Fatalf("%v: %s", err, r[4])
		}
		if row.Recalled != nil {
			if firings = append(firings, &firing{recalled: *row.Recalled, tids: map[int64]bool{}}); row.Reason != "" {
				t.Errorf("activation %s: %s", r[2], r[4])
			}
			continue
		}
		f := firings[len(firings)-1]
		f.events.WriteString(row.Event[:1] + row.Function[len("main."):][:1])
		f.goroutine, f.tids[row.TID] = row.Goroutine, true
	}
	moved, at := 0, map[int64]int{}
	for i, f := range firings {
		k := at[f.goroutine]
		if at[f.goroutine]++; k >= len(slows[f.goroutine]) {
			t.Fatalf("activation %d is of goroutine %d, which had %d slow calls", i+1, f.goroutine, len(slows[f.goroutine]))
		}
		if len(f.tids) > 1 {
			moved++
		}
		want, got := logs[f.goroutine][:2*(slows[f.goroutine][k]-last)], f.events.String()
		if least := 2 * 4096; len(got) < min(len(want), least) || !strings.HasSuffix(want, got) {
			t.Fatalf("activation %d, slow call %d of goroutine %d: %d events of %d recalled, which are not the last of %d", i+1, k+1, f.goroutine, len(got)/2, f.recalled, len(want)/2)
		}
	}
	t.Logf("%d activations, %d with events of several threads", len(firings), moved)
	if len(firings) != total || moved < total/10 {
		t.Errorf("%d activations of %d slow calls, %d with events of several threads", len(firings), total, moved)
	}
}
