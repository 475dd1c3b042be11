package server_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// numbersItsCalls is a program that passes the number of the call to each of two functions: for each
// line with a number n it calls step n times, some 10 us apart, and seldom once for 20,000 of these.
const numbersItsCalls = testenv.Work + `
#include <stdio.h>
#include <stdlib.h>
volatile long sink; long steps, seldoms;
__attribute__((noinline, noclone)) void step(long i) { sink += i; }
__attribute__((noinline, noclone)) void seldom(long i) { sink += i; }
int main(void) {
	char b[32];
	measure();
	puts("ready"); fflush(stdout);
	while (fgets(b, sizeof b, stdin)) {
		for (long i = 0, n = atol(b); i < n; i++) {
			work();
			step(steps++);
			if (i % 20000 == 0) seldom(seldoms++);
		}
		printf("%ld %ld\n", steps, seldoms); fflush(stdout);
	}
}
`

// TestOverheadOfRows: rows within an overhead are all calls of a rare function, and whole slices of a
// hot one: between the first and the last call of a slice none is missing. The result says that
// it is a sample.
func TestOverheadOfRows(t *testing.T) {
	testenv.NeedUprobes(t)
	c := startProgram(t, testenv.CompileCText(t, numbersItsCalls, "-O1"))
	c.turn(1000)
	s := newSession(t, wire.Options{PID: c.pid})
	for _, stream := range []string{"function_start", "function_duration"} {
		// On a busy machine the program earns few slices in these turns: then it takes more.
		for turns := 300_000; ; turns *= 2 {
			fmt.Fprintln(c.in, turns)
			res := start(t, s, "SELECT function_name, arg0 FROM "+stream+" WHERE function_name IN (step, seldom) WITHIN OVERHEAD 10%")
			c.out.Scan()
			res.Stop()
			a := read(t, res)
			complete(t, a)
			notes := strings.Join(a.summary.Notes, "\n")
			if !a.summary.Sample || !regexp.MustCompile(`the rows are a sample of the calls of step \([\d.e-]+ % of the program's progress was seen\), and all calls of 1 function`).MatchString(notes) {
				t.Errorf("%s: sample is %v, the notes are %s", stream, a.summary.Sample, notes)
			}
			steps, last, runs := 0, -1, 0
			next := map[string]int{}
			for _, r := range a.rows {
				n, err := strconv.Atoi(r[1])
				if err != nil {
					t.Fatal(err)
				}
				switch r[0] {
				case "step":
					if n <= last {
						t.Fatalf("%s: call %d follows %d", stream, n, last)
					}
					if n != last+1 {
						runs++
					}
					steps, last = steps+1, n
				case "seldom":
					if was, some := next[stream]; some && n != was {
						t.Errorf("%s: call %d of the rare function follows %d", stream, n, was-1)
					}
					next[stream] = n + 1
				}
			}
			slices, err := strconv.Atoi(regexp.MustCompile(`\((\d+) were taken\)`).FindStringSubmatch(notes)[1])
			if err != nil {
				t.Fatal(err)
			}
			total := strings.Fields(c.out.Text())
			t.Logf("%s: %d of %s calls, in %d runs, and %d slices; the last rare call is %d of %s", stream, steps, total[0], runs, slices, next[stream], total[1])
			if runs > slices+1 {
				t.Errorf("%s: %d calls in %d runs, and %d slices", stream, steps, runs, slices)
			}
			if fmt.Sprint(next[stream]) != total[1] {
				t.Errorf("%s: the last rare call is %d of %s", stream, next[stream], total[1])
			}
			if runs >= 2 {
				break
			}
			if turns > 2_000_000 {
				t.Fatalf("%s: %d calls in %d runs, and %d slices", stream, steps, runs, slices)
			}
		}
	}
}

// napsInCalls is a program that calls step for each turn, and rests for 100 ms in each 2,000th call.
const napsInCalls = `
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
volatile long sink; long steps;
__attribute__((noinline, noclone)) void step(long i) { if (i % 2000 == 0) usleep(100000); sink += i; }
int main(void) {
	char b[32];
	puts("ready"); fflush(stdout);
	while (fgets(b, sizeof b, stdin)) {
		for (long i = 0, n = atol(b); i < n; i++) step(steps++);
		printf("%ld\n", steps); fflush(stdout);
	}
}
`

// TestOverheadOfRowsThatAreMissing: calls that end long after their slice are counted. Of several runs one
// suffices in which a slice has such a call.
func TestOverheadOfRowsThatAreMissing(t *testing.T) {
	testenv.NeedUprobes(t)
	c := startProgram(t, testenv.CompileCText(t, napsInCalls, "-O1"))
	s := newSession(t, wire.Options{PID: c.pid})
	const naps = 60
	testenv.Until(t, "a slice has a call that rests", func() bool {
		fmt.Fprintln(c.in, 2000*naps)
		res := start(t, s, "SELECT arg0 FROM function_duration WHERE function_name = 'step' WITHIN OVERHEAD 30%")
		c.out.Scan()
		res.Stop()
		a := read(t, res)
		complete(t, a)
		notes := strings.Join(a.summary.Notes, "\n")
		t.Logf("%d rows, %s", len(a.rows), notes)
		said := regexp.MustCompile(`; missing are (\d+) of their calls, which had not ended soon after their slice`).FindStringSubmatch(notes)
		if said == nil {
			return false
		}
		if n, _ := strconv.Atoi(said[1]); n < 1 || n > naps {
			t.Errorf("%d calls are missing, %d rested", n, naps)
		}
		return true
	})
}
