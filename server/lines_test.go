package server_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// inlinedCallers is a program in which leaf is called by a function that is compiled into its
// caller, at two of its lines.
const inlinedCallers = `
#include <stdio.h>
#define NOINLINE __attribute__((noinline, noclone))
#define INLINE static inline __attribute__((always_inline))
volatile long sink;
NOINLINE long leaf(long n) { sink += n; return sink; }
INLINE long helper(long n)
{
	return leaf(n) + 1; // calls
}
NOINLINE long outer(long n)
{
	long a = helper(n); // first
	sink ^= a;
	return helper(n + 1) ^ a; // second
}
INLINE long begin(long n)
{
	return n * 3 ^ n >> 1;
}
NOINLINE long starter(long n)
{
	return begin(n);
}
NOINLINE void take(long (*f)(long)) { sink ^= f(1); }
int main(void)
{
	char line[10];
	puts("ready"); fflush(stdout);
	if (!fgets(line, sizeof line, stdin)) return 1;
	for (int i = 0; i < 10; i++) sink ^= outer(i) + starter(i);
	take(starter);
	puts("done"); fflush(stdout);
	if (!fgets(line, sizeof line, stdin)) return 1;
	return 0;
}
`

// lineOf returns the number of the line of a text that contains a mark.
func lineOf(t *testing.T, text, mark string) string {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		if strings.Contains(line, mark) {
			return fmt.Sprint(i + 1)
		}
	}
	t.Fatalf("no line has %s", mark)
	return ""
}

// The frames of calls have their lines, and those of inlined calls say so. Stacks that differ in
// lines only are equal, unless the query reads lines. An address is a function's also where its
// code is that of an inlined call; a place within a function has the stack of such a call.
func TestLinesOfStacks(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, inlinedCallers, "-O2", "-g")
	address := ""
	for line := range strings.Lines(testenv.Output(t, "nm", target)) {
		if f := strings.Fields(line); f[len(f)-1] == "starter" {
			address = f[0]
		}
	}
	entry := strings.Fields(testenv.Output(t, "addr2line", "-i", "-f", "-e", target, address))
	if len(entry) < 4 || entry[0] != "begin" {
		t.Fatalf("starter begins in %q", entry)
	}
	source, _, _ := strings.Cut(entry[1], ":")
	p := startStepper(t, target)
	s := newSession(t, wire.Options{PID: p.pid})
	calls, first, second := lineOf(t, inlinedCallers, "// calls"), lineOf(t, inlinedCallers, "// first"), lineOf(t, inlinedCallers, "// second")
	module := filepath.Base(target)
	// The first instruction of starter belongs to begin.
	const ofStarter = " FROM function_start WHERE function_name = 'starter' "
	const from = " FROM function_start WHERE function_name = 'leaf' "
	queries := []struct {
		text string
		want []string
	}{
		{"SELECT caller, COUNT(*)" + from + "GROUP BY caller", []string{"helper 20"}},
		{"SELECT format_stack(stack, 3), folded_stack(stack, 3), COUNT(*)" + from + "GROUP BY stack", []string{"leaf < helper < outer outer;helper;leaf 20"}},
		{"SELECT frame(stack, 1), frame(stack, 1).inlined, frame(stack, 1).line, frame(stack, 2).function, frame(stack, 2).module, frame(stack, 2).inlined, frame(stack, 2).line, COUNT(*)" + from + "GROUP BY stack",
			[]string{"helper true " + calls + " outer " + module + " false " + first + " 10", "helper true " + calls + " outer " + module + " false " + second + " 10"}},
		{"SELECT frame(s, 2).line, COUNT(*) FROM (SELECT stack AS s" + from + ") GROUP BY frame(s, 2).line", []string{first + " 10", second + " 10"}},
		{"SELECT source_stack(stack, 1), frame(stack, 1), COUNT(*)" + ofStarter + "GROUP BY stack", []string{"starter at " + source + ":" + lineOf(t, inlinedCallers, "return begin") + " main 10", "starter at " + source + ":" + lineOf(t, inlinedCallers, "return begin") + " take 1"}},
		{"SELECT symbol(arg0) FROM function_start WHERE function_name = 'take'", []string{"starter"}},
		{"SELECT format_stack(stack, 2) FROM function_start WHERE function_name = '" + filepath.Base(source) + ":" + calls + "' GROUP BY format_stack(stack, 2)", []string{"helper < outer"}},
	}
	var running []wire.Result
	for _, q := range queries {
		running = append(running, start(t, s, q.text))
	}
	p.step() // it makes its calls
	p.step() // and ends
	for i, r := range running {
		a := read(t, r)
		complete(t, a)
		var got []string
		for _, row := range a.rows {
			got = append(got, strings.Join(row, " "))
		}
		slices.Sort(got)
		if !slices.Equal(got, queries[i].want) {
			t.Errorf("%s: %q, want %q", queries[i].text, got, queries[i].want)
		}
	}
}
