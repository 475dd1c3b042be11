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
	moved := 0
	for stream, last := range map[string]int{"function_duration": 0, "function_start": 1} { // there the return of slow is still to come
		t.Run(stream, func(t *testing.T) { moved += testRecallOfSlowCalls(t, program, "main.", stream, last) })
	}
	if moved < 6 {
		t.Errorf("%d activations have events of several threads", moved)
	}
}

// coroutinesRecall is the program of gorecall with coroutines, in one thread: slow lets others run.
const coroutinesRecall = `#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#define NOINLINE __attribute__((noinline, noclone))
enum { WORKERS = 6, REQUESTS = 15 };
static struct worker { ucontext_t at; unsigned seed; int n, slows, ended, positions[REQUESTS]; char log[1 << 16]; } all[WORKERS], *w;
static ucontext_t scheduler;
volatile long sink;
static int next(int below) { w->seed = w->seed * 1103515245 + 12345; return (w->seed >> 16) % below; }
static void note(const char *e) { w->log[w->n++] = e[0]; w->log[w->n++] = e[1]; }
NOINLINE void leaf(void) { note("El"); sink++; note("Ll"); }
NOINLINE void branch(int depth) { note("Eb"); if (depth > 0) { branch(depth - 1); leaf(); } sink++; note("Lb"); }
NOINLINE void slow(void) { note("Es"); swapcontext(&w->at, &scheduler); sink++; note("Ls"); }
NOINLINE void request(void) {
	note("Er");
	for (int i = next(40); i > 0; i--) branch(next(4));
	if (next(3) == 0) { slow(); w->positions[w->slows++] = w->n / 2; }
	sink++;
	note("Lr");
}
static void serve(void) {
	for (int i = 0; i < REQUESTS; i++) request();
	w->ended = 1;
	for (;;) swapcontext(&w->at, &scheduler);
}
int main(void) {
	puts("ready"); fflush(stdout);
	getchar();
	for (int i = 0; i < WORKERS; i++) {
		getcontext(&all[i].at);
		all[i].seed = i;
		all[i].at.uc_stack.ss_sp = malloc(1 << 16);
		all[i].at.uc_stack.ss_size = 1 << 16;
		makecontext(&all[i].at, serve, 0);
	}
	for (int ended = 0; ended < WORKERS;) {
		ended = 0;
		for (int i = 0; i < WORKERS; i++) {
			w = &all[i];
			if (!w->ended) swapcontext(&scheduler, &w->at);
			ended += w->ended;
		}
	}
	for (int i = 0; i < WORKERS; i++) {
		printf("log %d %s\nslow %d ", i, all[i].log, i);
		for (int k = 0; k < all[i].slows; k++) printf(k ? ",%d" : "%d", all[i].positions[k]);
		puts("");
	}
	puts("done"); fflush(stdout);
	getchar();
}
`

// What is recalled of a coroutine is what it did itself.
func TestRecallOfCoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	testRecallOfSlowCalls(t, testenv.CompileCText(t, coroutinesRecall, "-O1", "-fno-optimize-sibling-calls"), "", "function_duration", 0)
}

// testRecallOfSlowCalls compares what calls of slow recall with the log of the program. The last
// events before the position that it says are not recorded yet. The result is how many activations
// have events of several threads.
func testRecallOfSlowCalls(t *testing.T, program, prefix, stream string, last int) (moved int) {
	t.Helper()
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
	run(t, s, "CREATE TRIGGER late ON "+stream+` WHEN function_name = '`+prefix+`slow'
BEGIN RECALL function_call WHERE function_name ~ '^`+prefix+`(request|branch|leaf|slow)$' LAST 1h END`)
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
		f.events.WriteString(row.Event[:1] + row.Function[len(prefix):][:1])
		f.goroutine, f.tids[row.TID] = row.Goroutine, true
	}
	at := map[int64]int{} // slow calls so far, by number in the log
	for i, f := range firings {
		got, of := f.events.String(), int64(-1)
		for id, log := range logs {
			if k := at[id]; k < len(slows[id]) && got == log[:2*(slows[id][k]-last)] {
				of = id
			}
		}
		if of < 0 || len(got) != 2*f.recalled {
			t.Fatalf("activation %d recalled %d events of goroutine %d, %d in all, which are those of no log: %.200s", i+1, len(got)/2, f.goroutine, f.recalled, got)
		}
		at[of]++
		if len(f.tids) > 1 {
			moved++
		}
	}
	t.Logf("%d activations, %d with events of several threads", len(firings), moved)
	if len(firings) != total || total < 20 {
		t.Errorf("%d activations of %d slow calls", len(firings), total)
	}
	return moved
}
