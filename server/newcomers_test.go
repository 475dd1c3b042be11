package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// clone copies a program: the same code as another file.
func clone(t *testing.T, from, to string) string {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// sessionsOf gives sessions of one engine, one for each executable.
func sessionsOf(t *testing.T) func(exe string) wire.Session {
	t.Helper()
	e, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return func(exe string) wire.Session {
		t.Helper()
		s, err := e.NewSession(t.Context(), wire.Options{Exe: exe})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
}

// countings count the calls of work by process, each in its way: entries, aggregated or
// not, returns by return traps and at exits, and a sequence.
var countings = []struct{ name, set, query string }{
	{"starts", "SET kernel = on", "SELECT pid, COUNT(*) FROM function_start WHERE function_name = 'work' GROUP BY pid"},
	{"rows", "SET kernel = off", "SELECT pid, COUNT(*) FROM function_start WHERE function_name = 'work' GROUP BY pid"},
	{"traps", "SET return_probes = auto", "SELECT pid, COUNT(*) FROM function_duration WHERE function_name = 'work' GROUP BY pid"},
	{"exits", "SET return_probes = exits", "SELECT pid, COUNT(*) FROM function_duration WHERE function_name = 'work' GROUP BY pid"},
	{"sequence", "SET return_probes = auto", "SELECT pid, COUNT(*) FROM function_call WHERE function_name = 'work' AND event = 'LEAVE' GROUP BY pid"},
}

// counted are the calls that a query has counted, by process, in ascending order.
func counted(t *testing.T, q wire.Result) (list []int) {
	t.Helper()
	q.Stop()
	for _, row := range read(t, q).rows {
		n, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// TestProgramsThatStartOthers counts each call once, in the program that it is of, however
// that was started: by a thread that is not the leader, by fork, vfork, posix_spawn.
func TestProgramsThatStartOthers(t *testing.T) {
	testenv.NeedUprobes(t)
	first := testenv.CompileC(t, filepath.Join("testdata", "newcomers", "starter.c"), "-O1", "-pthread")
	second := clone(t, first, first+"-second")
	of := sessionsOf(t)
	before, after := make([]wire.Result, len(countings)), make([]wire.Result, len(countings))
	for i, c := range countings {
		for exe, list := range map[string][]wire.Result{first: before, second: after} {
			s := of(exe)
			ask(t, s, c.set)
			list[i] = start(t, s, c.query)
		}
	}
	for way, calls := range map[string]string{"thread": "7", "fork": "11", "vfork": "13", "posix_spawn": "17"} {
		p := startWaiting(t, first, way, second, calls)
		p.goOn()
		if err := p.cmd.Wait(); err != nil {
			t.Fatalf("%s: %v", way, err)
		}
	}
	for i, c := range countings {
		// The thread's; three parents', two of which forked; and these children's.
		if diff := cmp.Diff([]int{2, 2, 2, 3, 3, 5}, counted(t, before[i])); diff != "" {
			t.Errorf("%s in the program that starts another: -want +got\n%s", c.name, diff)
		}
		if diff := cmp.Diff([]int{7, 11, 13, 17}, counted(t, after[i])); diff != "" {
			t.Errorf("%s in the program that is started: -want +got\n%s", c.name, diff)
		}
	}
}

// TestProcessThatExecutesItself follows a process, which is asked for by its number, when
// it executes its program again. Each query is alone: others' probes would not be missed.
func TestProcessThatExecutesItself(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileC(t, filepath.Join("testdata", "newcomers", "starter.c"), "-O1", "-pthread")
	of := sessionsOf(t)
	for _, c := range countings {
		p := startWaiting(t, program, "exec", program, "7")
		pid := strconv.Itoa(p.pid())
		s := of("")
		ask(t, s, c.set)
		q := start(t, s, strings.Replace(c.query, "WHERE", "WHERE pid = "+pid+" AND", 1))
		p.goOn()
		if err := p.cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]string{{pid, "12"}}, read(t, q).rows); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
	}
}

// TestProgramUnderSeveralPaths counts each call once where a program has several paths,
// whichever of them is asked for: a hard link, a bind mount, a symbolic link.
func TestProgramUnderSeveralPaths(t *testing.T) {
	testenv.NeedUprobes(t)
	own := testenv.CompileC(t, filepath.Join("testdata", "newcomers", "starter.c"), "-O1", "-pthread")
	dir := t.TempDir()
	paths := map[string]string{"its own": own, "hard link": own + "-link", "symbolic link": filepath.Join(dir, "symbolic"), "bind mount": filepath.Join(dir, "mount", filepath.Base(own))}
	if err := os.Link(own, paths["hard link"]); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(own, paths["symbolic link"]); err != nil {
		t.Fatal(err)
	}
	mount := filepath.Dir(paths["bind mount"])
	if err := os.Mkdir(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(filepath.Dir(own), mount, "", syscall.MS_BIND, ""); err != nil {
		testenv.Skip(t, "cannot mount: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(mount, syscall.MNT_DETACH) })
	var queries []wire.Result
	var asked []string
	add := func(s wire.Session, what, query string) {
		queries, asked = append(queries, start(t, s, query)), append(asked, what)
	}
	of := sessionsOf(t)
	for name, path := range paths {
		for _, c := range countings {
			s := of(path)
			ask(t, s, c.set)
			add(s, c.name+" by "+name, c.query)
		}
	}
	// All of them at once.
	list := ""
	for _, path := range paths {
		list += fmt.Sprintf(", '%s'", path)
	}
	add(of(""), "all paths", "SELECT pid, COUNT(*) FROM function_duration WHERE function_name = 'work' AND exe IN ("+list[2:]+") GROUP BY pid")
	for _, path := range paths {
		p := startWaiting(t, path, "posix_spawn", path, "7")
		p.goOn()
		if err := p.cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for i, q := range queries {
		if diff := cmp.Diff([]int{2, 2, 2, 2, 7, 7, 7, 7}, counted(t, q)); diff != "" {
			t.Errorf("%s: -want +got\n%s", asked[i], diff)
		}
	}
}
