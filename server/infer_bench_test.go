package server_test

import (
	"strconv"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// nested is a call through three functions, of which the two inner ones follow
// from the outer one. The innermost has no instruction that is cheap to probe.
const nested = `
#include <stdio.h>
#include <time.h>
#define kept __attribute__((noinline, noipa))
volatile long sink;
static kept long leaf(long x) { sink += x; return x * 3; }
static kept long middle(long x) { return leaf(x + 1) + 1; }
kept long outer(long x) { return middle(x) - 1; }
static long now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
int main(void) {
	char b[8];
	puts("ready"); fflush(stdout);
	while (fgets(b, sizeof b, stdin)) {
		long start = now();
		for (long i = 0; i < 20000; i++) outer(i);
		printf("%ld\n", (now() - start) / 20000); fflush(stdout);
	}
}
`

// BenchmarkInferredCounts gives what it costs the program that its functions are
// counted, in ns of its own time for each call through all three.
func BenchmarkInferredCounts(b *testing.B) {
	testenv.NeedUprobes(b)
	p := startStepper(b, testenv.CompileCText(b, nested, "-O2", "-rdynamic"))
	for _, infer := range []string{"on", "off"} {
		b.Run("infer_counts="+infer, func(b *testing.B) {
			s := newSession(b, wire.Options{PID: p.pid})
			ask(b, s, "SET infer_counts = '"+infer+"'")
			q := start(b, s, "SELECT function_name, COUNT(*) FROM function_start WHERE function_name IN ('outer', 'middle', 'leaf') GROUP BY function_name")
			total := 0
			for b.Loop() {
				p.step()
				ns, err := strconv.Atoi(p.out.Text())
				if err != nil {
					b.Fatal(err)
				}
				total += ns
			}
			q.Stop()
			a := read(b, q)
			for row := range 3 {
				if n := number(b, a, row, 1); n != 20000*int64(b.N) {
					b.Fatalf("counted %v", a.rows)
				}
			}
			b.ReportMetric(float64(total)/float64(b.N), "ns/call")
			b.ReportMetric(0, "ns/op")
		})
	}
}
