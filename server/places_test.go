package server_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// parsing passes its lines as often as gdb says. Lines 11 and 12 are inlined twice.
const parsing = `#include <stdio.h>
#define EACH(n) for (long i = 0; i < n; i++)
volatile long sink;
__attribute__((noinline)) void settle(long n)
{
	sink -= n;
}

static inline __attribute__((always_inline)) long mix(long n)
{
	long m = n * 3;
	sink += m;
	return m;
}

__attribute__((noinline)) long parse(long n)
{
	long total = 0;

	EACH(n) {
		if (i % 2)
			total += mix(i);
		else
			total -= mix(-i);
		if (__builtin_expect(i == 1000, 0))
			settle(i);
	}
	sink += total;
	return total;
}

int main(void)
{
	puts("ready");
	fflush(stdout);
	getchar();
	for (int k = 0; k < 20; k++)
		parse(k);
	settle(3);
	return (int)sink & 127;
}
`

// compileParser compiles parsing as parse.c in a folder of its own.
func compileParser(t *testing.T, flags ...string) string {
	t.Helper()
	source := filepath.Join(t.TempDir(), "parse.c")
	write(t, source, parsing)
	return testenv.CompileC(t, source, append(flags, "-g")...)
}

// hitsByGDB returns how often gdb stops at each of the locations while the program runs.
func hitsByGDB(t *testing.T, program string, locations []string) map[string]int {
	t.Helper()
	gdb := testenv.NeedProgram(t, "gdb")
	input := filepath.Join(t.TempDir(), "input")
	write(t, input, "\n")
	args := []string{"-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", "set breakpoint pending off"}
	for i, at := range locations {
		args = append(args, "-ex", "break "+at, "-ex", fmt.Sprintf("ignore %d 1000000", i+1))
	}
	args = append(args, "-ex", "run < "+input, "-ex", "info breakpoints", program)
	said := testenv.Output(t, gdb, args...)
	hits := map[string]int{}
	current := ""
	begins, hit := regexp.MustCompile(`^(\d+) +breakpoint `), regexp.MustCompile(`already hit (\d+) time`)
	for line := range strings.Lines(said) {
		if m := begins.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			current = locations[n-1]
			hits[current] = 0
		}
		if m := hit.FindStringSubmatch(line); m != nil && current != "" {
			hits[current], _ = strconv.Atoi(m[1])
		}
	}
	if len(hits) != len(locations) {
		t.Fatalf("gdb said\n%s", said)
	}
	return hits
}

// countPlaces returns how often a program reaches places, all of which one query observes.
func countPlaces(t *testing.T, program string, places []string) map[string]int {
	t.Helper()
	w := startWaiting(t, program)
	s := newSession(t, wire.Options{PID: w.pid()})
	r := start(t, s, "SELECT function_name, COUNT(*) FROM function_start WHERE function_name IN ('"+strings.Join(places, "', '")+"') GROUP BY function_name")
	w.goOn()
	a := read(t, r)
	complete(t, a)
	w.cmd.Wait()
	alone := exec.Command(program)
	alone.Stdin = strings.NewReader("\n")
	_ = alone.Run() // its status is the result
	if got, want := w.cmd.ProcessState.ExitCode(), alone.ProcessState.ExitCode(); got != want || want <= 0 {
		t.Errorf("the program's result is %d, and %d if it is not observed", got, want)
	}
	out := map[string]int{}
	for _, p := range places {
		out[p] = 0
	}
	for i, row := range a.rows {
		out[row[0]] += int(number(t, a, i, 1))
	}
	return out
}

// beginsOf returns the addresses at which the code of a line begins that is a statement,
// as objdump decodes the line table.
func beginsOf(t *testing.T, program string, line int) (addrs []string) {
	t.Helper()
	inside := false
	for _, row := range strings.Split(testenv.Output(t, testenv.NeedProgram(t, "objdump"), "--dwarf=decodedline", program), "\n") {
		f := strings.Fields(row) // file, line, address, [view,] [x: a statement]
		if len(f) < 3 || f[0] != "parse.c" {
			inside = inside && len(f) > 0
			continue
		}
		switch {
		case f[1] != strconv.Itoa(line):
			inside = false
		case !inside && f[len(f)-1] == "x":
			inside = true
			addrs = append(addrs, "*"+f[2])
		}
	}
	return addrs
}

// A source line is reached as often as gdb's breakpoints where its code begins, however
// often it was inlined or duplicated.
func TestSourceLines(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, flags := range [][]string{{"-O0"}, {"-O2"}, {"-O3", "-fcf-protection=none"}, {"-O1", "-gdwarf-4"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			program := compileParser(t, append(flags, "-no-pie", "-Wno-unused-result")...)
			var lines, places []string
			at := map[string][]string{}
			for _, n := range []int{6, 11, 12, 20, 21, 22, 24, 28, 29, 37, 38, 39} {
				line := fmt.Sprintf("parse.c:%d", n)
				lines, at[line] = append(lines, line), beginsOf(t, program, n)
				places = append(places, at[line]...)
			}
			slices.Sort(places)
			hits := hitsByGDB(t, program, slices.Compact(places))
			want := map[string]int{}
			for line, begins := range at {
				for _, a := range begins {
					want[line] += hits[a]
				}
			}
			if want["parse.c:11"] != 190 || want["parse.c:22"] != 90 || want["parse.c:6"] != 1 {
				t.Fatalf("gdb counts %v", want)
			}
			if diff := cmp.Diff(want, countPlaces(t, program, lines)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The lines that gdb finds at one place have its counts, in a program that is loaded anywhere.
func TestLinesOfRelocatedProgram(t *testing.T) {
	testenv.NeedUprobes(t)
	program := compileParser(t, "-O0", "-Wno-unused-result")
	lines := []string{"parse.c:17", "parse.c:18", "parse.c:22", "parse.c:11", "parse.c:28"}
	if diff := cmp.Diff(hitsByGDB(t, program, lines), countPlaces(t, program, lines)); diff != "" {
		t.Error(diff)
	}
}

// A line whose code begins several times in a function is said to, with the places, one of
// which can be chosen.
func TestPartsOfALine(t *testing.T) {
	testenv.NeedUprobes(t)
	program := compileParser(t, "-O0", "-Wno-unused-result")
	w := startWaiting(t, program)
	s := newSession(t, wire.Options{PID: w.pid()})
	r := start(t, s, "SELECT COUNT(*) FROM function_start WHERE function_name = 'parse.c:24'")
	said := regexp.MustCompile(`the code of parse.c:24 begins at 2 places, each of which counts: (parse\+0x[0-9a-f]+), (parse\+0x[0-9a-f]+)`)
	a := run(t, s, "EXPLAIN SELECT COUNT(*) FROM function_start WHERE function_name = 'parse.c:24'")
	m := said.FindStringSubmatch(strings.Join(a.notices, "\n"))
	if m == nil {
		t.Fatalf("EXPLAIN says %v", a.notices)
	}
	one := start(t, s, "SELECT COUNT(*) FROM function_start WHERE function_name = '"+m[2]+"'")
	w.goOn()
	if all, part := number(t, read(t, r), 0, 0), number(t, read(t, one), 0, 0); all != 200 || part != 100 {
		t.Errorf("both parts %d times, the second %d times", all, part)
	}
}

// All instructions of a function can be observed at once, by address or distance, as often
// as gdb stops there. The program computes what it always does.
func TestAddresses(t *testing.T) {
	testenv.NeedUprobes(t)
	program := compileParser(t, "-O2", "-no-pie", "-fcf-protection=none")
	listing := testenv.Output(t, testenv.NeedProgram(t, "objdump"), "-d", "--no-show-raw-insn", "--disassemble=parse", program)
	var addresses, distances, gdb []string
	entry := uint64(0)
	for _, m := range regexp.MustCompile(`(?m)^ +([0-9a-f]+):\t(\S+)`).FindAllStringSubmatch(listing, -1) {
		addr, _ := strconv.ParseUint(m[1], 16, 64)
		if entry == 0 {
			entry = addr
		}
		if strings.HasPrefix(m[2], "nop") || m[2] == "cs" || m[2] == "data16" || m[2] == "xchg" {
			continue // padding
		}
		addresses = append(addresses, fmt.Sprintf("%#x", addr))
		distances = append(distances, fmt.Sprintf("parse+%d", addr-entry))
		gdb = append(gdb, fmt.Sprintf("*%#x", addr))
	}
	if len(addresses) < 20 {
		t.Fatalf("objdump says\n%s", listing)
	}
	hits := hitsByGDB(t, program, gdb)
	byAddress, byDistance := countPlaces(t, program, addresses), countPlaces(t, program, distances)
	for i, at := range gdb {
		if byAddress[addresses[i]] != hits[at] || byDistance[distances[i]] != hits[at] {
			t.Errorf("%s is reached %d times, %s %d times, gdb stops %d times", addresses[i], byAddress[addresses[i]], distances[i], byDistance[distances[i]], hits[at])
		}
	}
}

// A query of a function is not refused because another one observes places in it, and both
// count the same calls.
func TestPlacesWithinAnObservedFunction(t *testing.T) {
	testenv.NeedUprobes(t)
	program := compileParser(t, "-O1")
	w := startWaiting(t, program)
	s := newSession(t, wire.Options{PID: w.pid()})
	run(t, s, "SET return_probes = 'exits'")
	line := start(t, s, "SELECT COUNT(*) FROM function_start WHERE function_name = 'parse.c:28'")
	both := start(t, s, "SELECT COUNT(*) FROM function_start WHERE function_name IN ('parse', 'parse.c:28', 'parse+0')")
	calls := start(t, s, "SELECT COUNT(*) FROM function_duration WHERE function_name = 'parse'")
	w.goOn()
	for r, want := range map[wire.Result]int64{line: 20, both: 60, calls: 20} {
		if n := number(t, read(t, r), 0, 0); n != want {
			t.Errorf("%d, want %d", n, want)
		}
	}
}

// Columns that are known at a place: the thread, the stack, and what calls the function.
func TestColumnsOfPlaces(t *testing.T) {
	testenv.NeedUprobes(t)
	w := startWaiting(t, compileParser(t, "-O0"))
	s := newSession(t, wire.Options{PID: w.pid()})
	r := start(t, s, "SELECT DISTINCT function_name, module, class, pid, tid = pid, frame(stack, 0), frame(stack, 1) FROM function_start WHERE function_name = 'parse.c:28'")
	w.goOn()
	a := read(t, r)
	want := [][]string{{"parse.c:28", "target", "", fmt.Sprint(w.pid()), "true", "parse", "main"}}
	if diff := cmp.Diff(want, a.rows); diff != "" {
		t.Error(diff)
	}
}

// Where several files have a name, all of their lines are meant, which a notice says; more of
// the path chooses one.
func TestLinesOfFilesWithOneName(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	var sources []string
	for _, name := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		source := filepath.Join(dir, name, "util.c")
		write(t, source, "int "+name+"(int n)\n{\n\treturn n * 2;\n}\n")
		sources = append(sources, source)
	}
	program := testenv.CompileCText(t, `#include <stdio.h>
int one(int), two(int);
int main(void) { puts("ready"); fflush(stdout); getchar(); for (int i = 0; i < 10; i++) { one(i); if (i > 6) two(i); } }
`, append(sources, "-g", "-O0")...)
	w := startWaiting(t, program)
	s := newSession(t, wire.Options{PID: w.pid()})
	query := "SELECT COUNT(*) FROM function_start WHERE function_name = '"
	all, second := start(t, s, query+"util.c:3'"), start(t, s, query+"two/util.c:3'")
	a := run(t, s, "EXPLAIN "+query+"util.c:3'")
	if said := fmt.Sprint(a.notices); !strings.Contains(said, "util.c:3 is a line of 2 files: write more of the path to choose one, as in 'one/util.c:3'") {
		t.Errorf("notices %s", said)
	}
	w.goOn()
	if n, m := number(t, read(t, all), 0, 0), number(t, read(t, second), 0, 0); n != 13 || m != 3 {
		t.Errorf("%d and %d, want 13 and 3", n, m)
	}
}

// Variables have the values at a place that the program gives them: a model computes the same.
func TestVariablesAtPlaces(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, flags := range [][]string{{"-O0"}, {"-O0", "-fomit-frame-pointer"}, {"-Og"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			w := startWaiting(t, compileParser(t, append(flags, "-Wno-unused-result")...))
			s := newSession(t, wire.Options{PID: w.pid()})
			inside := start(t, s, "SELECT args.n, args.i, args.total FROM function_start WHERE function_name = 'parse.c:21' AND args.i >= 2")
			after := start(t, s, "SELECT args.total, COUNT(*) FROM function_start WHERE function_name IN ('parse.c:28') GROUP BY args.total")
			w.goOn()
			var want [][]string
			sums := map[string]string{}
			for k := range 20 {
				total := 0
				for i := range k {
					if i >= 2 {
						want = append(want, []string{fmt.Sprint(k), fmt.Sprint(i), fmt.Sprint(total)})
					}
					total += 3 * i
				}
				n, _ := strconv.Atoi(sums[fmt.Sprint(total)])
				sums[fmt.Sprint(total)] = fmt.Sprint(n + 1)
			}
			if diff := cmp.Diff(want, read(t, inside).rows); diff != "" {
				t.Error(diff)
			}
			have := map[string]string{}
			for _, row := range read(t, after).rows {
				have[row[0]] = row[1]
			}
			if diff := cmp.Diff(sums, have); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is no place is refused, with the nearest place.
func TestPlacesRefused(t *testing.T) {
	testenv.NeedUprobes(t)
	program := compileParser(t, "-O0", "-no-pie", "-fcf-protection=none")
	w := startWaiting(t, program)
	entry := strings.Fields(testenv.Output(t, "sh", "-c", "nm "+program+" | grep ' T parse$'"))[0]
	address := func(distance uint64) string {
		n, _ := strconv.ParseUint(entry, 16, 64)
		return fmt.Sprintf("%#x", n+distance)
	}
	s := newSession(t, wire.Options{PID: w.pid()})
	for name, want := range map[string][]string{
		// push %rbp; mov %rsp,%rbp
		"parse+2":             {"lies within the instruction at " + address(1) + ", `mov rbp, rsp`", "hint: 'parse+0x1', or 'parse+0x4' after it"},
		address(2):            {address(2) + " lies within the instruction at " + address(1), "hint: '" + address(1) + "', or '" + address(4) + "' after it"},
		"parse+100000":        {"parse has only "},
		"parze+1":             {"no function named parze in target", "did you mean parse?"},
		"0x10":                {"0x10 is not in the code of a function"},
		"0xffffffffffffffff":  {"is not in the code of a function"},
		"parse.c:19":          {"no code begins at line 19 of ", "hint: the next line with code is 'parse.c:20'"},
		"parse.c:4000":        {"no code begins at line 4000 of ", "nor after it"},
		"other.c:3":           {"target was not compiled from a file called other.c"},
		"arse.c:20":           {"target was not compiled from a file called arse.c"},
		"parse', 'parse.c:19": {"no code begins at line 19 of "},
		"libc.so.6!malloc+4":  {"no function named libc.so.6!malloc in target", "hint: function_name = 'malloc+4' AND module = 'libc.so.6'"},
		"libc.so.6!0x12":      {"no function named libc.so.6!0x12 in target", "hint: function_name = '0x12' AND module = 'libc.so.6'"},
	} {
		got := refusal(t, s, "SELECT function_name FROM function_start WHERE function_name IN ('"+name+"')")
		for _, part := range append(want, "^") {
			if !strings.Contains(got, part) {
				t.Errorf("%s is refused with %s, not %s", name, got, part)
			}
		}
	}
	for query, want := range map[string]string{
		"SELECT duration FROM function_duration WHERE function_name = 'parse.c:20'":  "parse.c:20 is a place that is passed, not a call that returns",
		"SELECT depth FROM function_start WHERE function_name = 'parse+1'":           "parse+1 is a place that is passed, which has no depth",
		"SELECT arg0 FROM function_start WHERE function_name = 'parse+1'":            "parse+1 is a place in the code, where arg0 is not known",
		"SELECT args FROM function_start WHERE function_name = 'parse+1'":            "parse+1 is a place in the code, where args is not known",
		"SELECT args.m FROM function_start WHERE function_name = 'parse.c:28'":       "parse.c:28 has no variable m",
		"SELECT str(arg0) FROM function_start WHERE function_name = 'parse.c:28'":    "parse.c:28 is a place in the code, where str(arg0) is not known",
		"SELECT args.i FROM function_start WHERE function_name = 'parse.c:29'":       "args.i of parse.c:29 does not live there",
		"SELECT args.total FROM function_start WHERE function_name = 'parse+0'":      "args.total of parse+0 ",
		"SELECT event FROM function_call WHERE function_name = '" + address(1) + "'": "is a place that is passed",
	} {
		if got := refusal(t, s, query); !strings.Contains(got, want) {
			t.Errorf("%s: %s, not %s", query, got, want)
		}
	}
	bare := filepath.Join(t.TempDir(), "bare")
	testenv.Output(t, "objcopy", "--strip-debug", program, bare)
	if _, err := os.Stat(bare); err != nil {
		t.Fatal(err)
	}
	other := newSession(t, wire.Options{Exe: bare})
	if got := refusal(t, other, "SELECT pid FROM function_start WHERE function_name = 'parse.c:20'"); !strings.Contains(got, "the lines of bare are not known: it has no debug information") {
		t.Error(got)
	}
}
