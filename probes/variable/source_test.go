package variable

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
)

// byHand prepares a source whose goroutine is the test.
func byHand(t testing.TB, spec *plan.Acquire) (*source, *record) {
	t.Helper()
	made, err := New().Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Stop(); err != nil {
			t.Error(err)
		}
	})
	got := &record{fields: table.Fields(), lost: map[string]uint64{}, ended: make(chan struct{})}
	s := sourceOf(made)
	s.rows.Push = got.Push
	return s, got
}

func sourceOf(made probes.Source) *source {
	if w, ok := made.(*watched); ok {
		return w.source
	}
	return made.(*sampled).source
}

// A process that executes another program is sampled at that program's
// variables, never at the old addresses; if it has none, it is counted once.
func TestExecute(t *testing.T) {
	testenv.NeedUprobes(t)
	first := testenv.CompileC(t, "testdata/vars.c", "-O1", "-g", "-pthread")
	second := testenv.CompileC(t, "testdata/vars.c", "-O0", "-g", "-pthread", "-static")
	none := testenv.CompileC(t, "testdata/vars.cc", "-O1", "-g")
	r := run(t, first)
	r.tell(t, "a5")
	s, got := byHand(t, asked(r.pid, time.Second, "total"))
	now := time.Now()
	refresh := func() {
		t.Helper()
		now = now.Add(rescan)
		if !s.refresh(now, got) {
			t.Error("a process that has not ended is given up")
		}
	}
	check := func(value string, lost map[string]uint64) {
		t.Helper()
		got.rows = nil
		s.sample(got)
		if value == "" && len(got.rows) != 0 || value != "" && (len(got.rows) != 1 || got.rows[0]["var_value"] != value) {
			t.Errorf("rows %v, want %q", got.rows, value)
		}
		if !maps.Equal(got.lost, lost) {
			t.Errorf("counted %v, want %v", got.lost, lost)
		}
	}
	refresh()
	check("5", nil)
	r.tell(t, "e"+second)
	check("", map[string]uint64{unread: 1})
	refresh()
	check("0", map[string]uint64{unread: 1, replaced: 1})
	r.tell(t, "a6")
	refresh()
	check("6", map[string]uint64{unread: 1, replaced: 1})
	r.tell(t, "e"+none)
	for range 30 {
		refresh()
	}
	check("", map[string]uint64{unread: 1, replaced: 2, refused: 1})
	if len(s.layouts.known) != 3 {
		t.Errorf("%d files are known", len(s.layouts.known))
	}
}

// Writes by a program executed later are rows too.
func TestWritesAfterExecute(t *testing.T) { reported(t, writesAfterExecute) }

func writesAfterExecute(t testing.TB) {
	testenv.NeedWatchpoints(t)
	program := testenv.CompileC(t, "testdata/vars.c", "-O1", "-g", "-pthread")
	r := run(t, program)
	got, stop := observe(t, asked(r.pid, 0, "total"))
	r.tell(t, "a5", "e"+program)
	testenv.Until(t, "there are rows of the program that was executed", func() bool {
		r.tell(t, "a1")
		return got.len() > 1
	})
	got.mu.Lock()
	if got.lost[replaced] != 1 {
		t.Errorf("counted %v", got.lost)
	}
	delete(got.lost, replaced)
	got.mu.Unlock()
	stop()
	if got.rows[0]["var_value"] != "5" || got.rows[1]["function_name"] != "add" {
		t.Errorf("rows %v", got.rows[:2])
	}
}

// Writes of a new process are rows, and it is counted that its first ones may
// be missing.
func TestWritesOfNewcomers(t *testing.T) { reported(t, writesOfNewcomers) }

func writesOfNewcomers(t testing.TB) {
	testenv.NeedWatchpoints(t)
	program := testenv.CompileC(t, "testdata/vars.c", "-O1", "-g", "-pthread")
	first := run(t, program)
	spec := asked(first.pid, 0, "total")
	spec.Target = plan.Target{Exes: []string{program}}
	got, stop := observe(t, spec)
	first.tell(t, "a5")
	second := run(t, program)
	pid := fmt.Sprint(second.pid)
	testenv.Until(t, "there are rows of the second process", func() bool {
		second.tell(t, "a1")
		got.mu.Lock()
		defer got.mu.Unlock()
		return slices.ContainsFunc(got.rows, func(row map[string]string) bool { return row["pid"] == pid })
	})
	got.mu.Lock()
	if !maps.Equal(got.lost, map[string]uint64{arrived: 1}) {
		t.Errorf("counted %v", got.lost)
	}
	delete(got.lost, arrived)
	got.mu.Unlock()
	stop()
	if got.rows[0]["var_value"] != "5" || got.rows[0]["pid"] != fmt.Sprint(first.pid) {
		t.Errorf("rows %v", got.rows[:1])
	}
}

// Info may be called while processes are added and removed.
func TestSitesWhileProcessesCome(t *testing.T) {
	testenv.NeedWatchpoints(t)
	program := testenv.CompileC(t, "testdata/vars.c", "-O1", "-g", "-pthread")
	run(t, program)
	spec := asked(0, 0, "total")
	spec.Target = plan.Target{Exes: []string{program}}
	s, err := New().Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got := &record{fields: table.Fields(), lost: map[string]uint64{}, ended: make(chan struct{})}
	if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	run(t, program)
	testenv.Until(t, "the process's arrival is counted", func() bool {
		if sites := s.Info().Sites; len(sites) == 0 || sites[0].Function != "total" {
			t.Fatalf("sites are %v", sites)
		}
		got.mu.Lock()
		defer got.mu.Unlock()
		return got.lost[arrived] == 1
	})
	s.Stop()
	<-got.ended
}

// All writes of a process that has ended are delivered, however late its end is seen, and an end by
// SIGTRAP is counted.
func TestLastWrites(t *testing.T) { reported(t, lastWrites) }

func lastWrites(t testing.TB) {
	testenv.NeedWatchpoints(t)
	path := testenv.CompileC(t, "testdata/vars.c", "-O1", "-g", "-pthread")
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTRAP} {
		r := run(t, path)
		s, got := byHand(t, asked(r.pid, 0, "total"))
		if err := s.watch(s.subjects[r.pid]); err != nil {
			t.Fatal(err)
		}
		r.tell(t, "a5", "a6")
		if err := syscall.Kill(r.pid, signal); err != nil {
			t.Fatal(err)
		}
		testenv.Until(t, "the process has ended", func() bool { _, ok := process.Lookup(r.pid); return !ok })
		if s.refresh(time.Now(), got) {
			t.Error("a process that has ended is waited for")
		}
		want := map[string]uint64{}
		if signal == syscall.SIGTRAP {
			want[trapped] = 1
		}
		if len(got.rows) != 2 || !maps.Equal(got.lost, want) || len(s.subjects) != 0 {
			t.Errorf("%v: rows %v, counts %v", signal, got.rows, got.lost)
		}
	}
}

// A write whose variable is unknown by now is counted, and the kernel keeps
// nothing of a process that is not watched any more.
func TestLetGo(t *testing.T) { reported(t, letGo) }

func letGo(t testing.TB) {
	testenv.NeedWatchpoints(t)
	r := run(t, testenv.CompileC(t, "testdata/vars.c", "-O1", "-g", "-pthread"))
	s, got := byHand(t, asked(r.pid, 0, "total", "shade"))
	if err := s.watch(s.subjects[r.pid]); err != nil {
		t.Fatal(err)
	}
	entries := func(name string) (n int) {
		var key, value []byte
		for it := s.watcher.objects.Maps[name].Iterate(); it.Next(&key, &value); n++ {
		}
		return n
	}
	if processes, threads := entries(bpf.VariableMapProcesses), entries(bpf.VariableMapOwn); processes != 1 || threads != 2 {
		t.Errorf("%d processes and %d threads are watched", processes, threads)
	}
	// Another process has the number of one of the threads now.
	own, reused := s.watcher.objects.Maps[bpf.VariableMapOwn], uint32(r.pid)
	if err := own.Update(reused, uint64(1), ebpf.UpdateExist); err != nil {
		t.Fatal(err)
	}
	r.tell(t, "a5")
	s.watcher.remove(r.pid)
	delete(s.subjects, r.pid)
	s.drain(got)
	if len(got.rows) != 0 || !maps.Equal(got.lost, map[string]uint64{orphaned: 1}) {
		t.Errorf("rows %v, lost %v", got.rows, got.lost)
	}
	if processes, threads := entries(bpf.VariableMapProcesses), entries(bpf.VariableMapOwn); processes != 0 || threads != 1 {
		t.Errorf("%d processes and %d threads are left", processes, threads)
	}
}

// Processes that end before a refresh are counted; others that end are not.
func TestWritesOfProcessesThatEndAtOnce(t *testing.T) { reported(t, writesOfProcessesThatEndAtOnce) }

func writesOfProcessesThatEndAtOnce(t testing.TB) {
	testenv.NeedWatchpoints(t)
	program := testenv.CompileCText(t, `
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
volatile int total;
int main(void)
{
	setbuf(stdout, 0);
	puts("ready");
	getchar();
	for (int i = 0; i < 5; i++) {
		if (!fork()) {
			total = 1000 + i;
			_exit(0);
		}
		wait(0);
	}
	for (;;) {
		usleep(10000);
		total++;
	}
}`, "-O1", "-g")
	r := run(t, program)
	spec := asked(r.pid, 0, "total")
	spec.Target = plan.Target{Exes: []string{program}}
	got, stop := observe(t, spec)
	fmt.Fprintln(r.in)
	testenv.Until(t, "there are rows", func() bool { return got.len() > 0 })
	if err := syscall.Kill(r.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	got.normal = []string{passed, arrived, refused}
	// Processes missed until Stop are counted, and when the query ends.
	testenv.Until(t, "what is left out is counted", func() bool {
		got.mu.Lock()
		defer got.mu.Unlock()
		return got.lost[passed]+got.lost[arrived]+got.lost[refused] == 5
	})
	stop()
}
