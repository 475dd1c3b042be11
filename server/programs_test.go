package server_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// counting calls work as often as its argument says, and prints its pid and that number.
const counting = `
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
volatile long sink;
__attribute__((noinline)) long work(long n) { sink += n; return n; }
int main(int argc, char **argv) {
	long n = atol(argv[1]);
	for (long i = 0; i < n; i++) work(i);
	printf("%d %ld\n", getpid(), n);
}
`

// counts runs a program to its end and returns the number of calls that it says it made.
func counts(t testing.TB, program string, n int) int {
	t.Helper()
	var pid, said int
	if _, err := fmt.Sscan(testenv.Output(t, program, fmt.Sprint(n)), &pid, &said); err != nil {
		t.Fatal(err)
	}
	return said
}

// stopAndCount ends the only query of a session, and returns its rows of a text and a
// number.
func stopAndCount(t testing.TB, s wire.Session, r wire.Result) map[string]int {
	t.Helper()
	run(t, s, "STOP 1")
	a := read(t, r)
	complete(t, a)
	out := map[string]int{}
	for i, row := range a.rows {
		out[row[0]] += int(number(t, a, i, 1))
	}
	return out
}

// A query observes several programs, chosen by a list or a pattern, with all their later
// processes. Calls are counted for each.
func TestSeveralPrograms(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, counting, "-O1")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	one := testenv.CopyFile(t, program, filepath.Join(dir, "one"))
	two := testenv.CopyFile(t, testenv.CompileCText(t, counting, "-O2"), filepath.Join(dir, "sub", "two"))
	testenv.CopyFile(t, testenv.CompileCText(t, "int work(int n) { return n; }", "-shared", "-fPIC", "-Wl,-soname,libwork.so"), filepath.Join(dir, "libwork.so"))
	write(t, filepath.Join(dir, "script"), "#!/bin/sh\n")
	both := map[string]int{one: 15, two: 20}
	for cond, want := range map[string]map[string]int{
		"exe IN ('" + one + "', '" + two + "')":                                  both,
		"(exe = '" + one + "' OR exe = '" + two + "')":                           both,
		"exe LIKE '" + dir + "/%'":                                               both,
		"exe LIKE '" + dir + "/%' AND process LIKE 'tw_'":                        {two: 20},
		"starts_with(exe, '" + dir + "/o')":                                      {one: 15},
		"(exe LIKE '" + dir + "/on_' OR exe LIKE '" + dir + "/sub/%')":           both,
		"exe LIKE '" + dir + "/%' AND NOT (exe LIKE '%two') AND pid > 0":         {one: 15},
		"exe LIKE '" + dir + "/%' AND process LIKE 't%' AND thread_name = 'two'": {two: 20},
	} {
		for _, query := range []string{
			"SELECT exe, COUNT(*) FROM function_start WHERE function_name = 'work' AND %s GROUP BY exe",
			"SELECT exe, COUNT(*) FROM function_duration WHERE function_name = 'work' AND %s AND duration >= 0ns GROUP BY exe",
			"SELECT exe, 1 FROM function_start WHERE function_name = 'work' AND %s AND process <> ''",
		} {
			s := newSession(t, wire.Options{})
			r := start(t, s, fmt.Sprintf(query, cond))
			made := map[string]int{one: counts(t, one, 10) + counts(t, one, 5), two: counts(t, two, 20)}
			counts(t, program, 40) // another file
			maps.DeleteFunc(made, func(exe string, _ int) bool { return want[exe] == 0 })
			if diff := cmp.Diff(want, made); diff != "" {
				t.Fatal(diff)
			}
			if diff := cmp.Diff(made, stopAndCount(t, s, r)); diff != "" {
				t.Errorf("%s: %s", fmt.Sprintf(query, cond), diff)
			}
		}
	}
}

// A pattern of names chooses the programs of the processes that have such names now, and
// all their processes with such names, those that start later included.
func TestProgramsByPatternOfNames(t *testing.T) {
	testenv.NeedUprobes(t)
	name := fmt.Sprintf("pat%d", os.Getpid())
	program := testenv.CopyFile(t, testenv.CompileCText(t, `
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
volatile long sink;
__attribute__((noinline)) long work(long n) { sink += n; return n; }
int main(int argc, char **argv) {
	if (argc > 2) prctl(PR_SET_NAME, argv[2]);
	puts("ready");
	fflush(stdout);
	if (argc < 2) getchar();
	for (long i = 0; i < (argc > 1 ? atol(argv[1]) : 3); i++) work(i);
}
`, "-O1"), filepath.Join(t.TempDir(), name))
	w := startWaiting(t, program)
	s := newSession(t, wire.Options{})
	r := start(t, s, "SELECT process, COUNT(*) FROM function_start WHERE function_name = 'work' AND process LIKE '"+name+"%' GROUP BY process")
	testenv.Output(t, program, "10", name+"-1")
	testenv.Output(t, program, "20", "other")
	w.goOn()
	w.cmd.Wait()
	if diff := cmp.Diff(map[string]int{name: 3, name + "-1": 10}, stopAndCount(t, s, r)); diff != "" {
		t.Error(diff)
	}
}

// EXPLAIN lists each program and its places; a pattern that no program satisfies is refused.
func TestSeveralProgramsExplained(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	program := testenv.CompileCText(t, counting, "-O1")
	for _, name := range []string{"one", "two"} {
		testenv.CopyFile(t, program, filepath.Join(dir, name))
	}
	s := newSession(t, wire.Options{})
	a := run(t, s, "EXPLAIN SELECT COUNT(*) FROM function_start WHERE exe LIKE '"+dir+"/%' AND function_name = 'work'")
	said := fmt.Sprint(a.rows, a.notices)
	for _, want := range []string{"target exe = '" + dir + "/one' or exe = '" + dir + "/two'", "uprobe work in one at", "uprobe work in two at", "exe like '" + dir + "/%': " + dir + "/one, " + dir + "/two"} {
		if !strings.Contains(said, want) {
			t.Errorf("EXPLAIN says %s, not %s", said, want)
		}
	}
	query := "SELECT COUNT(*) FROM function_start WHERE exe LIKE '" + dir + "/three%' AND function_name = 'work'"
	want := "error: no program satisfies exe like '" + dir + "/three%'"
	if got := refusal(t, s, query); !strings.HasPrefix(got, want) || !strings.Contains(got, "^") || !strings.Contains(got, "hint: SHOW PROCESSES") {
		t.Errorf("refused with %s", got)
	}
	write(t, filepath.Join(dir, "text"), "no program")
	if got := refusal(t, s, "SELECT COUNT(*) FROM function_start WHERE exe LIKE '"+dir+"/t_xt' AND function_name = 'work'"); !strings.Contains(got, "no program satisfies") {
		t.Errorf("refused with %s", got)
	}
}

// libraryUser loads a library with dlopen or was linked to it, and calls twice as often as
// its argument says.
const libraryUser = `
#include <stdlib.h>
int twice(int);
int main(int argc, char **argv) { int x = 0; for (int i = 0; i < atoi(argv[1]); i++) x += twice(i); return x < 0; }
`

// A library that no process has mapped is observed in all processes, from their first call.
func TestLibraryInAllProcesses(t *testing.T) {
	testenv.NeedUprobes(t)
	library := testenv.CompileCText(t, "int twice(int x) { return 2 * x; }\n__attribute__((constructor)) void begins(void) { twice(1); }\n", "-shared", "-fPIC", "-O1", "-fno-inline", "-Wl,-soname,libtwice.so.1")
	dir := t.TempDir()
	path := testenv.CopyFile(t, library, filepath.Join(dir, "libtwice.so.1.0"))
	link := filepath.Join(dir, "libtwice.so.1")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	program := testenv.CompileCText(t, libraryUser, "-O1", "-Wl,--no-as-needed", link, "-Wl,-rpath,"+dir)
	one := testenv.CopyFile(t, program, filepath.Join(dir, "one"))
	two := testenv.CopyFile(t, program, filepath.Join(dir, "two"))
	plain := filepath.Join(dir, "copy.so") // of the same code, not asked for
	testenv.CopyFile(t, library, plain)
	for _, module := range []string{"= '" + path + "'", "= '" + link + "'", "IN ('" + path + "', '" + link + "')", "LIKE '" + dir + "/libtwice%'"} {
		for _, stream := range []string{"function_start", "function_end", "function_duration"} {
			query := "SELECT exe, COUNT(*) FROM " + stream + " WHERE module " + module + " AND function_name = 'twice' GROUP BY exe"
			s := newSession(t, wire.Options{})
			r := start(t, s, query)
			for program, n := range map[string]string{one: "10", two: "20"} {
				if err := exec.Command(program, n).Run(); err != nil {
					t.Fatal(err)
				}
			}
			testenv.Output(t, "env", "LD_PRELOAD="+plain, "true")
			if diff := cmp.Diff(map[string]int{one: 11, two: 21}, stopAndCount(t, s, r)); diff != "" {
				t.Errorf("%s: %s", query, diff)
			}
		}
	}
}

// Processes that have mapped the library when the query begins are observed as later ones.
func TestLibraryOfRunningProcesses(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	library := testenv.CopyFile(t, testenv.CompileCText(t, "int twice(int x) { return 2 * x; }\n", "-shared", "-fPIC", "-O1"), filepath.Join(dir, "libtwo.so"))
	program := testenv.CompileCText(t, `
#include <stdio.h>
int twice(int);
int main(void) { puts("ready"); fflush(stdout); getchar(); for (int i = 0; i < 7; i++) twice(i); }
`, "-O0", "-Wl,--no-as-needed", library, "-Wl,-rpath,"+dir)
	w := startWaiting(t, program)
	s := newSession(t, wire.Options{})
	r := start(t, s, "SELECT pid, COUNT(*) FROM function_duration WHERE module = '"+library+"' AND function_name = 'twice' GROUP BY pid")
	w.goOn()
	w.cmd.Wait()
	if diff := cmp.Diff(map[string]int{fmt.Sprint(w.pid()): 7}, stopAndCount(t, s, r)); diff != "" {
		t.Error(diff)
	}
}

// Marked places of a file are observed in all processes that execute it, and their
// semaphores are raised in those that start later.
func TestMarkedPlacesInAllProcesses(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	library := testenv.CopyFile(t, testenv.CompileCText(t, `
__attribute__((section(".probes"), used)) volatile unsigned short app_guarded_semaphore;
void pass(int n) {
	if (app_guarded_semaphore)
		asm volatile("990: nop\n"
			".pushsection .note.stapsdt,\"\",\"note\"\n .balign 4\n .4byte 992f-991f, 994f-993f, 3\n"
			"991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b, 0, app_guarded_semaphore\n"
			".asciz \"app\"\n .asciz \"guarded\"\n .asciz \"-4@%0\"\n994: .balign 4\n .popsection\n" :: "r"(n));
}
int raised(void) { return app_guarded_semaphore; }
`, "-shared", "-fPIC", "-O1", "-Wl,-Bsymbolic", "-fvisibility=default"), filepath.Join(dir, "libmarks.so"))
	program := testenv.CompileCText(t, `
#include <stdio.h>
void pass(int n);
int raised(void);
int main(void) { for (int i = 0; i < 9; i++) pass(i); printf("%d\n", raised()); }
`, "-O1", "-Wl,--no-as-needed", library, "-Wl,-rpath,"+dir)
	if said := strings.TrimSpace(testenv.Output(t, program)); said != "0" {
		t.Fatalf("the semaphore is %s before it is probed", said)
	}
	for _, where := range []string{"module = '" + library + "'", "module = '" + library + "' AND arg0 >= 0"} {
		s := newSession(t, wire.Options{})
		r := start(t, s, "SELECT process, COUNT(*) FROM function_start WHERE function_name = 'usdt:app:guarded' AND "+where+" GROUP BY process")
		for range 2 {
			if said := strings.TrimSpace(testenv.Output(t, program)); said != "1" {
				t.Errorf("the semaphore is %s while the place is probed", said)
			}
		}
		if diff := cmp.Diff(map[string]int{"target": 18}, stopAndCount(t, s, r)); diff != "" {
			t.Errorf("%s: %s", where, diff)
		}
	}
}

// What cannot be observed in all processes is refused.
func TestAllProcessesRefused(t *testing.T) {
	testenv.NeedUprobes(t)
	s := newSession(t, wire.Options{})
	for query, want := range map[string]string{
		"SELECT pid FROM function_start WHERE module = 'libnope.so.1' AND function_name = 'f'":                "no library is called 'libnope.so.1' in the folders that the loader searches",
		"SELECT pid FROM function_start WHERE module = '/nope/libnope.so.1' AND function_name = 'f'":          "/nope/libnope.so.1 does not exist",
		"SELECT pid FROM function_start WHERE module LIKE '/nope/%' AND function_name = 'f'":                  "no file of code satisfies module like '/nope/%'",
		"SELECT pid FROM function_start WHERE module LIKE 'libc%' AND function_name = 'malloc'":               "function_start needs a target process",
		"SELECT depth FROM function_start WHERE module = 'libc.so.6' AND function_name = 'malloc'":            "how calls nest is not known where all processes are observed",
		"SELECT * FROM function_call WHERE module = 'libc.so.6' AND function_name = 'malloc'":                 "function_call needs a target process",
		"SELECT pid FROM function_start WHERE module = 'libc.so.6' AND function_name = 'maloc'":               "no function named maloc in libc.so.6",
		"SELECT * FROM function_start WHERE pid = 1 AND module = '/lib/libc.so.6' AND function_name = 'f'":    "modules have the names of their files, without folders",
		"SELECT pid FROM function_start WHERE module = 'libc.so.6' AND exe ~ '^/nope/' AND function_name='f'": "no program satisfies exe ~ '^/nope/'",
	} {
		if got := refusal(t, s, query); !strings.Contains(got, want) || !strings.Contains(got, "^") {
			t.Errorf("%s: %s, not %s", query, got, want)
		}
	}
	run(t, s, "SET return_probes = 'trap'")
	if got := refusal(t, s, "SELECT pid FROM function_duration WHERE module = 'libc.so.6' AND function_name = 'malloc'"); !strings.Contains(got, "return traps may harm processes that start later") {
		t.Error(got)
	}
}

// someRows returns the rows of a query, which is run again if the target had no processor
// for as long as it was observed.
func someRows(t *testing.T, s wire.Session, query string) (rows [][]string) {
	t.Helper()
	testenv.Once(t, func() error {
		if rows = run(t, s, query).rows; len(rows) == 0 {
			return fmt.Errorf("%s: no rows", query)
		}
		return nil
	})
	return rows
}

// A user who may not observe everybody chooses among the programs of visible processes, and
// has rows of these alone.
func TestProgramsOfOneUser(t *testing.T) {
	testenv.NeedUprobes(t)
	dir, err := os.MkdirTemp("", "programs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	library := testenv.CopyFile(t, testenv.CompileCText(t, "int twice(int x) { return 2 * x; }\n", "-shared", "-fPIC", "-O1"), filepath.Join(dir, "libtwice.so"))
	other := testenv.CopyFile(t, library, filepath.Join(dir, "libunused.so"))
	program := testenv.CopyFile(t, testenv.CompileCText(t, `
#include <stdio.h>
#include <unistd.h>
int twice(int);
__attribute__((noinline)) int work(int n) { return twice(n); }
int main(void) { puts("ready"); fflush(stdout); for (;;) { work(1); usleep(1000); } }
`, "-O0", "-Wl,--no-as-needed", library, "-Wl,-rpath,"+dir), filepath.Join(dir, "es-user"))
	idle := testenv.CopyFile(t, program, filepath.Join(dir, "es-idle"))
	for _, path := range []string{dir, library, other, program, idle} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	runAs := func(uid uint32) string {
		cmd := exec.Command(program)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		testenv.AwaitSleep(t, cmd.Process.Pid)
		return fmt.Sprint(cmd.Process.Pid)
	}
	alices := runAs(aliceUID)
	runAs(bobUID)
	s := newShop(t)
	alice, sharing := s.session(tracer("alice", aliceUID, false)), s.session(tracer("alice", aliceUID, true))
	byPattern := "SELECT DISTINCT pid FROM function_start WHERE exe LIKE '" + dir + "/%' AND function_name = 'work' FOR 300ms"
	byFile := "SELECT DISTINCT pid FROM function_start WHERE module = '" + library + "' AND function_name = 'twice' FOR 300ms"
	for _, c := range []struct {
		session wire.Session
		query   string
	}{{alice, byPattern}, {sharing, byPattern}, {sharing, byFile}} {
		if diff := cmp.Diff([][]string{{alices}}, someRows(t, c.session, c.query)); diff != "" {
			t.Errorf("%s: %s", c.query, diff)
		}
	}
	// Who observes everybody learns no more than that of the files in folders.
	carol := s.session(&grant.Grant{User: "carol", Trace: true})
	for who, sees := range map[wire.Session]bool{alice: false, carol: false, s.session(nil): true} {
		a := run(t, who, "EXPLAIN "+byPattern)
		if said := fmt.Sprint(a.rows, a.notices); strings.Contains(said, "es-idle") != sees || !strings.Contains(said, "es-user") {
			t.Errorf("EXPLAIN says %s", said)
		}
	}
	for _, c := range []struct {
		session     wire.Session
		query, want string
	}{
		{carol, strings.ReplaceAll(byFile, "= '"+library, "LIKE '"+dir+"/%"), "does not name files"},
		{alice, byFile, `probes in all processes that load a file need the grant "shared"`},
		{sharing, strings.ReplaceAll(byFile, library, other), "no process has loaded " + other},
		{sharing, strings.ReplaceAll(byFile, library, "/nope/x.so"), "no process has loaded /nope/x.so"},
		{sharing, strings.ReplaceAll(byFile, "= '"+library, "LIKE '"+dir+"/%"), "does not name files"},
		{alice, "SELECT pid FROM function_start WHERE exe LIKE '/usr/sbin/%' AND function_name = 'work'", "no program satisfies exe like '/usr/sbin/%'"},
	} {
		if got := refusal(t, c.session, c.query); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, not %s", c.query, got, c.want)
		}
	}
}

// A library is chosen by the name that programs need it by, also where that is a link to its
// file. In a process that has mapped it, it is compared with the file as any other.
func TestLibraryByNameOfALink(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	library := testenv.CopyFile(t, testenv.CompileCText(t, "int twice(int x) { return 2 * x; }\n", "-shared", "-fPIC", "-O1", "-Wl,-soname,liblink.so.1"), filepath.Join(dir, "liblink.so.1.2"))
	if err := os.Symlink(library, filepath.Join(dir, "liblink.so.1")); err != nil {
		t.Fatal(err)
	}
	w := startWaiting(t, testenv.CompileCText(t, `
#include <stdio.h>
#include <stdint.h>
#include <sys/mman.h>
int twice(int);
int main(int argc, char **argv) {
	if (argc > 1) { /* change the end of the function in this process */
		unsigned char *at = (unsigned char *)twice;
		mprotect((void *)((uintptr_t)at & -4096), 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
		*at = 0x90;
		mprotect((void *)((uintptr_t)at & -4096), 8192, PROT_READ | PROT_EXEC);
	}
	puts("ready"); fflush(stdout); getchar();
	if (argc == 1) for (int i = 0; i < 7; i++) twice(i);
}
`, "-O0", "-Wl,--no-as-needed", library, "-Wl,-rpath,"+dir))
	s := newSession(t, wire.Options{PID: w.pid()})
	query := "SELECT module, COUNT(*) FROM function_start WHERE module IN ('liblink.so.1') AND function_name = 'twice' GROUP BY module"
	r := start(t, s, query)
	both := start(t, s, strings.Replace(query, "IN (", "IN ('liblink.so.1.2', ", 1))
	if a := run(t, s, "EXPLAIN "+query); strings.Contains(fmt.Sprint(a.notices), "not loaded") {
		t.Errorf("notices %v", a.notices)
	}
	w.goOn()
	for r, name := range map[wire.Result]string{r: "liblink.so.1", both: "liblink.so.1.2"} {
		if diff := cmp.Diff([][]string{{name, "7"}}, read(t, r).rows); diff != "" {
			t.Error(diff)
		}
	}
	changed := startWaiting(t, w.cmd.Path, "change")
	s = newSession(t, wire.Options{PID: changed.pid()})
	if got := refusal(t, s, "SELECT COUNT(*) FROM function_start WHERE module = 'liblink.so.1' AND function_name = 'twice'"); !strings.Contains(got, "the process has changed its code") {
		t.Error(got)
	}
}
