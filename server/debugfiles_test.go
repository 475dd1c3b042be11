package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// stripProgram compiles the target of values, and moves its debug information to a file of its
// own, which nothing in the program names.
func stripProgram(t *testing.T, id string) (program, debug string) {
	t.Helper()
	objcopy := testenv.NeedProgram(t, "objcopy")
	program = testenv.CompileC(t, filepath.Join("testdata", "values", "types.c"), "-g", "-O2", "-Wl,--build-id=0x"+id)
	debug = filepath.Join(t.TempDir(), "types.debug")
	for _, args := range [][]string{{"--only-keep-debug", program, debug}, {"--strip-all", program}} {
		if out, err := exec.Command(objcopy, args...).CombinedOutput(); err != nil {
			t.Fatalf("objcopy %v: %v\n%s", args, err, out)
		}
	}
	return program, debug
}

const ofIntegers = "SELECT args.i, args.l FROM function_start WHERE function_name = 'integers'"

var integersRow = []string{"-2000000000", "-9000000000000000000"}

// TestDebugDirectory reads names and types from directories that a session names, by build-id
// and by path.
func TestDebugDirectory(t *testing.T) {
	testenv.NeedUprobes(t)
	const id = "feedfacecafe00112233445566778899aabbccdd"
	program, debug := stripProgram(t, id)
	byID, byPath := t.TempDir(), t.TempDir()
	for _, at := range []string{filepath.Join(byID, ".build-id", id[:2], id[2:]+".debug"), filepath.Join(byPath, program+".debug")} {
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		testenv.CopyFile(t, debug, at)
	}
	w := startWaiting(t, program)
	s := newSession(t, wire.Options{PID: w.pid()})
	_, err := s.Execute(t.Context(), ofIntegers)
	if said := fmt.Sprint(err); !strings.Contains(said, "no function named integers in target") || !strings.Contains(said, "a debug file for build-id "+id) {
		t.Errorf("without a directory: %s", said)
	}
	for _, list := range []string{byID, "/nowhere:" + byPath} {
		w := startWaiting(t, program)
		s := newSession(t, wire.Options{PID: w.pid()})
		run(t, s, "SET debug_directory = '"+list+"'")
		if got := run(t, s, "DESCRIBE FUNCTION integers").rows; len(got) != 1 || !strings.Contains(strings.Join(got[0], " "), "integers(signed char c") {
			t.Errorf("%s: DESCRIBE FUNCTION: %q", list, got)
		}
		q := start(t, s, ofIntegers)
		w.goOn()
		if diff := cmp.Diff([][]string{integersRow, integersRow, integersRow}, read(t, q).rows); diff != "" {
			t.Errorf("%s: -want +got\n%s", list, diff)
		}
		// It is the session's: others of the same engine, and the same one later, do not have it.
		w = startWaiting(t, program)
		run(t, s, fmt.Sprintf("USE PID %d", w.pid()))
		run(t, s, "SET debug_directory = ''")
		if _, err := s.Execute(t.Context(), ofIntegers); err == nil || !strings.Contains(err.Error(), "no function named integers") {
			t.Errorf("%s: taken back: %v", list, err)
		}
	}
	if got := refusal(t, s, "SET debug_directory = '/srv:debug'"); !strings.Contains(got, "debug_directory needs absolute paths, not 'debug'") {
		t.Error(got)
	}
}

// TestDebuginfod fetches the debug file of a program from a server, says so once, and keeps it.
func TestDebuginfod(t *testing.T) {
	testenv.NeedUprobes(t)
	const id = "0dd0feedfacecafe00112233445566778899aabb"
	program, debug := stripProgram(t, id)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	var asked, serving atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if serving.Load() == 0 || r.URL.Path != "/buildid/"+id+"/debuginfo" {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, debug)
	}))
	t.Cleanup(server.Close)
	w := startWaiting(t, program)
	s := newSession(t, wire.Options{PID: w.pid()})

	// Nothing is fetched unless the session says so.
	t.Setenv("DEBUGINFOD_URLS", server.URL)
	if _, err := s.Execute(t.Context(), ofIntegers); err == nil || asked.Load() != 0 {
		t.Fatalf("off: %v; %d requests", err, asked.Load())
	}
	// A server that does not have it costs one notice.
	run(t, s, "SET debuginfod = 'on'")
	_, err := s.Execute(t.Context(), ofIntegers)
	if said := fmt.Sprint(err); strings.Count(said, "no debug file of build-id "+id+" was fetched from "+server.URL+": the server does not have it") != 1 {
		t.Errorf("it has none: %s", said)
	}
	if _, err = s.Execute(t.Context(), ofIntegers); strings.Contains(fmt.Sprint(err), "fetched from") || asked.Load() != 1 {
		t.Errorf("again: %v; %d requests", err, asked.Load())
	}
	// One that has it.
	serving.Store(1)
	run(t, s, "SET debuginfod = '"+server.URL+"/'")
	run(t, s, "SET debuginfod = '"+server.URL+"/ http://127.0.0.1:1'") // other servers, which have not failed
	q := start(t, s, ofIntegers)
	w.goOn()
	got := read(t, q)
	if diff := cmp.Diff([][]string{integersRow, integersRow, integersRow}, got.rows); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	want := "the debug file of build-id " + id + " was fetched from " + server.URL
	if said := strings.Join(got.notices, "\n"); strings.Count(said, want) != 1 {
		t.Errorf("notices %q\nwant one with %q", said, want)
	}
	if _, err := os.Stat(filepath.Join(cache, "endoscope", "debuginfod", id+".debug")); err != nil {
		t.Error(err)
	}
	// DESCRIBE FUNCTION fetches, and says so, as a query does.
	if err := os.RemoveAll(filepath.Join(cache, "endoscope")); err != nil {
		t.Fatal(err)
	}
	d := newSession(t, wire.Options{PID: startWaiting(t, program).pid()})
	run(t, d, "SET debuginfod = '"+server.URL+" http://127.0.0.1:2'")
	if got := run(t, d, "DESCRIBE FUNCTION integers"); len(got.rows) != 1 || len(got.notices) != 1 || !strings.HasPrefix(got.notices[0], want) {
		t.Errorf("DESCRIBE FUNCTION: %q, %q", got.rows, got.notices)
	}
	// The cache answers from then on, in another engine too, and without a notice.
	server.Close()
	w = startWaiting(t, program)
	s = newSession(t, wire.Options{PID: w.pid()})
	run(t, s, "SET debuginfod = '"+server.URL+"'")
	q = start(t, s, ofIntegers)
	w.goOn()
	if got := read(t, q); len(got.rows) != 3 || strings.Contains(strings.Join(got.notices, "\n"), "build-id") {
		t.Errorf("from the cache: %q, %q", got.rows, got.notices)
	}
}

// TestDebugFilesGranted refuses users of the daemon what the engine would read or fetch for
// them with its own rights.
func TestDebugFilesGranted(t *testing.T) {
	granted, other := t.TempDir(), t.TempDir()
	alice := tracer("alice", aliceUID, false)
	alice.Read = []string{granted}
	t.Setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1")
	e := newShop(t)
	s := e.session(alice)
	for statement, want := range map[string]string{
		"SET debuginfod = 'on'":                                 "only an administrator may let the engine fetch debug files from servers",
		"SET debuginfod = 'http://127.0.0.1:1'":                 "only an administrator may let the engine fetch debug files from servers",
		"SET debug_directory = '" + other + "'":                 "is not in a directory that you may read",
		"SET debug_directory = '" + granted + ":" + other + "'": "is not in a directory that you may read",
	} {
		if got := refusal(t, s, statement); !strings.Contains(got, want) {
			t.Errorf("%s: %s", statement, got)
		}
	}
	run(t, s, "SET debug_directory = '"+granted+"'")
	run(t, s, "SET debuginfod = 'off'")
	admin := e.session(&grant.Grant{User: "root", Admin: true, Trace: true, Anywhere: true})
	run(t, admin, "SET debuginfod = 'on'")
	run(t, admin, "SET debug_directory = '"+other+"'")
	for statement, want := range map[string]string{
		"SET debuginfod = 'example.org'": "'example.org' is no URL of a debuginfod server",
		"SET debuginfod = 'yes'":         "it is off, on (the servers of DEBUGINFOD_URLS) or URLs separated by spaces",
	} {
		if got := refusal(t, admin, statement); !strings.Contains(got, want) {
			t.Errorf("%s: %s", statement, got)
		}
	}
	t.Setenv("DEBUGINFOD_URLS", "")
	if got := refusal(t, admin, "SET debuginfod = 'on'"); !strings.Contains(got, "the environment of the engine has no DEBUGINFOD_URLS") {
		t.Error(got)
	}
}

// TestHintsOfStrippedProgram names what a stripped program has: exported functions and marked
// places that are like what was asked for.
func TestHintsOfStrippedProgram(t *testing.T) {
	testenv.NeedUprobes(t)
	if _, err := os.Stat("/usr/include/x86_64-linux-gnu/sys/sdt.h"); err != nil {
		testenv.Skip(t, "%v", err)
	}
	program := testenv.CompileCText(t, `
		#include <stdio.h>
		#include <sys/sdt.h>
		int order_insert(int n) { DTRACE_PROBE1(shop, order__inserted, n); return n + 1; }
		int order_remove(int n) { DTRACE_PROBE1(shop, order__removed, n); return n - 1; }
		int customer_insert(int n) { DTRACE_PROBE(shop, customer__inserted); return n + 2; }
		int unrelated(int n) { return n + 3; }
		__attribute__((noinline)) static int insert_order_row(int n) { return order_insert(n) + order_remove(n) + customer_insert(n); }
		int main(void) { puts("ready"); fflush(stdout); getchar(); return insert_order_row(1); }`, "-O2", "-rdynamic", "-Wl,--build-id=0xabcdef0123456789")
	if out, err := exec.Command(testenv.NeedProgram(t, "strip"), program).CombinedOutput(); err != nil {
		t.Fatalf("strip: %v\n%s", err, out)
	}
	s := newSession(t, wire.Options{PID: startWaiting(t, program).pid()})
	for name, want := range map[string]string{
		"insert_order_row": "a debug file for build-id abcdef0123456789 under /usr/lib/debug would have them; of those that it exports, order_insert, customer_insert, order_remove are nearest; it has marked places such as usdt:shop:order__inserted, usdt:shop:customer__inserted, usdt:shop:order__removed (SHOW FUNCTIONS LIKE 'usdt:%')",
		"order_insret":     "of those that it exports, order_insert are nearest",
		"nothing_like":     "would have them; it has marked places such as usdt:shop:customer__inserted, usdt:shop:order__inserted, usdt:shop:order__removed (",
	} {
		if got := refusal(t, s, "SELECT tid FROM function_start WHERE function_name = '"+name+"'"); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
}

// TestHintOfPackage names the package that has the debug file of a program of the distribution.
func TestHintOfPackage(t *testing.T) {
	testenv.NeedUprobes(t)
	const path = "/usr/lib/postgresql/15/bin/postgres"
	if _, err := os.Stat("/var/lib/dpkg/info/postgresql-15.list"); err != nil {
		testenv.Skip(t, "%v", err)
	}
	if _, err := os.Stat("/var/lib/dpkg/info/postgresql-15-dbgsym.list"); err == nil {
		testenv.Skip(t, "postgresql-15-dbgsym is installed")
	}
	s := newSession(t, wire.Options{Exe: path})
	for statement, want := range map[string]string{
		"SELECT args.query_string FROM function_start WHERE function_name = 'pg_parse_query'": "names take a program compiled with -g, or its debug file: the package postgresql-15-dbgsym has it",
		"SELECT tid FROM function_start WHERE function_name = 'exec_simple_query'":            "a debug file would have them: the package postgresql-15-dbgsym has it; of those that it exports, ",
	} {
		if got := refusal(t, s, statement); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", statement, got, want)
		}
	}
}
