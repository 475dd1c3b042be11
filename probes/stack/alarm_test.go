package stack

import (
	"context"
	"endoscope/probes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
)

// A sleep ends in time, and at once when it is rung, also before it began; what
// is rung after the end reaches nobody.
func TestAlarm(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	const long, short = time.Hour, 2 * time.Millisecond
	a.ring()
	a.ring()
	a.sleep(long)
	begin := time.Now()
	for time.Since(begin) < short { // it may wake early
		a.sleep(short - time.Since(begin))
	}
	woken := make(chan struct{})
	rung := make(chan struct{})
	go func() {
		defer close(woken)
		for {
			a.sleep(long)
			select {
			case <-rung:
				return
			default:
			}
		}
	}()
	close(rung)
	a.ring()
	<-woken
	a.close()
	a.ring()
}

// While it waits for its next snapshot a sampler's thread goes before others, and
// no thread does when it has ended.
func TestSamplerGoesBeforeOthersOnlyWhileItWaits(t *testing.T) {
	testenv.NeedRoot(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	usual, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var p priority
	for range 2 {
		p.raise()
		p.raise()
		now, err := unix.SchedGetAttr(0, 0)
		if err != nil || now.Policy != unix.SCHED_NORMAL || now.Nice > usual.Nice || !p.raised {
			t.Errorf("raised, it is of policy %d and nice %d, error %v", now.Policy, now.Nice, err)
		}
		p.lower()
		p.lower()
		now, err = unix.SchedGetAttr(0, 0)
		if err != nil || now.Policy != usual.Policy || now.Nice != usual.Nice {
			t.Errorf("lowered, it is of policy %d and nice %d, error %v", now.Policy, now.Nice, err)
		}
	}
	var none *priority // of collectors that nobody waits for
	none.raise()
	none.lower()
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

// mayHurry reports whether threads of this process may go before others.
func mayHurry(t *testing.T) bool {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var p priority
	p.raise()
	defer p.lower()
	now, err := unix.SchedGetAttr(0, 0)
	return err == nil && now.Nice == firstNice
}

// hurried is how many threads of this process go before others.
func hurried(t *testing.T) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f)
		i := strings.LastIndexByte(string(b), ')')
		if fields := strings.Fields(string(b[i+1:])); len(fields) > 16 && fields[16] == fmt.Sprint(firstNice) {
			n++
		}
	}
	return n
}
