package server_test

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// countingItself is a program that counts itself: for each line with a number n it does n turns and
// then prints the numbers of calls. A turn takes 10 us, times WORK, and calls hot; each 50th calls
// warm, each 20,000th rare. It ends with its input.
const countingItself = testenv.Work + `
#include <stdio.h>
#include <stdlib.h>
#ifndef WORK
#define WORK 1
#endif
volatile long sink; long hots, warms, rares;
__attribute__((noinline, noclone)) void hot(long a) { sink += a; hots++; }
__attribute__((noinline, noclone)) void warm(long a) { sink += a; warms++; }
__attribute__((noinline, noclone)) void rare(long a) { sink += a; rares++; }
__attribute__((noinline, noclone)) void never(long a) { sink += a; }
int main(void) {
	char b[32];
	measure();
	puts("ready"); fflush(stdout);
	while (fgets(b, sizeof b, stdin)) {
		for (long i = 0, n = atol(b); i < n; i++) {
			for (int k = 0; k < WORK; k++) work();
			hot(i % 7);
			if (i % 50 == 0) warm(i);
			if (i % 20000 == 0) rare(i);
			if (n < 0) never(i);
		}
		printf("%ld %ld %ld\n", hots, warms, rares); fflush(stdout);
	}
}
`

// counter is such a program that runs.
type counter struct {
	pid int
	in  io.WriteCloser
	out *bufio.Scanner
}

func startCounter(t testing.TB) *counter {
	return startProgram(t, testenv.CompileCText(t, countingItself, "-O1"))
}

// startProgram starts a program that says when it is ready.
func startProgram(t testing.TB, path string) *counter {
	cmd := exec.Command(path)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	c := &counter{pid: cmd.Process.Pid, in: in, out: bufio.NewScanner(out)}
	c.out.Buffer(nil, 1<<20)
	c.out.Scan()
	return c
}

// turn does n turns and returns how often each function was called in all.
func (c *counter) turn(n int) map[string]int64 {
	fmt.Fprintln(c.in, n)
	c.out.Scan()
	counts := map[string]int64{}
	for i, word := range strings.Fields(c.out.Text()) {
		counts[[]string{"hot", "warm", "rare"}[i]], _ = strconv.ParseInt(word, 10, 64)
	}
	return counts
}

// within fails if a value is not within the bounds of a row, which may be a little too narrow
// in one of twenty runs, or if what is said to be exact is not.
func within(t *testing.T, what string, exact bool, value, low, high string, truth int64) {
	t.Helper()
	t.Logf("%s: %s (%s to %s), exact %v; it is %d", what, value, low, high, exact, truth)
	if exact {
		if value != fmt.Sprint(truth) || low != value || high != value {
			t.Errorf("%s: %s (%s to %s) is said to be exact, it is %d", what, value, low, high, truth)
		}
		return
	}
	const slack = 1.3
	if l, err := strconv.ParseFloat(low, 64); err == nil && l > slack*float64(truth) {
		t.Errorf("%s: at least %s, it is %d", what, low, truth)
	}
	if h, err := strconv.ParseFloat(high, 64); err == nil && h*slack < float64(truth) {
		t.Errorf("%s: at most %s, it is %d", what, high, truth)
	}
}

// TestOverheadOfLoadThatComesLater: all functions of an idle program are observed all the
// time. When it becomes busy the hot one is not any more, and the others still are.
func TestOverheadOfLoadThatComesLater(t *testing.T) {
	testenv.NeedUprobes(t)
	c := startCounter(t)
	s := newSession(t, wire.Options{PID: c.pid})
	res := start(t, s, "SELECT function_name, COUNT(*), exact(COUNT(*)), share(COUNT(*)), MAX(arg0), high(MAX(arg0)) FROM function_start WHERE function_name IN (hot, warm, rare, never) GROUP BY function_name WITHIN OVERHEAD 10%")
	truth := c.turn(200_000)
	res.Stop()
	a := read(t, res)
	complete(t, a)
	seen := map[string][]string{}
	for _, r := range a.rows {
		seen[r[0]] = r
	}
	for name, n := range truth {
		r := seen[name]
		if r == nil {
			t.Errorf("%s is not in %v", name, a.rows)
			continue
		}
		within(t, name, r[2] == "true", r[1], r[6], r[7], n)
	}
	if r := seen["hot"]; r != nil && (r[2] == "true" || r[3] == "1" || r[5] != "NULL") {
		t.Errorf("hot is exact, or its maximum has a bound: %v", r)
	}
	if r := seen["rare"]; r != nil && (r[2] != "true" || r[3] != "1") {
		t.Errorf("rare is not exact: %v", r)
	}
	if seen["never"] != nil {
		t.Errorf("never was not called: %v", a.rows)
	}
	notes := strings.Join(res.Summary().Notes, "\n")
	if !strings.Contains(notes, "of 10 % allowed") || !strings.Contains(notes, "in slices") {
		t.Errorf("the footer does not say what was spent: %q", notes)
	}
}

// crowd is a program of many functions that counts itself: two threads work for 30 µs and call the
// first ones in each turn, and one of the others in each 64th, a thousand of these each second.
// For each line with a number of turns it prints how often each function has been called.
func crowd(functions, hot int) string {
	var b strings.Builder
	b.WriteString(testenv.Work)
	fmt.Fprintf(&b, "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\nenum { N = %d, HOT = %d };\nlong counts[2][N];\n", functions, hot)
	for i := range functions {
		fmt.Fprintf(&b, "__attribute__((noinline, noclone)) void f%d(long t) { counts[t][%d]++; __asm__ volatile(\"\"); }\n", i, i)
	}
	b.WriteString("void (*all[])(long) = {")
	for i := range functions {
		fmt.Fprintf(&b, "f%d, ", i)
	}
	b.WriteString(`};
long turns;
static void *run(void *p) {
	long t = (long)p;
	for (long i = 0; i < turns; i++) {
		work(), work(), work();
		for (int k = 0; k < HOT; k++) all[k](t);
		if (i % 64 == 0) all[HOT + i / 64 % (N - HOT)](t);
	}
	return 0;
}
int main(void) {
	char b[32];
	measure();
	puts("ready"); fflush(stdout);
	while (fgets(b, sizeof b, stdin)) {
		pthread_t other;
		turns = atol(b);
		pthread_create(&other, 0, run, (void *)1);
		run(0);
		pthread_join(other, 0);
		for (int k = 0; k < N; k++) printf("%ld ", counts[0][k] + counts[1][k]);
		puts(""); fflush(stdout);
	}
}
`)
	return b.String()
}

// TestOverheadMovesWhatIsCalm: links with hot functions are replaced while the other functions
// are called. Of these no call is missing, and none counts twice.
func TestOverheadMovesWhatIsCalm(t *testing.T) {
	testenv.NeedUprobes(t)
	const functions, hot = 400, 8
	c := startProgram(t, testenv.CompileCText(t, crowd(functions, hot), "-O1", "-pthread"))
	s := newSession(t, wire.Options{PID: c.pid})
	res := start(t, s, "SELECT function_name, COUNT(*), exact(COUNT(*)) FROM function_start WHERE function_name LIKE 'f%' GROUP BY function_name WITHIN OVERHEAD 10%")
	var truth []string
	for range 3 {
		fmt.Fprintln(c.in, 40_000)
		c.out.Scan()
		truth = strings.Fields(c.out.Text())
	}
	res.Stop()
	a := read(t, res)
	complete(t, a)
	exact := 0
	for _, r := range a.rows {
		i, err := strconv.Atoi(strings.TrimPrefix(r[0], "f"))
		if err != nil || i >= functions {
			continue // a function of the C library
		}
		if r[2] != "true" {
			continue
		}
		exact++
		if i < hot || r[1] != truth[i] {
			t.Errorf("%s was called %s times, which is said to be exact; it is %s", r[0], r[1], truth[i])
		}
	}
	t.Logf("%d functions are exact; %v", exact, a.summary.Notes)
	// On a busy machine some of them are seen in slices: probes are dearer, and the program does less.
	if exact < (functions-hot)/2 {
		t.Errorf("%d functions are exact, of %d that are called rarely", exact, functions-hot)
	}
}

// TestOverheadOfDurations: in a busy program a hot function is seen in slices from the start.
// Its durations have estimates of all kinds, and nothing is attached afterwards.
func TestOverheadOfDurations(t *testing.T) {
	testenv.NeedUprobes(t)
	c := startCounter(t)
	c.turn(1000)
	s := newSession(t, wire.Options{PID: c.pid})
	fmt.Fprintln(c.in, 400_000)
	res := start(t, s, `SELECT function_name, COUNT(*), exact(COUNT(*)), AVG(duration), MIN(duration), MAX(duration), QUANTILE(duration, 0.9), STDDEV(duration), HISTOGRAM(duration),
		SUM(duration) / COUNT(*) AS mean
		FROM function_duration WHERE function_name IN (hot, rare) GROUP BY function_name EMIT EVERY 1s WITHIN OVERHEAD 20%`)
	c.out.Scan()
	res.Stop()
	a := read(t, res)
	complete(t, a)
	if a.flushes == 0 || len(a.rows) == 0 {
		t.Fatalf("%d results with %d rows", a.flushes, len(a.rows))
	}
	for _, r := range a.rows {
		value := func(i int) float64 { x, _ := strconv.ParseFloat(r[i], 64); return x }
		if ratio := value(9) / value(3); ratio < 0.999 || ratio > 1.001 {
			t.Errorf("the sum divided by the count is not the average: %v", r)
		}
		if r[1] == "0" || value(4) > value(3) || value(3) > value(5) || value(6) > value(5) || value(6) < value(4) {
			t.Errorf("not count, average between minimum and maximum: %v", r)
		}
		if r[2] == "false" && (r[14] != "NULL" || r[17] != "NULL") {
			t.Errorf("the minimum has a lower bound, or the maximum an upper one: %v", r)
		}
	}
	if plan := read(t, start(t, s, "SHOW PROBES")); len(plan.rows) != 0 {
		t.Errorf("still attached: %v", plan.rows)
	}
}

// alwaysInside is a program that is nearly always in a call of work, for as much CPU time as its
// input says, in ms. It prints the number of calls, and the CPU time that they took together, ns.
const alwaysInside = `
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
__attribute__((noinline, noclone)) void work(void) { for (int k = 0; k < 60000; k++) __asm__ volatile(""); }
int main(void) {
	char b[32];
	puts("ready"); fflush(stdout);
	while (fgets(b, sizeof b, stdin)) {
		long begin = now(), end = begin + atol(b) * 1000000L, n = 0;
		for (; now() < end; n++) work();
		printf("%ld %ld\n", n, now() - begin); fflush(stdout);
	}
}
`

// TestOverheadOfCallsUnderWay: calls that begin in a slice and end after it are not lost, and so
// counts and averages keep their intervals, although each slice ends within a call. A call whose
// thread has no processor for longer than calls are waited for is lost, as is said: so one of
// three runs suffices.
func TestOverheadOfCallsUnderWay(t *testing.T) {
	testenv.NeedUprobes(t)
	c := startProgram(t, testenv.CompileCText(t, alwaysInside, "-O1"))
	s := newSession(t, wire.Options{PID: c.pid})
	var lacks []string
	for range 3 {
		fmt.Fprintln(c.in, 6000)
		res := start(t, s, `SELECT COUNT(*), low(COUNT(*)), high(COUNT(*)), AVG(duration), low(AVG(duration)), high(AVG(duration)), exact(COUNT(*))
			FROM function_duration WHERE function_name = 'work' WITHIN OVERHEAD 3%`)
		c.out.Scan()
		res.Stop()
		a := read(t, res)
		complete(t, a)
		t.Logf("%v of %s calls in %s ns of CPU time; %v", a.rows, strings.Fields(c.out.Text())[0], strings.Fields(c.out.Text())[1], a.summary.Notes)
		if len(a.rows) != 1 || a.rows[0][6] != "false" {
			t.Fatalf("no estimate: %v", a.rows)
		}
		lacks = nil
		for i, name := range []string{2: "count", 4: "average", 5: "average"} {
			if name != "" && a.rows[0][i] == "NULL" {
				lacks = append(lacks, fmt.Sprintf("the %s has no bound: %v", name, a.rows))
			}
		}
		for _, n := range a.summary.Counts {
			if n.Cause == "unfinished" {
				lacks = append(lacks, fmt.Sprintf("%d calls were under way at the end of a slice, and lost", n.N))
			}
		}
		if lacks == nil {
			return
		}
	}
	t.Error(strings.Join(lacks, "; "))
}
