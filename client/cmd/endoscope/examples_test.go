package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// exampleFile returns a file with an example of \examples, with a shorter duration.
func exampleFile(t *testing.T, name, duration string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../repl/examples", name+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if strings.Count(text, " FOR 5s;") == 0 {
		t.Fatalf("%s does not end after 5 s", name)
	}
	file := filepath.Join(t.TempDir(), name+".sql")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, " FOR 5s;", " FOR "+duration+";")), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// rowsOf runs the command and returns the rows of its last result, by column: at least
// one.
func rowsOf(t *testing.T, args ...string) []map[string]string {
	t.Helper()
	rows, errs := anyRowsOf(t, args...)
	if len(rows) == 0 {
		t.Fatalf("no rows\n%s", errs)
	}
	return rows
}

// anyRowsOf is rowsOf for results that may be empty. It also returns the messages.
func anyRowsOf(t *testing.T, args ...string) (rows []map[string]string, messages string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := program()
	p.Stdin, p.Stdout, p.Stderr = strings.NewReader(""), &out, &errs
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if code := p.Run(ctx, append(args, "--format", "csv")); code != 0 {
		t.Fatalf("code %d\n%s\n%s", code, out.String(), errs.String())
	}
	r := csv.NewReader(&out)
	r.FieldsPerRecord = -1
	lines, err := r.ReadAll()
	if err != nil || len(lines) == 0 {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows, errs.String()
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// names returns the distinct values of a column.
func names(rows []map[string]string, column string) map[string]bool {
	out := map[string]bool{}
	for _, row := range rows {
		out[row[column]] = true
	}
	return out
}

// The examples return plausible results for the demo program. A check returns an error
// if calls are missing: a busy machine may not have run the program.
func TestExamples(t *testing.T) {
	testenv.NeedUprobes(t)
	for name, check := range map[string]func(t *testing.T, rows []map[string]string) error{
		"latency-histogram": func(t *testing.T, rows []map[string]string) error {
			for _, row := range rows {
				if !strings.HasPrefix(row["function_name"], "cache_") || !strings.HasPrefix(row["histogram(duration)"], "[[") {
					t.Errorf("%v", row)
				}
			}
			if !names(rows, "function_name")["cache_put"] {
				return fmt.Errorf("no histogram of cache_put: %v", rows)
			}
			return nil
		},
		"slow-calls": func(t *testing.T, rows []map[string]string) error {
			for _, row := range rows {
				if number(t, row["duration"]) <= 5_000_000 || !strings.HasPrefix(row["stack"], row["function_name"]+" < ") {
					t.Errorf("%v", row)
				}
				if row["function_name"] == "process_job" && (number(t, row["arg0"]) < 3 || number(t, row["arg1"]) >= 200) {
					t.Errorf("job %s of size %s", row["arg0"], row["arg1"])
				}
			}
			return nil
		},
		"calls-per-interval": func(t *testing.T, rows []map[string]string) error {
			for _, row := range rows {
				if number(t, row["count(*)"]) <= 0 || !strings.HasSuffix(row["window_start"], "00000000Z") {
					t.Errorf("%v", row)
				}
			}
			if n := names(rows, "function_name"); !n["process_job"] || !n["handle_request"] {
				return fmt.Errorf("functions %v", n)
			}
			return nil
		},
		"argument-distribution": func(t *testing.T, rows []map[string]string) error {
			if number(t, rows[0]["succeeded"]) <= 0 || !strings.Contains(rows[0]["histogram(arg1)"], "[64,128,") {
				return fmt.Errorf("%v", rows[0])
			}
			return nil
		},
		"time-by-function": func(t *testing.T, rows []map[string]string) error {
			for _, row := range rows {
				inclusive, exclusive := number(t, row["inclusive"]), number(t, row["exclusive"])
				if exclusive <= 0 || exclusive > inclusive || row["function_name"] == "process_job" && exclusive == inclusive {
					t.Errorf("%v", row)
				}
			}
			return nil
		},
		"time-by-call-path": func(t *testing.T, rows []map[string]string) error {
			within := false
			for _, row := range rows {
				within = within || strings.HasSuffix(row["path"], ";process_job;update_stats")
				if exclusive := number(t, row["exclusive"]); exclusive <= 0 || exclusive > number(t, row["inclusive"]) {
					t.Errorf("%v", row)
				}
			}
			if !within {
				return fmt.Errorf("no path from process_job to update_stats: %v", rows)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Once(t, func() error {
				rows, errs := anyRowsOf(t, "demo", "-f", exampleFile(t, name, "1s"))
				if len(rows) == 0 {
					return errors.New("no rows\n" + errs)
				}
				return check(t, rows)
			})
		})
	}
}

// Each path has the number of calls that the program makes, and at least the time
// that the program measures within them. The time of callees is excluded from the
// path's own time, to the nanosecond.
func TestExampleOfCallPaths(t *testing.T) {
	testenv.NeedUprobes(t)
	out := filepath.Join(t.TempDir(), "account")
	target := testenv.CompileCText(t, `
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#define FUNCTION __attribute__((noipa)) void
volatile long sink;
static long took[6];
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000 + t.tv_nsec; }
#define MEASURED(path, ...) do { long from = now(); __VA_ARGS__; took[path] += now() - from; } while (0)
static void burn(long n) { for (long i = 0; i < n; i++) sink += i; }
FUNCTION checksum(int path, long n) { MEASURED(path, burn(n)); }
FUNCTION plain(int path, long n) { burn(100); checksum(path, n); burn(100); } /* is not asked for */
FUNCTION cache_put(int path, long n) { MEASURED(path, checksum(path + 1, n); burn(n)); }
FUNCTION process_job(long n) { MEASURED(0, cache_put(1, n); plain(3, n); if (n % 2) cache_put(4, 10); burn(n)); }
FUNCTION cache_get(void) {}
FUNCTION handle_request(void) {}
FUNCTION update_stats(void) {}
int main(void) {
	for (long i = 0; i < 100; i++) process_job(1000 + i);
	FILE *f = fopen(OUT, "w");
	for (int i = 0; i < 6; i++) fprintf(f, "%ld ", took[i]);
	fclose(f);
	sleep(1); /* while its stacks are read */
	return 0;
}
`, "-O1", "-fno-optimize-sibling-calls", fmt.Sprintf("-DOUT=%q", out))
	rows := rowsOf(t, "-f", exampleFile(t, "time-by-call-path", "1min"), "--", target)
	said, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var took [6]int64
	for i, text := range strings.Fields(string(said)) {
		took[i] = number(t, text)
	}
	// By path: number of calls, and the time that the program measured within them.
	want := map[string][2]int64{
		"process_job":                    {100, took[0]},
		"process_job;cache_put":          {150, took[1] + took[4]},
		"process_job;cache_put;checksum": {150, took[2] + took[5]},
		"process_job;plain;checksum":     {100, took[3]},
	}
	inclusive, within := map[string]int64{}, map[string]int64{}
	for _, row := range rows {
		_, path, _ := strings.Cut(";"+row["path"], ";main;")
		inclusive[path] = number(t, row["inclusive"])
		if w, ok := want[path]; !ok || row["count(*)"] != fmt.Sprint(w[0]) || inclusive[path] < w[1] {
			t.Errorf("%v, want %v", row, w)
		}
		if parent, _, ok := strings.Cut(strings.Replace(path, ";plain", "", 1), ";checksum"); ok && strings.Contains(path, ";cache_put") {
			within[parent] += inclusive[path]
		} else if path != "process_job" {
			within["process_job"] += inclusive[path]
		}
	}
	for _, row := range rows {
		_, path, _ := strings.Cut(";"+row["path"], ";main;")
		if exclusive := number(t, row["exclusive"]); exclusive != inclusive[path]-within[path] {
			t.Errorf("%s: %d is its own, want %d less %d", path, exclusive, inclusive[path], within[path])
		}
	}
	if len(inclusive) != len(want) {
		t.Errorf("%d paths, want %d", len(inclusive), len(want))
	}
}

// twoOrders locks a and b in both orders, and c alone and before b.
const twoOrders = `
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER, c = PTHREAD_MUTEX_INITIALIZER;
static void both(pthread_mutex_t *x, pthread_mutex_t *y) {
	pthread_mutex_lock(x); pthread_mutex_lock(y); pthread_mutex_unlock(y); pthread_mutex_unlock(x);
}
static void one(pthread_mutex_t *x) { pthread_mutex_lock(x); pthread_mutex_unlock(x); }
static void *first(void *p) { for (int i = 0; i < 5; i++) { both(&a, &b); one(&a); one(&c); both(&c, &b); } return 0; }
static void *second(void *p) { for (int i = 0; i < 3; i++) { both(&b, &a); one(&c); one(&a); both(&c, &b); } return 0; }
int main(void) {
	pthread_t t, u;
	FILE *f = fopen(OUT, "w");
	fprintf(f, "%ld %ld", (long)&a, (long)&b);
	fclose(f);
	pthread_create(&t, 0, first, 0);
	pthread_create(&u, 0, second, 0);
	pthread_join(t, 0);
	pthread_join(u, 0);
}
`

// Only locks held together count: a and b are locked in both orders; both threads
// lock c before b, and alone.
func TestExampleOfLockOrder(t *testing.T) {
	testenv.NeedUprobes(t)
	out := filepath.Join(t.TempDir(), "locks")
	// The threads run one after the other, so that the program cannot deadlock.
	text := strings.Replace(twoOrders, "pthread_create(&u", "pthread_join(t, 0);\n\tpthread_create(&u", 1)
	text = strings.Replace(text, "pthread_join(t, 0);\n\tpthread_join(u, 0);", "pthread_join(u, 0);", 1)
	target := testenv.CompileCText(t, text, "-O1", "-pthread", fmt.Sprintf("-DOUT=%q", out))
	rows := rowsOf(t, "-f", exampleFile(t, "lock-order", "1min"), "--", target)
	said, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 {
		t.Fatalf("%d pairs of threads and locks: %v", len(rows), rows)
	}
	row := rows[0]
	if locks := row["first"] + " " + row["second"]; locks != string(said) && row["second"]+" "+row["first"] != string(said) {
		t.Errorf("locks %s, want %s", locks, said)
	}
	if row["thread"] == row["other_thread"] || row["count(*)"] != "15" {
		t.Errorf("%v, want 5 times 3 pairs of two threads", row)
	}
}

// The data that a program reads and writes by TLS, whose library is loaded at
// startup.
func TestExampleOfTLS(t *testing.T) {
	testenv.NeedUprobes(t)
	openssl := testenv.NeedProgram(t, "openssl")
	dir, port := t.TempDir(), testenv.FreePort(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	if out, err := exec.Command(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", in("key"), "-out", in("cert")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testenv.Run(t, exec.Command(openssl, "s_server", "-quiet", "-www", "-cert", in("cert"), "-key", in("key"), "-accept", port))
	request := "GET / HTTP/1.0\r\n\r\n"
	if err := os.WriteFile(in("request"), []byte(request), 0o644); err != nil {
		t.Fatal(err)
	}
	client := fmt.Sprintf("%s s_client -quiet -ign_eof -connect localhost:%s < %s", openssl, port, in("request"))
	testenv.UntilNil(t, "the server answers", func() error { return exec.Command("sh", "-c", client).Run() })
	byName := map[string]map[string]string{}
	for _, row := range rowsOf(t, "-f", exampleFile(t, "tls-latency", "1min"), "--", "sh", "-c", "exec "+client+" > "+in("answer")) {
		byName[row["function_name"]] = row
	}
	answer, err := os.ReadFile(in("answer"))
	if err != nil {
		t.Fatal(err)
	}
	if got := byName["SSL_write"]["bytes"]; got != strconv.Itoa(len(request)) {
		t.Errorf("%s bytes were written, want %d", got, len(request))
	}
	if got := byName["SSL_read"]["bytes"]; got != strconv.Itoa(len(answer)) {
		t.Errorf("%s bytes were read, want %d", got, len(answer))
	}
}

// Freed memory is not listed; leaked memory is listed with the function that
// allocated it.
func TestExampleOfLeaks(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, `
#include <stdlib.h>
#include <string.h>
void *volatile kept;
__attribute__((noipa)) void leaks(int i) { kept = malloc(100 + i % 2); memset(kept, 1, 100); }
__attribute__((noipa)) void tidy(int i) { void *volatile p = malloc(50); free(p); }
int main(void) { for (int i = 0; i < 100; i++) { leaks(i); tidy(i); } return 0; }
`, "-O1")
	for _, row := range rowsOf(t, "-f", exampleFile(t, "leaks", "1min"), "--", target) {
		if row["caller"] != "leaks" || row["count(*)"] != "100" || row["bytes"] != "10050" {
			t.Errorf("%v, want 100 of leaks, of 10050 bytes", row)
		}
	}
}

func TestExampleOfLookups(t *testing.T) {
	testenv.NeedUprobes(t)
	getent := testenv.NeedProgram(t, "getent")
	rows := rowsOf(t, "-f", exampleFile(t, "dns-lookups", "1min"), "--", "sh", "-c", "exec "+getent+" ahosts localhost > /dev/null")
	if len(rows) != 1 || rows[0]["host"] != "localhost" || rows[0]["count(*)"] != "1" {
		t.Errorf("%v, want one of localhost", rows)
	}
}

// Statements that take 20 ms are found among faster ones, with their text.
func TestExampleOfSlowStatements(t *testing.T) {
	testenv.NeedUprobes(t)
	postmaster, _ := testenv.BusyPostgres(t)
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", postmaster))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cwd/postmaster.pid", postmaster))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n") // pid, directory, time, port, directory of the socket
	psql := exec.Command(testenv.NeedProgram(t, "psql"), "-X", "-q", "-o", "/dev/null", "-h", lines[4], "-p", lines[3], "-U", "postgres", "postgres")
	psql.Stdin = strings.NewReader(strings.Repeat("SELECT pg_sleep(0.02), 'marked';\n", 10_000))
	testenv.Run(t, psql)
	seconds := 0
	testenv.Once(t, func() error {
		seconds += 3
		marked := 0
		rows, errs := anyRowsOf(t, "--exe", exe, "-f", exampleFile(t, "slow-statements", fmt.Sprintf("%ds", seconds)))
		for _, row := range rows {
			if number(t, row["duration"]) <= 1_000_000 {
				t.Errorf("%v", row)
			}
			if row["statement"] == "SELECT pg_sleep(0.02), 'marked';" {
				marked++
				if number(t, row["duration"]) < 20_000_000 {
					t.Errorf("%v took less than it slept", row)
				}
			}
		}
		if marked == 0 {
			return errors.New("the statements that sleep are missing\n" + errs)
		}
		return nil
	})
}
