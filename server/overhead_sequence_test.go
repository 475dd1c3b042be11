package server_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// nests is a program whose two threads call outer, which calls middle and that inner, some 100 us
// apart, as often as each line of its input says; rest is called in outer, and waits.
const nests = testenv.Work + `
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
volatile long sink;
static long turns;
NOINLINE void rest(void) { usleep(50); sink++; }
NOINLINE void inner(void) { work(); sink++; }
NOINLINE void middle(void) { inner(); work(); sink++; }
NOINLINE void outer(void) { middle(); rest(); middle(); sink++; }
static void *thread(void *unused) { for (long i = 0; i < turns; i++) outer(); return 0; }
int main(void) {
	char b[32];
	measure();
	puts("ready"); fflush(stdout);
	while (fgets(b, sizeof b, stdin)) {
		pthread_t t[2];
		turns = atol(b);
		for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, thread, 0);
		for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
		puts("done"); fflush(stdout);
	}
}
`

// TestOverheadOfSequences: function_call within an overhead is whole slices. In each, a thread's
// events follow one another as in the program, and a GAP is between it and the slice before.
// No call is said to have been left without returning.
func TestOverheadOfSequences(t *testing.T) {
	testenv.NeedUprobes(t)
	inC := testenv.CompileCText(t, nests, "-O1", "-pthread")
	inGo := testenv.CompileGo(t, filepath.Join("testdata", "gonests"))
	for _, c := range []struct{ name, program, returns, prefix string }{
		{"C, return traps", inC, "trap", ""},
		{"C, exits", inC, "exits", ""},
		{"Go", inGo, "auto", "main."},
	} {
		t.Run(c.name, func(t *testing.T) { testOverheadOfSequences(t, c.program, c.returns, c.prefix) })
	}
}

func testOverheadOfSequences(t *testing.T, program, returns, prefix string) {
	c := startProgram(t, program)
	c.turn(10)
	s := newSession(t, wire.Options{PID: c.pid})
	run(t, s, "SET return_probes = "+returns)
	// What may follow an event of a thread; at the beginning of a slice anything that begins.
	follows := map[string][]string{
		"ENTER outer": {"ENTER middle"}, "ENTER middle": {"ENTER inner"}, "ENTER inner": {"LEAVE inner"}, "LEAVE inner": {"LEAVE middle"},
		"LEAVE middle": {"ENTER rest", "LEAVE outer"}, "ENTER rest": {"LEAVE rest"}, "LEAVE rest": {"ENTER middle"}, "LEAVE outer": {"ENTER outer"},
	}
	// A thread that has few of the processors has few events in a slice: then it takes more turns.
	for turns := 10_000; ; turns *= 2 {
		fmt.Fprintln(c.in, turns)
		res := start(t, s, fmt.Sprintf("SELECT coalesce(goroutine, tid), event, function_name FROM function_call WHERE function_name ~ '^%s(outer|middle|inner|rest)$' WITHIN OVERHEAD 10%%", prefix))
		c.out.Scan()
		res.Stop()
		a := read(t, res)
		complete(t, a)
		notes := strings.Join(a.summary.Notes, "\n")
		if !a.summary.Sample || !strings.Contains(notes, "the rows are a sample of the calls of ") {
			t.Errorf("sample is %v, the notes are %s", a.summary.Sample, notes)
		}
		taken, err := strconv.Atoi(regexp.MustCompile(`\((\d+) were taken\)`).FindStringSubmatch(notes)[1])
		if err != nil {
			t.Fatal(err)
		}
		last, open, gaps, events := map[string]string{}, map[string]int{}, map[string]int{}, 0
		for i, r := range a.rows {
			tid, event := r[0], r[1]+" "+strings.TrimPrefix(r[2], prefix)
			if r[1] == "GAP" {
				last[tid], open[tid] = "", 0
				gaps[tid]++
				continue
			}
			events++
			was := last[tid]
			if last[tid] = event; r[1] == "ENTER" {
				open[tid]++
			} else {
				open[tid]--
			}
			if was == "" {
				if r[1] != "ENTER" {
					t.Errorf("row %d: a slice of thread %s begins with %s", i, tid, event)
				}
				continue
			}
			// Calls that began before the slice end unseen.
			around := open[tid] == 1 && r[1] == "ENTER" && strings.HasPrefix(was, "LEAVE")
			if !around && !slices.Contains(follows[was], event) {
				t.Errorf("row %d: %s follows %s in thread %s", i, event, was, tid)
			}
			if open[tid] < 0 {
				t.Errorf("row %d: thread %s leaves %s, which it has not entered since the gap", i, tid, r[2])
			}
		}
		t.Logf("%d turns: %d events, %d slices, gaps by thread %v", turns, events, taken, gaps)
		for tid, n := range gaps {
			if n >= taken {
				t.Errorf("thread %s has %d gaps in %d slices", tid, n, taken)
			}
		}
		if len(last) == 2 && len(gaps) == 2 && taken >= 3 && events >= 100 {
			break
		}
		if turns >= 160_000 {
			t.Fatalf("%d events of %d threads, with gaps of %d, in %d slices", events, len(last), len(gaps), taken)
		}
	}
	// An encoder does not join what a gap separates.
	var parts []string
	for turns := 8_000; len(parts) == 0 || parts[0] == "" && turns < 160_000; turns *= 2 {
		fmt.Fprintln(c.in, turns)
		res := start(t, s, fmt.Sprintf("SELECT CALLSTRING(event, function_name) FROM function_call WHERE function_name ~ '^%s(outer|middle|inner|rest)$' WITHIN OVERHEAD 10%%", prefix))
		c.out.Scan()
		res.Stop()
		a := read(t, res)
		complete(t, a)
		parts = strings.Split(strings.ReplaceAll(a.rows[0][0], prefix, ""), "\n")
		if !a.summary.Sample {
			t.Errorf("it is no sample: %v", a.summary.Notes)
		}
	}
	if parts[0] == "" {
		t.Error("no slice has calls")
	}
	next := map[string]string{"outer": "middle", "middle": "inner", "inner": "<", "rest": "<"}
	for _, part := range parts {
		tokens := strings.Fields(part)
		for i := range len(tokens) - 1 {
			if want := next[tokens[i]]; want != "" && tokens[i+1] != want {
				t.Errorf("%s follows %s in %.100s", tokens[i+1], tokens[i], part)
				break
			}
		}
	}
	if why := refusal(t, s, "SELECT COUNT(*) FROM function_call WHERE function_name = '"+prefix+"inner' WITHIN OVERHEAD 1%"); !strings.Contains(why, "has no meaning with calls of the sequence missing") {
		t.Error(why)
	}
}
