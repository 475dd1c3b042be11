package server_test

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// A program whose calls are known to the last argument. It is C and C++.
const knownProgram = `
#ifndef __cplusplus
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdio.h>
volatile long sink;
#define NOINLINE __attribute__((noinline, noclone))
#ifdef __cplusplus
struct Box {
	static long add(long a, long b);
	static long scale(long a, long b);
};
#define IN(f) NOINLINE long Box::f
#define CALL(f) Box::f
#else
#define IN(f) NOINLINE long f
#define CALL(f) f
#endif
IN(add)(long a, long b) { sink += a; return a + b; }
IN(scale)(long a, long b) { sink += a; return CALL(add)(a, 0) * b + 1; }
NOINLINE long drop(long a) { sink += a; return a - 50; }
static void *work(void *p)
{
	long i = (long)p;
	pthread_setname_np(pthread_self(), i ? "worker-1" : "worker-0");
	for (long k = 0; k < 200; k++) {
		CALL(add)(k, i);
		if (k % 3 == 0)
			CALL(scale)(k, -2);
		drop(k % 70);
	}
	return 0;
}
int main(int argc, char **argv)
{
	char b[8];
	if (argc == 1) { // wait to be told
		puts("ready");
		fflush(stdout);
		if (!fgets(b, sizeof b, stdin))
			return 9;
	}
	pthread_t t[2];
	for (long i = 0; i < 2; i++)
		pthread_create(&t[i], 0, work, (void *)i);
	for (long i = 0; i < 2; i++)
		pthread_join(t[i], 0);
	for (long k = 0; k < 10; k++)
		CALL(add)(1000, k);
	return 0;
}`

// known is one of its calls.
type known struct {
	function, thread string
	arg0, arg1, ret  int64
	depth            int64
}

func knownCalls() (calls []known) {
	var thread string
	call := func(depth int64, f string, a, b int64) {
		c := known{f, thread, a, b, a + b, depth}
		switch f {
		case "scale":
			c.ret = a*b + 1
		case "drop":
			c.ret = a - 50
		}
		calls = append(calls, c)
	}
	for i := range int64(2) {
		thread = fmt.Sprint("worker-", i)
		for k := range int64(200) {
			call(0, "add", k, i)
			if k%3 == 0 {
				call(0, "scale", k, -2)
				call(1, "add", k, 0)
			}
			call(0, "drop", k%70, 0)
		}
	}
	thread = "target"
	for k := range int64(10) {
		call(0, "add", 1000, k)
	}
	return calls
}

// stagesCase is a query and what it gives over the calls. $F stands for the
// condition that chooses the functions.
type stagesCase struct {
	query string
	// single is set where the kernel cannot aggregate.
	single bool
	// where and by say which calls count and how they are grouped; of gives what
	// follows the key. Rows are in any order.
	where func(known) bool
	by    func(known) []any
	of    func([]known) []any
	rows  func([]known) [][]any // instead: the rows, in order
}

func all(known) bool                      { return true }
func together(known) []any                { return nil }
func byFunction(c known) []any            { return []any{c.function} }
func byThread(c known) []any              { return []any{c.thread} }
func number0(cs []known) []any            { return []any{len(cs)} }
func adds(c known) bool                   { return c.function == "add" }
func arg0(c known) int64                  { return c.arg0 }
func retval(c known) int64                { return c.ret }
func constant(v ...any) func(known) []any { return func(known) []any { return v } }

func sumOf(cs []known, x func(known) int64) (sum int64) {
	for _, c := range cs {
		sum += x(c)
	}
	return sum
}

func sortedOf(cs []known, x func(known) int64) []int64 {
	var xs []int64
	for _, c := range cs {
		xs = append(xs, x(c))
	}
	slices.Sort(xs)
	return xs
}

func varianceOf(cs []known, x func(known) int64) float64 {
	n, mean, squares := float64(len(cs)), float64(sumOf(cs, x))/float64(len(cs)), 0.0
	for _, c := range cs {
		squares += (float64(x(c)) - mean) * (float64(x(c)) - mean)
	}
	return squares / (n - 1)
}

// quantileOf is the smallest value whose cumulative share is at least q.
func quantileOf(cs []known, x func(known) int64, q float64) float64 {
	k := 1
	for float64(k)/float64(len(cs)) < q {
		k++
	}
	return float64(sortedOf(cs, x)[k-1])
}

// bucketsOf is a histogram: borders has the low end of each bucket.
func bucketsOf(cs []known, x func(known) int64, low func(int64) (lo, hi int64)) string {
	var list []types.Value
	last := int64(math.MinInt64)
	for _, v := range sortedOf(cs, x) {
		lo, hi := low(v)
		if lo != last {
			list = append(list, types.ListOf([]types.Value{types.Int(lo), types.Int(hi), types.Int(0)}))
			last = lo
		}
		list[len(list)-1].A.([]types.Value)[2].I++
	}
	return plan.FormatValue(types.ListOf(list))
}

func powers(v int64) (lo, hi int64) {
	if v == 0 {
		return 0, 1
	}
	for lo = 1; 2*lo <= v; lo *= 2 {
	}
	return lo, 2 * lo
}

var stagesCases = []stagesCase{
	// Keys of each kind.
	{query: "SELECT COUNT(*) FROM function_start WHERE $F", of: number0},
	{query: "SELECT function_name, COUNT(*) FROM function_start WHERE $F GROUP BY function_name", by: byFunction, of: number0},
	{query: "SELECT function_name, COUNT(*) FROM function_end WHERE $F GROUP BY function_name", by: byFunction, of: number0},
	{query: "SELECT function_name, COUNT(*) FROM function_duration WHERE $F GROUP BY function_name", by: byFunction, of: number0},
	{query: "SELECT module, COUNT(*), MAX(arg0) FROM function_start WHERE $F GROUP BY module", by: constant("target"),
		of: func(cs []known) []any { return []any{len(cs), 1000} }},
	{query: "SELECT process, COUNT(*) FROM function_start WHERE $F GROUP BY process", by: constant("target"), of: number0},
	{query: "SELECT COUNT(*) FROM function_start WHERE $F GROUP BY pid", of: number0},
	{query: "SELECT n, COUNT(*) FROM (SELECT tid, COUNT(*) AS n FROM function_start WHERE $F GROUP BY tid) GROUP BY n",
		rows: func([]known) [][]any { return [][]any{{534, 2}, {10, 1}} }},
	{query: "SELECT pid > 0, COUNT(*) FROM function_start WHERE $F GROUP BY 1", by: constant(true), of: number0},
	{query: "SELECT class, COUNT(*) FROM function_end WHERE $F AND function_name = 'drop' GROUP BY class", by: constant(""),
		where: func(c known) bool { return c.function == "drop" }, of: number0},
	{query: "SELECT thread_name, COUNT(*) FROM function_start WHERE $F GROUP BY thread_name", by: byThread, of: number0},
	{query: "SELECT thread_name, function_name, COUNT(*), SUM(retval) FROM function_duration WHERE $F GROUP BY thread_name, function_name",
		by: func(c known) []any { return []any{c.thread, c.function} },
		of: func(cs []known) []any { return []any{len(cs), sumOf(cs, retval)} }},
	{query: "SELECT arg0, COUNT(*), SUM(arg1) FROM function_start WHERE $F AND function_name = 'add' GROUP BY arg0", where: adds,
		by: func(c known) []any { return []any{c.arg0} },
		of: func(cs []known) []any { return []any{len(cs), sumOf(cs, func(c known) int64 { return c.arg1 })} }},
	{query: "SELECT retval, COUNT(*) FROM function_end WHERE $F GROUP BY retval", by: func(c known) []any { return []any{c.ret} }, of: number0},
	{query: "SELECT arg1, retval, COUNT(*) FROM function_duration WHERE $F AND function_name = 'add' GROUP BY arg1, retval", where: adds,
		by: func(c known) []any { return []any{c.arg1, c.ret} }, of: number0},
	{query: "SELECT function_name, depth, COUNT(*) FROM function_duration WHERE $F GROUP BY function_name, depth",
		by: func(c known) []any { return []any{c.function, c.depth} }, of: number0},
	{query: "SELECT arg0 % 10, MAX(arg0) FROM function_start WHERE $F GROUP BY 1", by: func(c known) []any { return []any{c.arg0 % 10} },
		of: func(cs []known) []any { return []any{slices.Max(sortedOf(cs, arg0))} }},
	{query: "SELECT arg0 > 100, COUNT(*) FROM function_start WHERE $F GROUP BY 1", by: func(c known) []any { return []any{c.arg0 > 100} }, of: number0},
	{query: "SELECT CASE WHEN arg0 > 100 THEN 'large' ELSE 'small' END, COUNT(*) FROM function_start WHERE $F GROUP BY 1",
		by: func(c known) []any { return []any{map[bool]string{true: "large", false: "small"}[c.arg0 > 100]} }, of: number0},

	// Functions of each kind.
	{query: "SELECT function_name, SUM(retval), AVG(retval), MIN(retval), MAX(retval) FROM function_end WHERE $F GROUP BY function_name", by: byFunction,
		of: func(cs []known) []any {
			xs, sum := sortedOf(cs, retval), sumOf(cs, retval)
			return []any{sum, float64(sum) / float64(len(cs)), xs[0], xs[len(xs)-1]}
		}},
	{query: "SELECT function_name, STDDEV(arg0), VARIANCE(arg0 - 1000) FROM function_start WHERE $F GROUP BY function_name", by: byFunction,
		of: func(cs []known) []any { return []any{math.Sqrt(varianceOf(cs, arg0)), varianceOf(cs, arg0)} }},
	{query: "SELECT thread_name, VARIANCE(retval) FROM function_duration WHERE $F GROUP BY thread_name", by: byThread,
		of: func(cs []known) []any { return []any{varianceOf(cs, retval)} }},
	{query: "SELECT function_name, HISTOGRAM(arg0) FROM function_start WHERE $F GROUP BY function_name", by: byFunction,
		of: func(cs []known) []any { return []any{bucketsOf(cs, arg0, powers)} }},
	{query: "SELECT HISTOGRAM(arg0, 0, 2000, 25), COUNT(*) FROM function_start WHERE $F",
		of: func(cs []known) []any {
			return []any{bucketsOf(cs, arg0, func(v int64) (int64, int64) { return v / 25 * 25, v/25*25 + 25 }), len(cs)}
		}},
	{query: "SELECT function_name, MEDIAN(arg0 + 100), QUANTILE(arg0 + 100, 0.99), COUNT(*) FROM function_duration WHERE $F GROUP BY function_name", by: byFunction,
		of: func(cs []known) []any {
			x := func(c known) int64 { return c.arg0 + 100 }
			return []any{quantileOf(cs, x, 0.5), quantileOf(cs, x, 0.99), len(cs)}
		}},
	{query: "SELECT QUANTILE(retval, 0.0), QUANTILE(retval, 1.0) FROM function_end WHERE $F",
		of: func(cs []known) []any { return []any{quantileOf(cs, retval, 0), quantileOf(cs, retval, 1)} }},
	{query: "SELECT thread_name, FIRST(arg1), LAST(arg1) FROM function_duration WHERE $F AND thread_name LIKE 'worker%' AND function_name = 'add' AND depth = 0 GROUP BY thread_name",
		where: func(c known) bool { return adds(c) && c.depth == 0 && c.thread != "target" }, by: byThread,
		of: func(cs []known) []any { return []any{cs[0].arg1, cs[0].arg1} }},
	{query: "SELECT FIRST(arg0), LAST(arg1) FROM function_start WHERE $F AND thread_name = 'target'",
		where: func(c known) bool { return c.thread == "target" }, of: func(cs []known) []any { return []any{cs[0].arg0, cs[len(cs)-1].arg1} }},
	{query: "SELECT function_name, RATE(*) > 0.0, COUNT(retval) FROM function_duration WHERE $F GROUP BY function_name", by: byFunction,
		of: func(cs []known) []any { return []any{true, len(cs)} }},
	{query: "SELECT function_name, SUM(arg0 * 3 - retval), MIN(-arg0) FROM function_duration WHERE $F GROUP BY function_name", by: byFunction,
		of: func(cs []known) []any {
			return []any{sumOf(cs, func(c known) int64 { return 3*c.arg0 - c.ret }), -sortedOf(cs, arg0)[len(cs)-1]}
		}},
	{query: "SELECT COUNT(*) FILTER (WHERE retval < 0), SUM(arg0) FILTER (WHERE arg0 % 2 = 0), MAX(arg0) FILTER (WHERE arg0 < 0), COUNT(*) FROM function_duration WHERE $F",
		of: func(cs []known) []any {
			negative, even := 0, int64(0)
			for _, c := range cs {
				if c.ret < 0 {
					negative++
				}
				if c.arg0%2 == 0 {
					even += c.arg0
				}
			}
			return []any{negative, even, "NULL", len(cs)}
		}},

	// Conditions of each kind.
	{query: "SELECT function_name, COUNT(*) FROM function_start WHERE $F AND arg0 > 50 AND arg0 <= 120 GROUP BY function_name",
		where: func(c known) bool { return c.arg0 > 50 && c.arg0 <= 120 }, by: byFunction, of: number0},
	{query: "SELECT function_name, COUNT(*), MIN(retval) FROM function_end WHERE $F AND retval < 0 GROUP BY function_name",
		where: func(c known) bool { return c.ret < 0 }, by: byFunction, of: func(cs []known) []any { return []any{len(cs), sortedOf(cs, retval)[0]} }},
	{query: "SELECT function_name, COUNT(*) FROM function_start WHERE $F AND thread_name = 'worker-1' GROUP BY function_name",
		where: func(c known) bool { return c.thread == "worker-1" }, by: byFunction, of: number0},
	{query: "SELECT thread_name, COUNT(*) FROM function_duration WHERE $F AND (thread_name LIKE 'worker-0%' OR retval IN (1001, 1003)) GROUP BY thread_name",
		where: func(c known) bool { return c.thread == "worker-0" || c.ret == 1001 || c.ret == 1003 }, by: byThread, of: number0},
	{query: "SELECT thread_name, COUNT(*) FROM function_duration WHERE $F AND (thread_name LIKE '%-0' OR retval IN (1001, 1003)) GROUP BY thread_name", single: true,
		where: func(c known) bool { return c.thread == "worker-0" || c.ret == 1001 || c.ret == 1003 }, by: byThread, of: number0},
	{query: "SELECT arg0, COUNT(*) FROM function_start WHERE $F AND arg0 IN (1, 5, 1000) GROUP BY arg0",
		where: func(c known) bool { return c.arg0 == 1 || c.arg0 == 5 || c.arg0 == 1000 }, by: func(c known) []any { return []any{c.arg0} }, of: number0},
	{query: "SELECT SUM(arg0) FROM function_start WHERE $F AND NOT arg0 BETWEEN 10 AND 20",
		where: func(c known) bool { return c.arg0 < 10 || c.arg0 > 20 }, of: func(cs []known) []any { return []any{sumOf(cs, arg0)} }},
	{query: "SELECT COUNT(*), SUM(retval) FROM function_duration WHERE $F AND depth = 1 AND arg0 % 2 = 1",
		where: func(c known) bool { return c.depth == 1 && c.arg0%2 == 1 }, of: func(cs []known) []any { return []any{len(cs), sumOf(cs, retval)} }},
	{query: "SELECT COUNT(*), COUNT(arg0) FROM function_duration WHERE $F AND duration > 1h", where: func(known) bool { return false },
		rows: func([]known) [][]any { return [][]any{{0, 0}} }},
	{query: "SELECT function_name, COUNT(*) FROM function_duration WHERE $F AND duration > 1h GROUP BY function_name",
		rows: func([]known) [][]any { return nil }},
	{query: "SELECT MIN(duration) >= 0ns, MAX(duration) < 1h, COUNT(*) FROM function_duration WHERE $F",
		of: func(cs []known) []any { return []any{true, true, len(cs)} }},

	// Windows that cover the run, results in between, what stands above.
	{query: "SELECT function_name, COUNT(*) FROM TUMBLE(function_start, 3650d) WHERE $F GROUP BY function_name", by: byFunction, of: number0},
	{query: "SELECT window_end - window_start = 3650d, MAX(retval), COUNT(*) FROM HOP(function_end, 1825d, 3650d) WHERE $F GROUP BY window_start, window_end",
		rows: func(cs []known) [][]any { return [][]any{{true, 1009, len(cs)}, {true, 1009, len(cs)}} }},
	{query: "SELECT function_name, COUNT(*), SUM(arg0) FROM function_start WHERE $F GROUP BY function_name EMIT EVERY 20ms", by: byFunction,
		of: func(cs []known) []any { return []any{len(cs), sumOf(cs, arg0)} }},
	{query: "SELECT function_name, COUNT(*) FROM function_start WHERE $F GROUP BY function_name HAVING COUNT(*) > 400",
		rows: func(cs []known) [][]any { return [][]any{{"add", 544}} }},
	{query: "SELECT arg0, COUNT(*) AS n FROM function_start WHERE $F GROUP BY arg0 ORDER BY n DESC, arg0 LIMIT 3", rows: mostFrequent},
	{query: "SELECT MAX(n), COUNT(*) FROM (SELECT arg0, COUNT(*) AS n FROM function_start WHERE $F GROUP BY arg0)",
		rows: func(cs []known) [][]any { return [][]any{{mostFrequent(cs)[0][1], 201}} }},
	{query: "SELECT f, SUM(twice) FROM (SELECT function_name AS f, arg0 * 2 AS twice FROM function_start WHERE $F) GROUP BY f", by: byFunction,
		of: func(cs []known) []any { return []any{2 * sumOf(cs, arg0)} }},

	// What the kernel leaves to the engine is the same with it and without.
	{query: "SELECT COUNT(DISTINCT arg0) FROM function_start WHERE $F", single: true, of: func([]known) []any { return []any{201} }},
	{query: "SELECT COUNT(*) FROM function_start WHERE $F AND now() - timestamp < 1h", single: true, of: number0},
	{query: "SELECT function_name, AVG(CAST(arg0 AS DOUBLE)) FROM function_start WHERE $F GROUP BY function_name", single: true, by: byFunction,
		of: func(cs []known) []any { return []any{float64(sumOf(cs, arg0)) / float64(len(cs))} }},
}

func mostFrequent(cs []known) (rows [][]any) {
	n := map[int64]int{}
	for _, c := range cs {
		n[c.arg0]++
	}
	for v, n := range n {
		rows = append(rows, []any{v, n})
	}
	slices.SortFunc(rows, func(a, b []any) int {
		return cmp.Or(cmp.Compare(b[1].(int), a[1].(int)), cmp.Compare(a[0].(int64), b[0].(int64)))
	})
	return rows[:3]
}

// expected are the rows that the case gives over calls.
func (c *stagesCase) expected(calls []known) [][]any {
	if c.rows != nil {
		return c.rows(calls)
	}
	where, by := c.where, c.by
	if where == nil {
		where = all
	}
	if by == nil {
		by = together
	}
	groups, keys := map[string][]known{}, map[string][]any{}
	for _, x := range calls {
		if where(x) {
			name := fmt.Sprint(by(x))
			groups[name], keys[name] = append(groups[name], x), by(x)
		}
	}
	var rows [][]any
	for name, g := range groups {
		rows = append(rows, append(slices.Clone(keys[name]), c.of(g)...))
	}
	return rows
}

// TestKernelAggregatesAgree holds what the kernel aggregates to what the engine
// makes of the single calls, of the same calls at the same time, and both to
// what the program's text says.
func TestKernelAggregatesAgree(t *testing.T) {
	testenv.NeedUprobes(t)
	target := compileText(t, knownProgram, ".c")
	for chunk := range slices.Chunk(stagesCases, 12) { // of one process at a time
		stagesAgree(t, target, "function_name IN (add, scale, drop)", chunk)
	}
}

// Classes are those of C++.
func TestKernelAggregatesByClass(t *testing.T) {
	testenv.NeedUprobes(t)
	class := func(c known) []any {
		if c.function == "drop" {
			return []any{""}
		}
		return []any{"Box"}
	}
	largest := func(cs []known) []any { return []any{len(cs), sortedOf(cs, arg0)[len(cs)-1]} }
	stagesAgree(t, compileText(t, knownProgram, ".cc"), "(class = 'Box' OR function_name = 'drop')", []stagesCase{
		{query: "SELECT class, COUNT(*), MAX(arg0) FROM function_start WHERE $F GROUP BY class", by: class, of: largest},
		{query: "SELECT class, COUNT(*), MAX(arg0) FROM function_duration WHERE $F GROUP BY class", by: class, of: largest},
	})
}

// A command that the session starts is aggregated from its first call to its
// last, run after run.
func TestKernelAggregatesOfCommand(t *testing.T) {
	testenv.NeedUprobes(t)
	target := compileText(t, knownProgram, ".c")
	for _, i := range []int{1, 9, 17} {
		c := stagesCases[i]
		query := strings.Replace(c.query, "$F", "function_name IN (add, scale, drop)", 1)
		for _, kernel := range []string{"on", "off"} {
			s := newSession(t, wire.Options{Command: []string{target, "go"}})
			read(t, start(t, s, "SET kernel = "+kernel))
			if got, want := lastResult(t, start(t, s, query), false), c.expected(knownCalls()); !sameRows(got, want) {
				t.Errorf("%s, kernel %s\n got %v\nwant %v", query, kernel, got, want)
			}
		}
	}
}

func compileText(t *testing.T, text, suffix string) string {
	t.Helper()
	source := filepath.Join(t.TempDir(), "target"+suffix)
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return testenv.CompileC(t, source, "-O1", "-fno-optimize-sibling-calls", "-pthread")
}

// stagesAgree runs cases, each with the kernel's help and without, over one
// process.
func stagesAgree(t *testing.T, target, functions string, cases []stagesCase) {
	cmd := exec.Command(target)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	bufio.NewScanner(out).Scan()
	small := server.Options{RingBytes: 1 << 20}
	on, off := newSessionOf(t, small, wire.Options{PID: cmd.Process.Pid}), newSessionOf(t, small, wire.Options{PID: cmd.Process.Pid})
	read(t, start(t, off, "SET kernel = off"))
	queries := make([]string, len(cases))
	with, without := make([]wire.Result, len(cases)), make([]wire.Result, len(cases))
	for i, c := range cases {
		queries[i] = strings.Replace(c.query, "$F", functions, 1)
		with[i], without[i] = start(t, on, queries[i]), start(t, off, queries[i])
		merges := strings.Contains(fmt.Sprint(read(t, start(t, on, "EXPLAIN "+queries[i])).rows), "merges partial rows")
		if merges == c.single {
			t.Errorf("%s: aggregated in the kernel: %t", queries[i], merges)
		}
	}
	fmt.Fprintln(in, "go")
	for i, c := range cases {
		every := strings.Contains(c.query, "EMIT EVERY")
		a, b := lastResult(t, with[i], every), lastResult(t, without[i], every)
		if c.rows == nil || !strings.Contains(c.query, "ORDER BY") {
			slices.SortFunc(a, slices.Compare)
			slices.SortFunc(b, slices.Compare)
		}
		if diff := gocmp.Diff(b, a); diff != "" {
			t.Errorf("%s\nwithout and with the kernel: %s", queries[i], diff)
		}
		if want := c.expected(knownCalls()); !sameRows(b, want) {
			t.Errorf("%s\n got %v\nwant %v", queries[i], b, want)
		}
	}
}

// lastResult is what a query without losses gave, of EMIT EVERY the last of it.
func lastResult(t *testing.T, r wire.Result, every bool) [][]string {
	t.Helper()
	a := read(t, r)
	complete(t, a)
	if every {
		return a.last
	}
	return a.rows
}

// sameRows compares rows in any order, numbers that are computed nearly.
func sameRows(got [][]string, want [][]any) bool {
	if len(got) != len(want) {
		return false
	}
	left := slices.Clone(want)
	for _, row := range got {
		i := slices.IndexFunc(left, func(w []any) bool { return sameRow(row, w) })
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return true
}

func sameRow(got []string, want []any) bool {
	return slices.EqualFunc(got, want, func(g string, w any) bool {
		x, err := strconv.ParseFloat(g, 64)
		if w, ok := w.(float64); ok {
			return err == nil && math.Abs(x-w) <= 1e-9*math.Abs(w)
		}
		return g == fmt.Sprint(w)
	})
}
