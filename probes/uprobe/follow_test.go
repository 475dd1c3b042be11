package uprobe

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/gate"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/internal/testplan"
)

// prefork is a server with two workers before it is ready and two after that. A worker calls
// work 1,000 times: immediately, or, if it was forked before the server is ready, when the
// server closes its pipe. The last worker forks another one, and starts the program again by
// vfork and exec; both call work too. Each process prints its pid and the number of its calls.
const prefork = prelude + `
#include <sys/prctl.h>
NOINLINE long work(long n) { sink += n; return n; }
static void toil(int n) { for (int i = 0; i < n; i++) work(i); dprintf(1, "%d %d\n", getpid(), n); }
static void *toiling(void *p) { for (int i = 0; i < 500; i++) work(i); return p; }
int main(int argc, char **argv) {
	int gate[2]; char b;
	if (argc > 1) { toil(100); _exit(0); }
	pipe(gate);
	for (int i = 0; i < 4; i++) {
		if (i == 2) { ready(); close(gate[1]); }
		if (fork()) continue;
		prctl(PR_SET_NAME, "worker");
		if (i < 2) { close(gate[1]); read(gate[0], &b, 1); }
		if (i == 2) {
			pthread_t t;
			pthread_create(&t, 0, toiling, 0);
			for (int k = 0; k < 500; k++) work(k);
			pthread_join(t, 0);
			dprintf(1, "%d %d\n", getpid(), 1000);
			_exit(0);
		}
		toil(1000);
		if (i < 3) _exit(0);
		if (!fork()) { toil(1000); _exit(0); }
		char *again[] = {argv[0], "again", 0};
		pid_t p = vfork();
		if (!p) { execv("/proc/self/exe", again); _exit(1); }
		while (wait(0) > 0) {}
		_exit(0);
	}
	toil(10);
	while (wait(0) > 0) {}
	return 0;
}
`

// logged returns the calls by pid that the processes of a program printed.
func logged(t *testing.T, lines []string) map[int64]int {
	t.Helper()
	calls := map[int64]int{}
	for _, line := range lines {
		var pid, n int
		if _, err := fmt.Sscan(line, &pid, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		calls[int64(pid)] += n
	}
	return calls
}

func following(t plan.Target) plan.Target {
	t.Follow = true
	return t
}

// The children of a process are observed from their first call on, whether they were forked
// before the query began or later, by the process or by a child.
func TestChildrenAreFollowed(t *testing.T) {
	testenv.NeedUprobes(t)
	name := fmt.Sprintf("prefork%d", os.Getpid()) // of no other process
	target := testenv.CopyFile(t, testenv.CompileCText(t, prefork, "-O1", "-pthread"), filepath.Join(t.TempDir(), name))
	returnModes(t, func(t *testing.T, o Options) {
		for _, stream := range []string{catalog.FunctionStart, catalog.FunctionEnd, catalog.FunctionDuration, catalog.FunctionCall} {
			for _, by := range []string{"pid", "name"} {
				t.Run(stream+" by "+by, func(t *testing.T) {
					p := provider(t, o)
					r := run(t, target)
					of := r.target()
					if by == "name" {
						of = plan.Target{Processes: []string{name}}
					}
					columns := []string{"timestamp", "pid"}
					if stream == catalog.FunctionCall {
						columns = append(columns, "event")
					}
					src, got := start(t, p, testplan.Acquire(stream, following(of), testplan.Named("work"), columns...))
					want := logged(t, r.finish(success))
					if by == "name" {
						src.Stop()
					}
					got.wait(t)
					if stream == catalog.FunctionCall {
						for pid, n := range want {
							want[pid] = 2 * n
						}
						if diff := cmp.Diff([]string{"ENTER", "LEAVE"}, slices.Sorted(maps.Keys(tally(got.strings("event"))))); diff != "" {
							t.Error(diff)
						}
					}
					if len(want) != 7 {
						t.Errorf("the program says %v: not 7 processes", want)
					}
					if diff := cmp.Diff(want, tally(got.ints("pid"))); diff != "" {
						t.Error(diff)
					}
					if len(got.lost)+len(got.counts) > 0 {
						t.Errorf("lost %v, counts %v", got.lost, got.counts)
					}
				})
			}
		}
	})
}

// Children that are not followed are counted, with those that ran when the query began.
func TestChildrenNotFollowedAreCounted(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prefork, "-O1", "-pthread")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("work"), "pid"))
		r.finish(success)
		got.wait(t)
		if diff := cmp.Diff(map[int64]int{int64(r.cmd.Process.Pid): 10}, tally(got.ints("pid"))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]uint64{probes.Unobserved: 6}, got.counts); diff != "" || len(got.lost) > 0 {
			t.Errorf("counts: %s lost %v", diff, got.lost)
		}
	})
}

// A query that stands by counts the children that run when it begins, and later ones.
func TestChildrenOfAQueryOnStandby(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long work(long n) { sink += n; return n; }
int main(void) {
	int gate[2];
	char b;
	pipe(gate);
	ready();
	for (int i = 0; i < 2; i++) {
		if (!fork()) { close(gate[1]); read(gate[0], &b, 1); _exit(0); }
		pid_t p = fork();
		if (!p) _exit(0);
		waitpid(p, 0, 0);
	}
	ready();
	close(gate[1]);
	if (!fork()) _exit(0);
	while (wait(0) > 0) {}
	work(1);
}
`, "-O1")
	p := provider(t, Options{})
	r := run(t, target)
	spec := testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("work"), "pid")
	src, err := p.Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got := newRecord(spec)
	if err := src.Start(context.Background(), got, probes.Options{Standby: true}); err != nil {
		t.Fatal(err)
	}
	r.step()
	r.awaitReady()
	if _, err := src.Control(context.Background(), probes.Begin{}); err != nil {
		t.Fatal(err)
	}
	r.finish(success)
	got.wait(t)
	if diff := cmp.Diff(map[string]uint64{probes.Unobserved: 3}, got.counts); diff != "" {
		t.Error(diff)
	}
}

// A query of a process that becomes a daemon ends with the daemon, which has lost its parents.
func TestADaemonIsFollowed(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long work(long n) { sink += n; return n; }
int main(int argc, char **argv) {
	char b;
	int gate[2];
	pipe(gate);
	ready();
	if (!fork()) {
		setsid();
		if (!fork()) {
			close(gate[1]);
			read(gate[0], &b, 1); /* until both parents have ended */
			for (int i = 0; i < 1000; i++) work(i);
			dprintf(1, "%d 1000\n", getpid());
			_exit(0);
		}
		_exit(0);
	}
	wait(0);
	return 0;
}
`, "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, following(r.target()), testplan.Named("work"), "pid"))
		want := logged(t, r.finish(success))
		if diff := cmp.Diff(want, tally(got.wait(t).ints("pid"))); diff != "" {
			t.Error(diff)
		}
		if len(got.lost)+len(got.counts) > 0 {
			t.Errorf("lost %v, counts %v", got.lost, got.counts)
		}
	})
}

// A child begins with no calls, and what it returns from was called by its parent.
func TestSequencesOfFollowedChildren(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
#include <sys/prctl.h>
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE pid_t split(void) { sink++; pid_t p = fork(); if (!p) prctl(PR_SET_NAME, "child"); leaf(1); return p; }
NOINLINE void leave(void) { sink++; leaf(3); exit(0); }
int main(int argc, char **argv) {
	ready();
	pid_t p = split();
	if (!p) leave();
	waitpid(p, 0, 0);
	leaf(2);
}
`, "-O1", "-fno-optimize-sibling-calls")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, following(r.target()), testplan.Named("leaf", "split", "leave"), sequenceColumns...))
		r.finish(success)
		want := map[string][]string{
			"target": {"ENTER split 0", "ENTER leaf 1", "LEAVE leaf 1", "LEAVE split 0", "ENTER leaf 0", "LEAVE leaf 0"},
			"child":  {"ENTER leaf 0", "LEAVE leaf 0", "ENTER leave 0", "ENTER leaf 1", "LEAVE leaf 1", "UNWIND leave 0"},
		}
		if diff := cmp.Diff(want, got.wait(t).sequences(t)); diff != "" {
			t.Error(diff)
		}
	})
}

// A child that executes a set-user-ID program is not observed from then on, which is counted.
func TestChildrenOfOtherUsersAreNotFollowed(t *testing.T) {
	testenv.NeedUprobes(t)
	target := public(t, testenv.CompileCText(t, prelude+`
NOINLINE long work(long n) { sink += n; return n; }
int main(int argc, char **argv) {
	if (argc > 1) { for (int k = 0; k < 100; k++) work(k); return 0; }
	ready();
	for (int i = 0; i < 2; i++)
		if (!fork()) {
			for (int k = 0; k < 10; k++) work(k);
			dprintf(1, "%d 10\n", getpid());
			char *again[] = {argv[0], "again", 0};
			if (i == 0) { execv(argv[0], again); _exit(1); }
			_exit(0);
		}
	while (wait(0) > 0) {}
}
`, "-O1"))
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		if err := os.Chmod(target, 0o755); err != nil {
			t.Fatal(err)
		}
		r := runAs(t, viewerUID, target)
		of := following(r.target())
		of.Viewer = viewer(true)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, of, testplan.Named("work"), "pid"))
		if err := os.Chmod(target, os.ModeSetuid|0o755); err != nil {
			t.Fatal(err)
		}
		want := logged(t, r.finish(success))
		if diff := cmp.Diff(want, tally(got.wait(t).ints("pid"))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]uint64{"child processes not followed after a change of user": 1}, got.counts); diff != "" || len(got.lost) > 0 {
			t.Errorf("counts: %s lost %v", diff, got.lost)
		}
	})
}

// Probes of children are set in every process of a file, which not every user may do.
func TestFollowingNeedsTheGrantShared(t *testing.T) {
	testenv.NeedUprobes(t)
	needFeature(t, attach.FeatureProcess)
	target := public(t, testenv.CompileCText(t, changer, "-O1"))
	p := provider(t, Options{})
	mine := runAs(t, viewerUID, target)
	of := following(mine.target())
	of.Viewer = viewer(false)
	_, err := p.Prepare(context.Background(), testplan.Acquire(catalog.FunctionStart, of, testplan.Named("work"), "pid"))
	if err == nil || err.(*plan.Error).Msg != `probes of children are set in every process that executes the file, which needs the grant "shared"` {
		t.Errorf("refused with %v", err)
	}
}

// Children that are started while the probes of a query are detached are followed when they
// are attached again.
func TestChildrenStartedWhileDetached(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long work(long n) { sink += n; return n; }
int main(void) {
	int gate[2];
	char b;
	pipe(gate);
	ready();
	if (!fork()) {
		close(gate[1]);
		read(gate[0], &b, 1);
		for (int i = 0; i < 10; i++) work(i);
		_exit(0);
	}
	ready();
	close(gate[1]);
	wait(0);
}
`, "-O1")
	p := provider(t, Options{})
	r := run(t, target)
	spec := testplan.Acquire(catalog.FunctionStart, following(r.target()), testplan.Named("work"), "pid")
	src, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	set, err := gate.NewSet(1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	set.Gate(0).Force(true)
	got := newRecord(spec)
	if err := src.Start(t.Context(), got, probes.Options{Gates: probes.Gates{Set: set, Own: set.Gate(0), Way: plan.AtEntry, Detaches: true}}); err != nil {
		t.Fatal(err)
	}
	if _, err := src.Control(t.Context(), probes.Detach{}); err != nil {
		t.Fatal(err)
	}
	r.step()
	r.awaitReady()
	if _, err := src.Control(t.Context(), probes.Attach{}); err != nil {
		t.Fatal(err)
	}
	r.finish(success)
	if n := len(got.wait(t).rows); n != 10 {
		t.Errorf("%d calls, want 10", n)
	}
}

// A library that a child loads is probed, whether the query has found functions before or not,
// and whether the child's parents still run or not.
func TestLibrariesOfFollowedChildren(t *testing.T) {
	testenv.NeedUprobes(t)
	library := compilePlugin(t)
	target := testenv.CompileCText(t, prelude+`
#include <dlfcn.h>
NOINLINE long work(long n) { sink += n; return n; }
int main(int argc, char **argv) {
	int gate[2];
	char b;
	pipe(gate);
	ready();
	work(1);
	if (fork()) {
		if (argc > 1) wait(0);
		return 0;
	}
	close(gate[1]);
	if (argc == 1) read(gate[0], &b, 1); /* until the parent has ended */
	ready();
	void *lib = dlopen("`+library+`", RTLD_NOW);
	if (!lib) { puts(dlerror()); return 1; }
	long (*run)(long) = (long (*)(long))dlsym(lib, "plug_run");
	ready();
	for (int i = 0; i < 100; i++) run(i);
	work(2);
	return 0;
}
`, "-O1", "-ldl")
	both := testplan.Call("and", testplan.Named("work", "plug_run"), testplan.Call("like", testplan.SelectColumn(plan.SelectModule), testplan.Constant("%")))
	for _, c := range []struct {
		name   string
		args   []string
		stream string
		sel    plan.Expr
		work   int
		before int // places that are probed before the library is
	}{
		{"library alone", []string{"stays"}, catalog.FunctionStart, testplan.InPlugin(), 0, 0},
		{"with the program", []string{"stays"}, catalog.FunctionStart, both, 2, 1},
		{"of a daemon", nil, catalog.FunctionStart, both, 2, 1},
		{"nested", nil, catalog.FunctionCall, both, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := provider(t, Options{})
			r := run(t, target, c.args...)
			columns := []string{"timestamp", "function_name"}
			if c.stream == catalog.FunctionCall {
				columns = append(columns, "event")
			}
			src, got := start(t, p, testplan.Acquire(c.stream, following(r.target()), c.sel, columns...))
			await := func() {
				t.Helper()
				r.step()
				r.awaitReady()
			}
			await()
			probed(t, p, c.before)
			await()
			probed(t, p, c.before+1)
			r.finish(success)
			if c.before == 0 {
				src.Stop()
			}
			got.wait(t)
			calls := tally(got.strings("function_name"))
			if c.stream == catalog.FunctionCall {
				delete(calls, "") // gaps
				for name, n := range calls {
					calls[name] = n / 2
				}
			}
			// The constructor's call is missing, unless it came late.
			if n := calls["plug_run"]; n != 100 && n != 101 || calls["work"] != c.work {
				t.Errorf("calls %v, lost %v", calls, got.lost)
			}
		})
	}
}
