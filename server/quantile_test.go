package server_test

import (
	"bufio"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// quantileProgram calls nap for 0.77 and 3.78 ms, and f with 0 to 4999 in some order.
const quantileProgram = `
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>
volatile long sink;
__attribute__((noinline, noclone)) void nap(long us) { usleep(us); sink++; }
__attribute__((noinline, noclone)) long f(long i) { sink += i; return i; }
int main(void)
{
	char b[8];
	puts("ready");
	fflush(stdout);
	if (!fgets(b, sizeof b, stdin))
		return 9;
	nap(3780);
	nap(770);
	for (long i = 0; i < 5000; i++)
		f(i * 1999 % 5000);
	return 0;
}`

// Each quantile of two calls is one of them, the first its MIN and the last its MAX, in
// the kernel and in the engine, in windows, groups and subqueries. Quantiles of groups of
// 1,000 are exact; those of larger ones within 1 %, and within MIN and MAX.
func TestQuantilesOfCalls(t *testing.T) {
	testenv.NeedUprobes(t)
	cmd := exec.Command(compileText(t, quantileProgram, ".c"))
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	bufio.NewScanner(out).Scan()

	const all = "MIN(duration), MEDIAN(duration), QUANTILE(duration, 0.95), QUANTILE(duration, 0.99), MAX(duration), COUNT(*)"
	naps := []string{
		"SELECT " + all + " FROM function_duration WHERE function_name = 'nap'",
		"SELECT " + all + " FROM function_duration WHERE function_name IN (nap, f) GROUP BY function_name HAVING QUANTILE(duration, 1.0) > 3ms AND COUNT(*) = 2",
		"SELECT " + all + " FROM TUMBLE(function_duration, 1h) WHERE function_name = 'nap'",
		"SELECT " + all + " FROM (SELECT duration, arg0 FROM function_duration WHERE function_name = 'nap') WHERE arg0 > 0",
		"SELECT least, median, p95, p99, most, n FROM (SELECT thread_name, MIN(duration) AS least, MEDIAN(duration) AS median, QUANTILE(duration, 0.95) AS p95, " +
			"QUANTILE(duration, 0.99) AS p99, MAX(duration) AS most, COUNT(*) AS n FROM function_duration WHERE function_name = 'nap' GROUP BY thread_name) WHERE most > 3ms",
	}
	const slide = "SELECT " + all + " FROM HOP(function_duration, 30min, 1h) WHERE function_name = 'nap'"
	const thousands = "SELECT arg0 % 5, QUANTILE(arg0, 0.0), QUANTILE(arg0, 0.3), MEDIAN(arg0), QUANTILE(arg0, 0.999), QUANTILE(arg0, 1.0), COUNT(*) FROM function_start WHERE function_name = 'f' GROUP BY 1"
	const large = "SELECT MIN(arg0), QUANTILE(arg0, 0.0), QUANTILE(arg0, 0.3), MEDIAN(arg0), QUANTILE(arg0, 0.99), QUANTILE(arg0, 1.0), MAX(arg0) FROM function_start WHERE function_name = 'f'"
	queries := append(slices.Clone(naps), slide, thousands, large)
	results := map[string][]wire.Result{}
	for _, kernel := range []string{"on", "off"} {
		s := newSession(t, wire.Options{PID: cmd.Process.Pid})
		read(t, start(t, s, "SET kernel = "+kernel))
		for _, q := range queries {
			plan := fmt.Sprint(read(t, start(t, s, "EXPLAIN "+q)).rows)
			if exact := strings.Contains(plan, "quantiles exact to 1000 values of a group and "); exact != (kernel == "on") {
				t.Errorf("kernel %s: the plan of %s is %s", kernel, q, plan)
			}
			results[kernel] = append(results[kernel], start(t, s, q))
		}
	}
	fmt.Fprintln(in, "go")
	for kernel, rs := range results {
		for i, q := range queries {
			rows := lastResult(t, rs[i], false)
			switch {
			case q == large:
				quantilesAreNear(t, kernel, rows)
			case q == thousands:
				slices.SortFunc(rows, slices.Compare)
				for k, row := range rows {
					// The values are k, k + 5 ... k + 4995.
					if want := fmt.Sprint([]int{k, k, k + 5*299, k + 5*499, k + 5*998, k + 5*999, 1000}); fmt.Sprint(row) != want {
						t.Errorf("kernel %s, group %d: %v, want %s", kernel, k, row, want)
					}
				}
				if len(rows) != 5 {
					t.Errorf("kernel %s: %d groups", kernel, len(rows))
				}
			default:
				if windows := map[bool]int{true: 2, false: 1}[q == slide]; len(rows) != windows {
					t.Errorf("kernel %s: %s gives %v", kernel, q, rows)
				}
				for _, row := range rows {
					quantilesOfNaps(t, kernel, q, row)
				}
			}
		}
	}
}

func numbersOf(t *testing.T, row []string) (xs []float64) {
	for _, text := range row {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		xs = append(xs, x)
	}
	return xs
}

func quantilesOfNaps(t *testing.T, kernel, query string, row []string) {
	t.Helper()
	x := numbersOf(t, row)
	least, median, p95, p99, most := x[0], x[1], x[2], x[3], x[4]
	if least < 770e3 || most < 3780e3 || median != least || p95 != most || p99 != most || row[5] != "2" {
		t.Errorf("kernel %s: %s gives %v", kernel, query, row)
	}
}

// quantilesAreNear checks those of 0 to 4999.
func quantilesAreNear(t *testing.T, kernel string, rows [][]string) {
	t.Helper()
	want := []float64{0, 0, 1499, 2499, 4949, 4999, 4999}
	if len(rows) != 1 {
		t.Fatalf("kernel %s: %v", kernel, rows)
	}
	for i, x := range numbersOf(t, rows[0]) {
		if edge := i < 2 || i > 4; edge && x != want[i] || math.Abs(x-want[i]) > 0.01*want[i] {
			t.Errorf("kernel %s: column %d is %v, want %v", kernel, i, x, want[i])
		}
	}
}
