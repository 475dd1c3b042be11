package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"endoscope/client/remote"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// counted waits for a start signal and then calls work the requested number of times,
// up to 10,000 times per second.
const counted = `#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) long work(long i) { __asm__ volatile("" : : "r"(i)); return i; }
int main(int argc, char **args) {
	char line[16];
	if (read(0, line, 1) != 1) return 1;
	long n = atol(args[1]);
	for (long i = 0; i < n; i++) { work(i); if (i % 100 == 99) usleep(10000); }
	puts("done"); fflush(stdout);
	pause();
}`

// Number of clients of each kind.
const (
	quick  = 16
	slow   = 8
	frozen = 4
	killed = 4
)

// unreadMB is how much of a result may wait for its client in the daemon (flight.Options.Unread).
const unreadMB = 16

// soak returns the duration of a stress test: ENDOSCOPE_SOAK if set, for example 10m.
func soak(t testing.TB, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("ENDOSCOPE_SOAK")
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("ENDOSCOPE_SOAK: %v", err)
	}
	return d
}

// reading is what a client received of its query.
type reading struct {
	rows    uint64
	gaps    uint64 // rows whose numbers were skipped
	summary wire.Summary
	err     error
}

// readAll reads a result to its end, pausing after each event while slow is open.
func readAll(res wire.Result, slow <-chan struct{}) (r reading) {
	defer res.Close()
	for next := uint64(0); ; {
		ev, err := res.Next(context.Background())
		if ev.Row > next {
			r.gaps += ev.Row - next
			next = ev.Row
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.err = err
			}
			r.summary = res.Summary()
			return r
		}
		if ev.Kind != wire.Rows {
			continue
		}
		n := uint64(ev.Batch.Len())
		ev.Batch.Release()
		r.rows += n
		next += n
		if slow != nil {
			select {
			case <-slow:
				slow = nil
			case <-time.After(3 * time.Second):
			}
		}
	}
}

// lost adds up the losses of a summary; gaps are the losses of rows not read.
func lost(s wire.Summary) (all, gaps uint64) {
	for _, l := range s.Losses {
		all += l.N
		if l.Cause == remote.GapCause {
			gaps += l.N
		}
	}
	return all, gaps
}

// resident returns the memory of a process in MB.
func resident(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+)`).FindSubmatch(text)
	if m == nil {
		t.Fatal("no VmRSS")
	}
	kb, _ := strconv.Atoi(string(m[1]))
	return kb >> 10
}

// crowd tests that each client receives every row or the exact number of missing
// rows, whatever other clients do; that the server's memory stays within its limits; and that
// nothing stays attached.
func (b binaries) crowd(t *testing.T) {
	length := soak(t, 30*time.Second)
	calls := uint64(length/time.Second) * 9_000
	program := testenv.CompileCText(t, counted, "-O1")
	victim := &ours{t: t, cmd: command(program, strconv.FormatUint(calls, 10))}
	begin := victim.startPiped()

	socket := filepath.Join(t.TempDir(), "s")
	d := launch(t, b.endoscoped, "--unix", socket, "--config", t.TempDir(), "--client-timeout", "20s") // a slow client of a busy machine is not silent for so long
	d.says("listening")
	query := fmt.Sprintf("SELECT timestamp, pid, tid, function_name, process, thread_name, exe, arg0, arg1, arg2, arg3, arg4, arg5 FROM function_start WHERE pid = %d AND function_name = 'work'", victim.cmd.Process.Pid)

	wake := make(chan struct{})
	results := make([]wire.Result, quick+slow)
	readings := make([]reading, quick+slow)
	var all sync.WaitGroup
	for i := range results {
		e, err := remote.Dial(socket, remote.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.NewSession(t.Context(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		if results[i], err = s.Execute(t.Context(), query); err != nil {
			t.Fatal(err)
		}
		var sleepy <-chan struct{}
		if i >= quick {
			sleepy = wake
		}
		all.Go(func() { readings[i] = readAll(results[i], sleepy) })
	}
	var doomed []*ours
	for range frozen + killed {
		c := launch(t, b.endoscope, "--connect", socket, "--format", "csv", "-c", query)
		doomed = append(doomed, c)
		c.says("timestamp,pid") // its query is armed
	}
	begin()
	began := time.Now()
	var faults sync.WaitGroup
	for i, c := range doomed {
		at := time.Duration(rand.Int64N(int64(length * 2 / 3)))
		how := syscall.SIGKILL
		if i < frozen {
			how = syscall.SIGSTOP
		}
		faults.Go(func() {
			time.Sleep(at) // normal operation first
			_ = c.cmd.Process.Signal(how)
		})
	}
	var memory []int // of the server, five times per second
	for victim.out.String() == "" && time.Since(began) < 5*length+5*time.Minute {
		memory = append(memory, resident(t, d.worker()))
		time.Sleep(200 * time.Millisecond) // measurement interval
	}
	victim.says("done")
	faults.Wait()
	time.Sleep(300 * time.Millisecond) // the last events are on their way
	for _, r := range results {
		r.Stop()
	}
	close(wake)
	all.Wait()

	dropped := 0
	for i, r := range readings {
		kind := "quick"
		if i >= quick {
			kind = "slow"
		}
		n, gaps := lost(r.summary)
		if r.err != nil {
			t.Errorf("%s client %d: %v", kind, i, r.err)
		}
		if r.rows+n != calls {
			t.Errorf("%s client %d: %d rows, %d lost, of %d calls: %+v", kind, i, r.rows, n, calls, r.summary.Losses)
		}
		if gaps != r.gaps {
			t.Errorf("%s client %d: gaps of %d rows, and the server counts %d", kind, i, r.gaps, gaps)
		}
		if kind == "slow" && gaps > 0 {
			dropped++
		}
		t.Logf("%s client %d: %d rows, %d lost %+v", kind, i, r.rows, n, r.summary.Losses)
	}
	if dropped < slow {
		t.Errorf("only %d of %d slow clients had rows dropped: the test tests nothing", dropped, slow)
	}
	// Every client may let a result's worth of memory wait, quick ones of a busy machine too,
	// and the collector lets twice the memory in use accumulate.
	most := 200 + 2*(quick+slow+frozen+killed)*unreadMB
	t.Logf("%v, %d calls; the server's memory: at most %d MB of %d", time.Since(began).Round(time.Second), calls, slices.Max(memory), most)
	if slices.Max(memory) > most {
		t.Errorf("the server's memory grows to %d MB, which is more than %d", slices.Max(memory), most)
	}
	d.holds(false)
}
