package server_test

import (
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// forksC calls work(0) to work(999) in each of four children, one after the other, and
// work(0) to work(9) itself.
const forksC = `#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
volatile long sink;
__attribute__((noinline)) void work(long n) { sink += n; }
int main(void) {
	char go;
	puts("ready"); fflush(stdout);
	if (read(0, &go, 1) != 1) return 1;
	for (int i = 0; i < 4; i++) {
		if (!fork()) { for (int k = 0; k < 1000; k++) work(k); _exit(0); }
		wait(0);
	}
	for (int k = 0; k < 10; k++) work(k);
}`

// TestFollowIsOfTheSession: queries share their probes if they follow the same processes, and
// conditions, aggregates and triggers have the calls of children like others.
func TestFollowIsOfTheSession(t *testing.T) {
	testenv.NeedUprobes(t)
	p := startWaiting(t, testenv.CompileCText(t, forksC, "-O1"))
	e, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	var h heard
	session := func(follow string) wire.Session {
		s, err := e.NewSession(t.Context(), wire.Options{PID: p.pid(), Notify: h.add})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		ask(t, s, "SET follow = "+follow)
		return s
	}
	children, others, alone := session("children"), session("children"), session("none")
	const all = "SELECT COUNT(*), COUNT(DISTINCT pid) FROM function_start WHERE function_name = 'work'"
	run(t, children, "CREATE TRIGGER last ON function_start WHEN function_name = 'work' AND arg0 = 999 BEGIN NOTIFY 'last call' END")
	queries := []struct {
		q    wire.Result
		want []string
	}{
		{start(t, children, all), []string{"4010", "5"}},
		{start(t, others, all), []string{"4010", "5"}},
		{start(t, alone, all), []string{"10", "1"}},
		{start(t, children, "SELECT COUNT(*), SUM(arg0) FROM function_duration WHERE function_name = 'work' AND arg0 >= 500"), []string{"2000", strconv.Itoa(4 * (999*1000 - 499*500) / 2)}},
		{start(t, children, "SELECT COUNT(*), MAX(depth) FROM function_call WHERE function_name = 'work' AND event = 'LEAVE'"), []string{"4010", "0"}},
	}
	// The trigger is query 1; those of the first two sessions share a probe, the third has its own.
	got := map[string]bool{}
	for _, row := range ask(t, children, "SELECT query_ids FROM sys.probes WHERE function_name = 'work'").rows {
		got[row[0]] = true
	}
	if diff := cmp.Diff(map[string]bool{"(2, 3)": true, "4": true, "1, 5, 6": true}, got); diff != "" {
		t.Error(diff)
	}
	p.goOn()
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, c := range queries {
		got := read(t, c.q)
		if diff := cmp.Diff([][]string{c.want}, got.rows); diff != "" {
			t.Errorf("query %d: %s", i, diff)
		}
		var counts []wire.Loss
		if c.want[1] == "1" {
			counts = []wire.Loss{{Cause: probes.Unobserved, N: 4}}
		}
		if diff := cmp.Diff(counts, got.summary.Counts); diff != "" || len(got.summary.Losses) > 0 {
			t.Errorf("query %d: counts %s losses %v", i, diff, got.summary.Losses)
		}
	}
	triggered(t, children)
	if got := h.all(); len(got) != 4 {
		t.Errorf("notified %q, want 4 times", got)
	}
}

// TestUnobservedChildrenOfSharedQueries: a query that joins the acquisition of another one counts
// the children that run then, and those that are started later.
func TestUnobservedChildrenOfSharedQueries(t *testing.T) {
	testenv.NeedUprobes(t)
	p := startWaiting(t, testenv.CompileCText(t, `#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
volatile long sink;
__attribute__((noinline)) void work(long n) { sink += n; }
int main(void) {
	char go;
	int gate[2];
	pipe(gate);
	for (int i = 0; i < 2; i++)
		if (!fork()) { close(gate[1]); read(gate[0], &go, 1); _exit(0); }
	if (!fork()) _exit(0);
	wait(0); /* of the last, since the others wait */
	puts("ready"); fflush(stdout);
	if (read(0, &go, 1) != 1) return 1;
	close(gate[1]);
	if (!fork()) _exit(0);
	while (wait(0) > 0) {}
	work(1);
}`, "-O1"))
	s := newSession(t, wire.Options{PID: p.pid()})
	var queries []wire.Result
	for range 2 {
		queries = append(queries, start(t, s, "SELECT COUNT(*) FROM function_start WHERE function_name = 'work'"))
	}
	p.goOn()
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, q := range queries {
		if diff := cmp.Diff([]wire.Loss{{Cause: probes.Unobserved, N: 3}}, read(t, q).summary.Counts); diff != "" {
			t.Errorf("query %d: %s", i, diff)
		}
	}
}

// TestCommandsAreFollowed: a session that starts a program, or whose client has, begins with
// following children; others do not.
func TestCommandsAreFollowed(t *testing.T) {
	for _, c := range []struct {
		o    wire.Options
		want string
	}{
		{wire.Options{Command: []string{"true"}}, "'children'"},
		{wire.Options{PID: 1, Started: true}, "'children'"},
		{wire.Options{PID: 1}, "'none'"},
	} {
		s := newSession(t, c.o)
		got := ""
		for _, row := range ask(t, s, "SHOW SETTINGS").rows {
			if row[0] == "follow" {
				got = row[1]
			}
		}
		if got != c.want {
			t.Errorf("%+v: follow is %s, want %s", c.o, got, c.want)
		}
	}
}

// TestSamplesOfChildren: samples include children, one whose parent has ended too, and a query
// of samples ends with the last of them.
func TestSamplesOfChildren(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, `#include <stdio.h>
#include <unistd.h>
int main(void) {
	int gate[2];
	char b;
	pipe(gate);
	if (!fork()) {
		close(gate[1]);
		read(gate[0], &b, 1);          /* until the parent has ended */
		while (read(0, &b, 1) == 1) {} /* until the test closes it */
		_exit(0);
	}
	puts("ready"); fflush(stdout);
	return read(0, &b, 1) != 1;
}`, "-O1")
	for _, stream := range []string{"stack_sample", "process_usage", "thread_usage"} {
		t.Run(stream, func(t *testing.T) {
			p := startWaiting(t, program)
			children := testenv.Children(p.pid())
			if len(children) != 1 {
				t.Fatalf("children %v", children)
			}
			s := newSession(t, wire.Options{PID: p.pid()})
			ask(t, s, "SET follow = children")
			q := start(t, s, "SELECT pid, timestamp FROM SAMPLE("+stream+", 20ms)")
			next := func() (pid int, at int64, more bool) {
				for {
					ev, err := q.Next(t.Context())
					if errors.Is(err, io.EOF) {
						return 0, 0, false
					}
					if err != nil {
						t.Fatal(err)
					}
					if ev.Kind != wire.Rows {
						continue
					}
					b := ev.Batch
					last := b.Row(b.Len() - 1) // the highest pid of a sample
					pid, at = int(b.Cols[0].Int[last]), b.Cols[1].Int[last]
					b.Release()
					return pid, at, true
				}
			}
			until := func(since int64) {
				t.Helper()
				for {
					pid, at, more := next()
					if !more {
						t.Fatal("the query has ended")
					}
					if pid == children[0] && at > since {
						return
					}
				}
			}
			until(0)
			p.goOn()
			if _, err := p.cmd.Process.Wait(); err != nil {
				t.Fatal(err)
			}
			until(time.Now().UnixNano())
			p.in.Close()
			for more := true; more; {
				_, _, more = next()
			}
		})
	}
}
