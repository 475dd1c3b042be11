package server_test

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// eventLoops is a program with three threads: one waits for events and handles
// them, one has a function that reads the next message, and two only wait.
const eventLoops = `
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
static volatile unsigned long sink;
static int messages[2], answers[2];
static void nap(long us) { struct timespec t = {0, us * 1000}; nanosleep(&t, 0); }
static void burn(long us) {
	struct timespec a, b;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	do { for (int i = 0; i < 1000; i++) sink += i; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b); }
	while ((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000 < us);
}
NOINLINE void handle_event(int n) { burn(4000); sink += n; }
NOINLINE void loop(void) { for (;;) { nap(8000); handle_event(1); sink++; } }
static void *waiter(void *p) { loop(); return p; }

NOINLINE char next_message(void) { char c = 0; if (read(messages[0], &c, 1) != 1) abort(); return c; }
NOINLINE void process(char c) { burn(4000); sink += c; }
static void *reader(void *p) { for (;;) { process(next_message()); if (write(answers[1], "", 1) != 1) abort(); } return p; }
static void *writer(void *p) { char c; for (;;) { nap(8000); if (write(messages[1], "", 1) != 1 || read(answers[0], &c, 1) != 1) abort(); } return p; }

NOINLINE void rest(void) { nap(10000); sink++; }
static void *worker(void *p) { for (;;) rest(); return p; }
int main(void) {
	pthread_t t;
	if (pipe(messages) || pipe(answers)) return 1;
	pthread_create(&t, 0, waiter, 0);
	pthread_create(&t, 0, reader, 0);
	pthread_create(&t, 0, writer, 0);
	pthread_create(&t, 0, worker, 0);
	pause();
}`

// The loops' handlers are found while the program runs, each by what brings its
// events, and nothing else is.
func TestEventHandlers(t *testing.T) {
	testenv.NeedUprobes(t)
	target := exec.Command(testenv.CompileCText(t, eventLoops, "-O1", "-pthread", "-fno-optimize-sibling-calls"))
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { target.Process.Kill(); target.Wait() }()
	s := newSession(t, wire.Options{PID: target.Process.Pid})
	well := func(row []string) bool {
		samples, _ := strconv.Atoi(row[3])
		confidence, _ := strconv.ParseFloat(row[4], 64)
		return samples >= 10 && confidence >= 0.5
	}
	r := start(t, s, "SELECT handler, kind, node_type, samples, confidence FROM SAMPLE(event_handlers, 2s) WHERE kind = 'EVENT' FOR 3min")
	a := readUntil(t, r, func(a reply) bool { // of all samples so far, three times
		times := map[string]int{}
		for _, row := range a.rows {
			if well(row) {
				times[row[0]]++
			}
		}
		return times["handle_event"] >= 3 && times["process"] >= 3
	})
	last := map[string][]string{} // what is found the last time
	for _, row := range a.rows {
		last[row[0]] = row
	}
	for handler, want := range map[string]string{"handle_event": "NODE_WAIT", "process": "NODE_IO"} {
		row := last[handler]
		if row == nil {
			t.Errorf("%s is not found: %v", handler, a.rows)
			continue
		}
		if row[1] != "EVENT" || row[2] != want || !well(row) {
			t.Errorf("%s: %v", handler, row)
		}
		delete(last, handler)
	}
	if len(last) > 0 {
		t.Errorf("also found: %v", last)
	}
}

// TRIE shows the same program as a tree, with its handlers, in each of its forms.
func TestTrie(t *testing.T) {
	testenv.NeedUprobes(t)
	target := exec.Command(testenv.CompileCText(t, eventLoops, "-O1", "-pthread", "-fno-optimize-sibling-calls"))
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { target.Process.Kill(); target.Wait() }()
	s := newSession(t, wire.Options{PID: target.Process.Pid})
	a := read(t, start(t, s, `SELECT TRIE(stack, state, syscall), folded(TRIE(stack, state, syscall)), xml(TRIE(stack, state, syscall)), svg(TRIE(stack, state, syscall))
		FROM SAMPLE(stack_sample, 10ms) FOR 6s`))
	// A function's line has what it did itself (" run=1") where a sample met it.
	for i, parts := range [][]string{
		{` waiter \(`, ` loop \(WAIT\)`, ` handle_event \(RUN\)[ a-z=0-9]* <- EVENT NODE_WAIT\n`, ` process \(RUN\)[ a-z=0-9]* <- EVENT NODE_IO\n`},
		{`start_thread;waiter;loop;handle_event;burn `, `start_thread;waiter;loop;`},
		{`METHOD="handle_event"`, `<EVENT METHOD="process" TYPE="NODE_IO">`},
		{`<svg xmlns`, `data-n="handle_event"`},
	} {
		for _, part := range parts {
			if !regexp.MustCompile(part).MatchString(a.rows[0][i]) {
				t.Errorf("column %d lacks %q: %s", i, part, a.rows[0][i])
			}
		}
	}
	for query, want := range map[string]string{
		"SELECT TRIE(tid) FROM SAMPLE(stack_sample, 10ms)":        "TRIE does not take a BIGINT",
		"SELECT TRIE(stack, tid) FROM SAMPLE(stack_sample, 10ms)": "TRIE needs a VARCHAR here",
	} {
		_, err := s.Execute(context.Background(), query)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
}

// The handlers that are found are probed while they are: each of their calls is a
// row with what it has cost.
func TestHandlerCost(t *testing.T) {
	testenv.NeedUprobes(t)
	target := exec.Command(testenv.CompileCText(t, eventLoops, "-O1", "-pthread", "-fno-optimize-sibling-calls"))
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { target.Process.Kill(); target.Wait() }()
	s := newSession(t, wire.Options{PID: target.Process.Pid})
	q := start(t, s, `SELECT handler, COUNT(*), AVG(to_ms(cpu_time)), MIN(to_ms(duration))
		FROM handler_cost WHERE module = 'target' GROUP BY handler`)
	testenv.Until(t, "both handlers are called", func() bool {
		return len(ask(t, s, "SELECT DISTINCT function_name FROM sys.probes WHERE hits > 50 AND function_name IN ('handle_event', 'process')").rows) == 2
	})
	q.Stop()
	a := read(t, q)
	found := map[string]bool{}
	for _, row := range a.rows {
		calls, _ := strconv.Atoi(row[1])
		cpu, _ := strconv.ParseFloat(row[2], 64)
		shortest, _ := strconv.ParseFloat(row[3], 64)
		found[row[0]] = true
		if calls < 10 || cpu < 3.8 || cpu > 8 || shortest < 3.8 { // each burns 4 ms
			t.Errorf("%v", row)
		}
	}
	if !found["handle_event"] || !found["process"] || len(found) > 2 {
		t.Errorf("calls of %v: %v", found, a.rows)
	}
	complete(t, a)
}

// changingLoop is a program that waits for events, and handles them by another
// function from a signal on.
const changingLoop = `
#include <signal.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
static volatile unsigned long sink;
static volatile sig_atomic_t changed;
static void change(int s) { changed = s; }
static void burn(long us) {
	struct timespec a, b;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	do { for (int i = 0; i < 1000; i++) sink += i; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b); }
	while ((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000 < us);
}
NOINLINE void first_event(int n) { burn(4000); sink += n; }
NOINLINE void other_event(int n) { burn(4000); sink ^= n; }
NOINLINE void loop(void) { for (;;) { usleep(8000); if (changed) other_event(1); else first_event(1); sink++; } }
int main(void) { signal(SIGUSR1, change); loop(); }`

// Probes follow the handlers: a function that becomes one gets them, and one that has
// not been one for a while loses them.
func TestHandlerCostChanges(t *testing.T) {
	testenv.NeedUprobes(t)
	target := exec.Command(testenv.CompileCText(t, changingLoop, "-O1", "-fno-optimize-sibling-calls"))
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { target.Process.Kill(); target.Wait() }()
	s := newSession(t, wire.Options{PID: target.Process.Pid})
	ask(t, s, "SET handler_memory = 5s")
	calls := start(t, s, "SELECT handler, COUNT(*) FROM handler_cost WHERE module = 'target' GROUP BY handler")
	until := func(want string) {
		t.Helper()
		testenv.UntilNil(t, want+" is probed", func() error {
			var probed []string
			for _, row := range ask(t, s, "SELECT DISTINCT function_name FROM sys.probes WHERE provider = 'uprobe' AND hits > 0").rows {
				probed = append(probed, row[0])
			}
			if strings.Join(probed, " ") != want {
				return fmt.Errorf("probed: %v", probed)
			}
			return nil
		})
	}
	until("first_event")
	if err := target.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	until("other_event")
	target.Process.Kill()
	counted := map[string]bool{}
	for _, row := range read(t, calls).rows {
		counted[row[0]] = row[1] != "0"
	}
	if !counted["first_event"] || !counted["other_event"] || len(counted) != 2 {
		t.Errorf("calls of %v", counted)
	}
}

// Samples of stacks within calls that take long say what those calls were doing:
// a call of handle_event burns CPU time in burn.
func TestCallsWithStacks(t *testing.T) {
	testenv.NeedUprobes(t)
	target := exec.Command(testenv.CompileCText(t, eventLoops, "-O1", "-pthread", "-fno-optimize-sibling-calls"))
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { target.Process.Kill(); target.Wait() }()
	s := newSession(t, wire.Options{PID: target.Process.Pid})
	seconds := 0
	testenv.Once(t, func() error {
		seconds += 3
		a := ask(t, s, fmt.Sprintf(`SELECT frame(s.stack, 0), s.state, COUNT(*) FROM function_duration d WINDOW JOIN SAMPLE(stack_sample, 10ms) s WINDOW 50ms
			ON d.tid = s.tid AND s.timestamp >= d.start_time AND s.timestamp <= d.timestamp
			WHERE d.function_name = 'handle_event' AND folded_stack(s.stack) LIKE '%%;loop;handle_event%%' GROUP BY 1, 2 FOR %ds`, seconds))
		all, burns := 0, 0
		for _, row := range a.rows {
			n, _ := strconv.Atoi(row[2])
			all += n
			if row[1] == "RUN" && (row[0] == "burn" || strings.Contains(row[0], "clock_gettime") || row[0] == "handle_event") {
				burns += n
			}
		}
		if all < 50 {
			return fmt.Errorf("%d samples within calls", all)
		}
		if float64(burns) < 0.9*float64(all) {
			t.Errorf("%d of %d samples within calls run where these spend their time: %v", burns, all, a.rows)
		}
		return nil
	})
}
