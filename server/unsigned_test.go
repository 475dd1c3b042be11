package server_test

import (
	"bufio"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/parser"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// The unsigned programs call wide with unsigned numbers around 2^63, and print them.
const (
	unsignedC = `
#include <stdint.h>
#include <stdio.h>
struct box { uint64_t id; void *at; };
volatile uint64_t sink;
__attribute__((noinline, noclone)) uint64_t wide(uint64_t v, size_t n, void *p, long s, struct box *b)
{
	printf("%lu %zu %lu %ld %lu %lu\n", v, n, (unsigned long)p, s, b->id, (unsigned long)b->at);
	return sink = v;
}
int main(void)
{
	uint64_t all[] = {0xFFFFFFFFFFFFFFFFu, (uint64_t)1 << 63, ((uint64_t)1 << 63) - 1, 0};
	char line[8];
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 9;
	for (int i = 0; i < 8; i++) {
		struct box b = {all[i % 4], (void *)all[(i + 1) % 4]};
		wide(all[i % 4], all[(i + 2) % 4], (void *)all[i % 4], i - 5, &b);
	}
	return 0;
}`
	unsignedGo = `package main

import (
	"bufio"
	"fmt"
	"os"
)

type box struct {
	id uint64
	at uintptr
}

var sink uint64

//go:noinline
func wide(v uint64, n uint, p uintptr, s int, b *box) uint64 {
	sink = v
	fmt.Println(v, n, p, s, b.id, b.at)
	return v
}

func main() {
	all := []uint64{1<<64 - 1, 1 << 63, 1<<63 - 1, 0}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	for i := range 8 {
		wide(all[i%4], uint(all[(i+2)%4]), uintptr(all[i%4]), i-5, &box{all[i%4], uintptr(all[(i+1)%4])})
	}
}
`
)

// observed runs a query over a process, and returns its answer and the lines that the
// process printed.
func observed(t *testing.T, program, query string, kernel bool) (reply, [][]string) {
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
	defer func() { in.Close(); cmd.Process.Kill(); cmd.Wait() }()
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the target said %q, %v", line, err)
	}
	s := newSessionOf(t, server.Options{}, wire.Options{PID: cmd.Process.Pid})
	if !kernel {
		read(t, start(t, s, "SET kernel = off"))
	}
	q := start(t, s, query)
	fmt.Fprintln(in, "go")
	log, err := io.ReadAll(said)
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, q)
	complete(t, got)
	var lines [][]string
	for _, l := range strings.Split(strings.TrimSpace(string(log)), "\n") {
		lines = append(lines, strings.Fields(l))
	}
	return got, lines
}

// TestUnsignedNumbers: arguments, results and fields of 64 bits without sign are the numbers
// that the program printed, in rows, conditions, groups and aggregates, in the kernel and
// in the engine.
func TestUnsignedNumbers(t *testing.T) {
	testenv.NeedUprobes(t)
	source := filepath.Join(t.TempDir(), "unsigned.c")
	if err := os.WriteFile(source, []byte(unsignedC), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ language, program, function string }{
		{"C", testenv.CompileC(t, source, "-g", "-O1"), "wide"},
		{"C without optimisation", testenv.CompileC(t, source, "-g", "-O0"), "wide"},
		{"Go", testenv.CompileGoText(t, unsignedGo), "main.wide"},
	} {
		t.Run(c.language, func(t *testing.T) { unsignedIn(t, c.program, c.function) })
	}
}

func unsignedIn(t *testing.T, program, function string) {
	of := func(stream string) string { return " FROM " + stream + " WHERE function_name = '" + function + "'" }
	whole := func(s string) *big.Int {
		n, ok := new(big.Int).SetString(s, 10)
		if !ok {
			t.Fatalf("the program printed %q", s)
		}
		return n
	}
	column := func(lines [][]string, i int) (all []*big.Int) {
		for _, l := range lines {
			all = append(all, whole(l[i]))
		}
		slices.SortFunc(all, (*big.Int).Cmp)
		return all
	}
	count := func(lines [][]string, holds func(v, n, s *big.Int) bool) [][]string {
		k := 0
		for _, l := range lines {
			if holds(whole(l[0]), whole(l[1]), whole(l[3])) {
				k++
			}
		}
		return [][]string{{fmt.Sprint(k)}}
	}
	top := new(big.Int).Lsh(big.NewInt(1), 63)
	for _, c := range []struct {
		query string
		want  func(lines [][]string) [][]string
	}{
		{"SELECT args.v, args.n, args.p, args.s, args.b.id, args.b.at" + of("function_start"), func(lines [][]string) [][]string { return lines }},
		{"SELECT retval, hex(retval)" + of("function_end"), func(lines [][]string) (rows [][]string) {
			for _, l := range lines {
				rows = append(rows, []string{l[0], fmt.Sprintf("%#x", whole(l[0]))})
			}
			return rows
		}},
		{"SELECT args.v, COUNT(*)" + of("function_start") + " GROUP BY args.v ORDER BY args.v DESC", func(lines [][]string) (rows [][]string) {
			all := column(lines, 0)
			for i := len(all) - 1; i >= 0; i -= 2 { // each is there twice
				rows = append(rows, []string{all[i].String(), "2"})
			}
			return rows
		}},
		{"SELECT MIN(args.v), MAX(args.v), MAX(args.b.at), FIRST(args.v), LAST(args.n), COUNT(DISTINCT args.v), QUANTILE(args.v, 0.75), AVG(args.v)" + of("function_start"),
			func(lines [][]string) [][]string {
				all := column(lines, 0)
				sum := new(big.Float)
				for _, v := range all {
					sum.Add(sum, new(big.Float).SetPrec(200).SetInt(v))
				}
				mean, _ := sum.Quo(sum, big.NewFloat(float64(len(all)))).Float64()
				third, _ := new(big.Float).SetInt(all[5]).Float64()
				at := column(lines, 5)
				return [][]string{{all[0].String(), all[7].String(), at[7].String(), lines[0][0], lines[7][1], "4", fmt.Sprint(third), fmt.Sprint(mean)}}
			}},
		{"SELECT SUM(args.v)" + of("function_start") + " AND args.v BETWEEN 1 AND 9223372036854775807", func([][]string) [][]string {
			sum := new(big.Int).Sub(new(big.Int).Lsh(top, 1), big.NewInt(2)) // 2^63-1, twice
			return [][]string{{sum.String()}}
		}},
		{"SELECT COUNT(*)" + of("function_start") + " AND args.v > 9223372036854775807", func(lines [][]string) [][]string {
			return count(lines, func(v, _, _ *big.Int) bool { return v.Cmp(top) >= 0 })
		}},
		{"SELECT COUNT(*)" + of("function_start") + " AND args.v >= 0x8000000000000000 AND args.v IN (18446744073709551615, 9223372036854775808, 5)", func(lines [][]string) [][]string {
			return count(lines, func(v, _, _ *big.Int) bool { return v.Cmp(top) >= 0 })
		}},
		{"SELECT COUNT(*)" + of("function_start") + " AND args.v < args.n", func(lines [][]string) [][]string {
			return count(lines, func(v, n, _ *big.Int) bool { return v.Cmp(n) < 0 })
		}},
		{"SELECT COUNT(*)" + of("function_start") + " AND args.v > args.s AND args.s < 0", func(lines [][]string) [][]string {
			return count(lines, func(v, _, s *big.Int) bool { return v.Cmp(s) > 0 && s.Sign() < 0 })
		}},
		{"SELECT COUNT(*)" + of("function_duration") + " AND retval - retval / 2 >= 4611686018427387904", func(lines [][]string) [][]string {
			return count(lines, func(v, _, _ *big.Int) bool {
				half := new(big.Int).Rsh(v, 1)
				return half.Sub(v, half).Cmp(new(big.Int).Rsh(top, 1)) >= 0
			})
		}},
	} {
		for _, kernel := range []bool{true, false} {
			got, lines := observed(t, program, c.query, kernel)
			if len(lines) != 8 {
				t.Fatalf("%d calls were printed", len(lines))
			}
			if diff := cmp.Diff(c.want(lines), got.rows); diff != "" {
				t.Errorf("%s (kernel %v): -want +got\n%s", c.query, kernel, diff)
			}
		}
	}
	// What is never true is refused, and what does not fit ends the query.
	w := startWaiting(t, program)
	s := newSession(t, wire.Options{PID: w.pid()})
	for _, condition := range []string{" AND args.v = -1", " AND args.v IN (1, -1)"} {
		_, err := s.Execute(t.Context(), "SELECT COUNT(*)"+of("function_start")+condition)
		if e, ok := err.(*parser.Error); !ok || !strings.Contains(e.Msg, "args.v is UBIGINT, which is never negative") || !strings.Contains(e.Hint, "18446744073709551615") {
			t.Errorf("%s: %v", condition, err)
		}
	}
}
