package server_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// requests are the programs with 100 concurrent requests, and how a query names what is in them.
var requests = []struct {
	name, context, prefix, handle, n string
	compile                          func(t *testing.T) string
}{
	{"C++", "BEGIN function_start WHERE function_name = 'handle' KEY str(args.id)", "", "handle", "arg0",
		func(t *testing.T) string {
			return testenv.CompileC(t, filepath.Join("testdata", "contexts", "server.cc"), "-O1", "-g", "-pthread")
		}},
	{"Go", "BEGIN function_start WHERE function_name = 'main.handle' KEY args.id", "main.", "main.handle", "args.n",
		func(t *testing.T) string {
			return testenv.CompileGo(t, filepath.Join("testdata", "contexts", "goserver"))
		}},
}

// Every call is inside of the request that the program itself says, whatever thread it is on:
// requests wait and go on on other threads, share threads as coroutines, and fail.
func TestContextsOfConcurrentRequests(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, p := range requests {
		program := p.compile(t)
		for _, stream := range []string{"function_start", "function_duration"} {
			t.Run(p.name+"/"+stream, func(t *testing.T) {
				got, log := observeRequests(t, program, p.context, fmt.Sprintf("SELECT function_name, %s, request FROM %s WHERE function_name LIKE '%swork%%'", p.n, stream, p.prefix))
				slices.Sort(got)
				slices.Sort(log)
				if diff := cmp.Diff(log, got); diff != "" {
					t.Errorf("-said by the program +observed\n%s", diff)
				}
			})
		}
		t.Run(p.name+"/function_call", func(t *testing.T) {
			got, log := observeRequests(t, program, p.context, fmt.Sprintf("SELECT event, function_name, request FROM function_call WHERE function_name LIKE '%swork%%' OR function_name = '%s'", p.prefix, p.handle))
			seen := map[string]int{}
			for _, row := range got {
				seen[row]++
			}
			want := map[string]int{}
			handled := map[string]bool{}
			for _, line := range log {
				f := strings.Fields(line)
				for _, event := range []string{"ENTER", "LEAVE"} {
					want[strings.Join([]string{event, f[0], f[2]}, " ")]++
				}
				if id := f[2]; id != "NULL" && !handled[id] {
					handled[id] = true
					end := "LEAVE"
					if strings.HasSuffix(id, "-0") {
						end = "UNWIND"
					}
					want["ENTER "+p.handle+" "+id], want[end+" "+p.handle+" "+id] = 1, 1
				}
			}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("-said by the program +observed\n%s", diff)
			}
		})
	}
}

// observeRequests runs a query over a program of requests, and returns its rows and the
// program's log.
func observeRequests(t *testing.T, program, context, query string) (got, log []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	w := startWaiting(t, program, path)
	s := newSession(t, wire.Options{PID: w.pid()})
	run(t, s, "CREATE OR REPLACE CONTEXT request AS "+context)
	q := start(t, s, query)
	w.goOn()
	a := read(t, q)
	complete(t, a)
	for _, row := range a.rows {
		got = append(got, strings.Join(row, " "))
	}
	for _, line := range strings.Split(strings.TrimSuffix(contents(t, path), "\n"), "\n") {
		f := strings.Split(line, " ")
		if f[2] == "" {
			f[2] = "NULL"
		}
		log = append(log, strings.Join(f, " "))
	}
	if len(log) != 100*3*11 {
		t.Fatalf("the program made %d calls", len(log))
	}
	return got, log
}

// Where a context begins and ends in other functions, it ends at the latest with the function
// that began it, as when an exception or longjmp skips the end; a nested one is inside.
func TestContextsEnd(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileC(t, filepath.Join("testdata", "contexts", "edges.cc"), "-O1", "-g")
	for _, c := range []struct{ what, context, stream, work string }{
		{"loop", "BEGIN function_start WHERE function_name = 'begin_request' KEY arg0 END function_start WHERE function_name = 'end_request'", "function_start", "work"},
		{"loop", "BEGIN function_start WHERE function_name = 'begin_request' KEY args.id END function_end WHERE function_name = 'end_request'", "function_duration", "work"},
		{"calls", "BEGIN function_start WHERE function_name = 'call' KEY args.id", "function_start", "work"},
		{"calls", "BEGIN function_start WHERE function_name = 'call' KEY args.id END function_end WHERE function_name = 'call'", "function_duration", "work"},
		{"jobs", "BEGIN function_end WHERE function_name = 'next_job' KEY retval END function_start WHERE function_name = 'next_job'", "function_start", "job_work"},
		{"deeper", "BEGIN function_start WHERE function_name = 'deeper' KEY args.id", "function_start", "work"},
	} {
		t.Run(c.what+"/"+c.context, func(t *testing.T) {
			w := startWaiting(t, program, c.what)
			s := newSession(t, wire.Options{PID: w.pid()})
			run(t, s, "CREATE CONTEXT request AS "+c.context)
			q := start(t, s, fmt.Sprintf("SELECT coalesce(request, 0), arg0 FROM %s WHERE function_name = '%s'", c.stream, c.work))
			w.goOn()
			a := read(t, q)
			if c.what == "deeper" { // four are nested too deep
				if len(a.summary.Losses) != 1 || a.summary.Losses[0].N != 4 {
					t.Errorf("losses %v", a.summary.Losses)
				}
			} else {
				complete(t, a)
			}
			if len(a.rows) < 5 {
				t.Fatalf("%d rows", len(a.rows))
			}
			for i, row := range a.rows {
				if row[0] != row[1] {
					t.Errorf("row %d: in %s, and not in %s", i, row[0], row[1])
				}
			}
		})
	}
}

// Allocations are inside of a context, too; a long key is cut off, and counted; NULL is a key.
func TestContextsOfMemory(t *testing.T) {
	testenv.NeedUprobes(t)
	w := startWaiting(t, testenv.CompileC(t, filepath.Join("testdata", "contexts", "edges.cc"), "-O1", "-g"), "k")
	s := newSession(t, wire.Options{PID: w.pid()})
	run(t, s, "CREATE CONTEXT request AS BEGIN function_start WHERE function_name = 'keep' KEY str(args.key)")
	q := start(t, s, "SELECT request FROM allocation WHERE size = 4321")
	w.goOn()
	a := read(t, q)
	long := strings.Repeat("0123456789", 7)[:64]
	if diff := cmp.Diff([][]string{{"short"}, {long}, {"NULL"}, {"NULL"}}, a.rows); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	counted := fmt.Sprint(a.summary)
	if !strings.Contains(counted, "keys of request cut off at 64 bytes") {
		t.Errorf("the footer is %s", counted)
	}
}

// A context is a column like others: in conditions, groups and joins.
func TestContextsAsColumns(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileC(t, filepath.Join("testdata", "contexts", "edges.cc"), "-O1", "-g")
	for query, want := range map[string][][]string{
		"SELECT request, count(*) FROM function_start WHERE function_name = 'work' AND request BETWEEN 3 AND 5 GROUP BY request":                                                                                                   {{"3", "2"}, {"4", "2"}, {"5", "2"}},
		"SELECT count(*) FROM function_duration WHERE function_name = 'work' AND request = 1007":                                                                                                                                   {{"1"}},
		"SELECT count(*) FROM function_duration WHERE function_name = 'work' AND request IS NULL":                                                                                                                                  {{"50"}},
		"SELECT b.request, count(*) FROM function_start a WINDOW JOIN function_duration b WINDOW 1min ON a.request = b.request AND a.function_name = 'nested' AND b.function_name = 'work' WHERE a.request = 5 GROUP BY b.request": {{"5", "2"}},
	} {
		w := startWaiting(t, program, "loop")
		s := newSession(t, wire.Options{PID: w.pid()})
		run(t, s, "CREATE CONTEXT request AS BEGIN function_start WHERE function_name = 'begin_request' KEY args.id END function_start WHERE function_name = 'end_request'")
		q := start(t, s, query)
		w.goOn()
		a := read(t, q)
		complete(t, a)
		if diff := cmp.Diff(want, a.rows); diff != "" {
			t.Errorf("%s: -want +got\n%s", query, diff)
		}
	}
}

// What a context cannot be is refused where it is defined, or where it is first used.
func TestContextsRefused(t *testing.T) {
	testenv.NeedUprobes(t)
	w := startWaiting(t, testenv.CompileC(t, filepath.Join("testdata", "contexts", "edges.cc"), "-O1", "-g"), "loop")
	s := newSession(t, wire.Options{PID: w.pid()})
	const rest = "SELECT request FROM function_start WHERE function_name = 'work'"
	for _, c := range []struct{ context, query, want string }{
		{"BEGIN function_start WHERE function_name = 'begin_requst' KEY args.id", rest, "context request: no function named begin_requst"},
		{"BEGIN function_start WHERE function_name = 'begin_request' KEY args.idd", rest, "context request: begin_request has no argument idd"},
		{"BEGIN function_start WHERE function_name = 'begin_request' KEY args.id END function_start WHERE function_name = 'end_requst'", rest, "context request: no function ends it"},
		{"BEGIN function_start WHERE function_name = 'begin_request' AND module = 'target' KEY args.id END function_start WHERE function_name = 'end_request' AND module LIKE 'x%'", rest, "context request: no function ends it"},
		{"BEGIN function_start WHERE function_name LIKE 'begin_%x' KEY arg0 END function_start WHERE function_name = 'end_request'", rest, "context request: no function begins it"},
		{"BEGIN function_start WHERE function_name = 'begin_request' KEY args.id", "SELECT request FROM process_end", "a process, or a thread in an interval, is inside of many"},
		{"BEGIN function_start WHERE function_name = 'begin_request' KEY args.id", "SELECT request FROM SAMPLE(thread_usage, 10ms)", "there is no column request here"},
		{"BEGIN function_start WHERE function_name = 'begin_request' KEY args.id", "SELECT request, count(*) FROM function_start GROUP BY request WITHIN OVERHEAD 1%", "request is not known WITHIN OVERHEAD"},
		{"BEGIN function_start WHERE function_name = 'begin_request' KEY args.id", "CREATE TRIGGER t ON function_start WHEN function_name = 'work' BEGIN RECALL function_call WHERE function_name = 'serve' AND request = 1 LAST 1s END", "request cannot be recalled"},
	} {
		run(t, s, "CREATE OR REPLACE CONTEXT request AS "+c.context)
		if got := refusal(t, s, c.query); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.context, got, c.want)
		}
	}
	if a := run(t, s, "SHOW PROBES"); len(a.rows) != 0 {
		t.Errorf("attached: %v", a.rows)
	}
	run(t, s, "DROP CONTEXT request")
	if got := refusal(t, s, rest); !strings.Contains(got, "there is no column request here") {
		t.Errorf("after DROP CONTEXT: %s", got)
	}
	if got := refusal(t, s, "DROP CONTEXT request"); !strings.Contains(got, "there is no context request") {
		t.Errorf("a second DROP CONTEXT: %s", got)
	}
}
