package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/stack/pacing"
	"endoscope/probes/testenv"
)

// A sampler's thread has a raised priority while it waits for its next snapshot; no
// thread has one after the sampler has ended.
func TestSamplerGoesBeforeOthersOnlyWhileItWaits(t *testing.T) {
	testenv.NeedRoot(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	usual, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var p pacing.Priority
	for range 2 {
		p.Raise()
		p.Raise()
		now, err := unix.SchedGetAttr(0, 0)
		if err != nil || now.Policy != unix.SCHED_NORMAL || now.Nice > usual.Nice || !p.Raised {
			t.Errorf("raised, it is of policy %d and nice %d, error %v", now.Policy, now.Nice, err)
		}
		p.Lower()
		p.Lower()
		now, err = unix.SchedGetAttr(0, 0)
		if err != nil || now.Policy != usual.Policy || now.Nice != usual.Nice {
			t.Errorf("lowered, it is of policy %d and nice %d, error %v", now.Policy, now.Nice, err)
		}
	}
	var none *pacing.Priority // of collectors outside a sampler's thread
	none.Raise()
	none.Lower()
}

func TestNoPriorityIsLeft(t *testing.T) {
	testenv.NeedUprobes(t)
	want := 1
	if !mayHurry(t) {
		want = 0
	}
	r := sleeping(t)
	s, err := provider.Prepare(context.Background(), specification(plan.Target{PIDs: []int{r.pid}}, 20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	before := hurried(t)
	got := newRecord()
	if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	during := 0
	testenv.Until(t, "it samples, ahead of others", func() bool {
		during = max(during, hurried(t)-before)
		return got.len() >= 5 && (during >= want || got.len() >= 500)
	})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	<-got.ended
	after := hurried(t)
	if during != want || after != before {
		t.Errorf("%d threads go before others while it samples, %d afterwards", during, after-before)
	}
}

// mayHurry reports whether threads of this process may raise their priority.
func mayHurry(t *testing.T) bool {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var p pacing.Priority
	p.Raise()
	defer p.Lower()
	now, err := unix.SchedGetAttr(0, 0)
	return err == nil && now.Nice == pacing.FirstNice
}

// hurried returns the number of threads of this process with a raised priority.
func hurried(t *testing.T) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f)
		i := strings.LastIndexByte(string(b), ')')
		if fields := strings.Fields(string(b[i+1:])); len(fields) > 16 && fields[16] == fmt.Sprint(pacing.FirstNice) {
			n++
		}
	}
	return n
}

// A rate that would cost more than allowed is reduced, and this is reported.
func TestOverhead(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileCText(t, crowd, "-O2", "-pthread", "-fno-optimize-sibling-calls"), "100", "20")
	r.number(t)
	spec := specification(plan.Target{PIDs: []int{r.pid}}, time.Millisecond)
	spec.Settings.StackOverhead = 0.001
	s, err := provider.Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if text := s.Info().Sites[0].Function; text != "threads of the target, every 1ms if that costs no more than 0.1% of a CPU" {
		t.Errorf("before: %s", text)
	}
	got := newRecord()
	began := time.Now()
	if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	testenv.UntilNil(t, "it samples more rarely", func() error {
		text := s.Info().Sites[0].Function
		if strings.HasPrefix(text, "threads of the target, every ") && strings.HasSuffix(text, " instead of 1ms: 0.1% of a CPU") {
			return nil
		}
		return errors.New(text)
	})
	// Ticks are lost only while other programs use the CPUs, at most one for each snapshot.
	// About a hundred are left out for each snapshot.
	testenv.Until(t, "most ticks are left out, and not lost", func() bool {
		got.mu.Lock()
		defer got.mu.Unlock()
		return got.counts[leftOut] > 2*got.lost[overrun]
	})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	<-got.ended
	rate := false
	for cause := range got.counts {
		rate = rate || strings.HasPrefix(cause, "snapshots taken, one every ")
	}
	if !rate {
		t.Errorf("%v, lost %v", got.counts, got.lost)
	}
	// The share is 1 ms per second, saved up for 2 s, and a snapshot takes 0.1 ms.
	if n, most := got.len()/121, 100+50*int(time.Since(began).Seconds()); n > most {
		t.Errorf("%d snapshots, at most %d were expected", n, most)
	}
}

// Reading a program's symbols and debug information is done once: it is not a cost of
// snapshots, which would delay the next one by a hundred times as long.
func TestReadingFilesIsDoneOnce(t *testing.T) {
	testenv.NeedUprobes(t)
	var text strings.Builder
	text.WriteString("#include <stdio.h>\n#include <unistd.h>\nvolatile long sink;\n")
	for i := range 300 {
		fmt.Fprintf(&text, "struct s%d { long a; char b[%d]; }; static inline void in%d(struct s%d *s) { sink += s->a; }\nvoid f%d(struct s%d *s) { in%d(s); }\n", i, i+1, i, i, i, i, i)
	}
	text.WriteString("int main(void) { for (;;) pause(); }\n")
	r := run(t, testenv.CompileCText(t, text.String(), "-O2", "-g", "-gz=zlib"))
	awaitPause(t, r.pid)
	c := collect(t, r.pid)
	for first := range 2 {
		watch := pacing.StartWatch()
		snapshot(t, c)
		total, once := watch.Stop(), c.modules.takeOnce()
		if reads := once > total/2; reads != (first == 0) || once > total {
			t.Errorf("snapshot %d takes %v, of which %v is done once", first, total, once)
		}
	}
}
