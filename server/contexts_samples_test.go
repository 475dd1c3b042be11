package server_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// left are stacks of threads in Go's scheduler, which may have left their goroutine.
var left = regexp.MustCompile(`runtime\.(stoplockedm|goschedImpl|schedule|park_m)\b`)

// interrupted are stacks of signal handlers in Go, which do not tell what the signal has
// interrupted: the goroutine, or the scheduler after it has left the goroutine.
var interrupted = regexp.MustCompile(`^runtime\.sigreturn__sigaction;`)

// Every sample of a thread or of a goroutine that waits is inside of the request that the
// program itself says, and of none between them.
func TestContextsOfSamples(t *testing.T) {
	testenv.NeedUprobes(t)
	inC := testenv.CompileC(t, filepath.Join("testdata", "contexts", "sampled.c"), "-O1", "-g", "-pthread")
	inGo := testenv.CompileGo(t, filepath.Join("testdata", "contexts", "gosampled"))
	for _, c := range []struct {
		name, program, kind, context string
		parked                       bool
	}{
		{"call", inC, "call", "BEGIN function_start WHERE function_name = 'handle' KEY args.id", false},
		{"end", inC, "end", "BEGIN function_start WHERE function_name = 'begin_request' KEY args.id END function_start WHERE function_name = 'end_request'", false},
		{"Go", inGo, "", "BEGIN function_start WHERE function_name = 'main.(*worker).handle' KEY args.id", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			args := []string{path}
			if c.kind != "" {
				args = []string{c.kind, path}
			}
			w := startWaiting(t, c.program, args...)
			s := newSession(t, wire.Options{PID: w.pid()})
			run(t, s, "SET stack_overhead = 0")
			run(t, s, "CREATE CONTEXT request AS "+c.context)
			q := start(t, s, "SELECT timestamp, coalesce(tid, -goroutine), coalesce(request, 0), folded_stack(stack), complete FROM SAMPLE(stack_sample, 5ms)")
			w.goOn()
			a := read(t, q)
			spans := readSpans(t, path)
			inside, outside, waiting := 0, 0, 0
			const near = int64(20 * time.Microsecond) // the log's clock is known to some microseconds in that of rows
			for _, row := range a.rows {
				if left.MatchString(row[3]) {
					continue // the thread has left its goroutine, which has a row of its own when it waits
				}
				owner, _ := strconv.ParseInt(row[1], 10, 64)
				at := monotonic(t, row[0])
				of := spans[owner]
				i := sort.Search(len(of), func(i int) bool { return of[i].until > at })
				if i == len(of) || of[i].since > at-near || of[i].until < at+near {
					continue // it is not in the log, or the clocks do not say in which of two
				}
				lasts := of[i].request == "0" && row[4] == "false" // left without END, and the stack does not say so
				if row[2] == "0" && interrupted.MatchString(row[3]) {
					continue
				}
				if row[2] != of[i].request && !lasts {
					t.Errorf("%s: a sample %v after %v before the bounds is in %s, not in %s: %s", row[1], time.Duration(at-of[i].since), time.Duration(of[i].until-at), row[2], of[i].request, row[3])
				}
				switch {
				case of[i].request == "0":
					outside++
				case owner < 0:
					waiting++
				default:
					inside++
				}
			}
			t.Logf("%d samples inside of requests, %d of goroutines that wait, %d outside", inside, waiting, outside)
			if inside < 50 || outside < 50 || c.parked && waiting < 50 {
				t.Errorf("%d samples inside of requests, %d of goroutines that wait, %d outside; notices %v, summary %v", inside, waiting, outside, a.notices, a.summary)
			}
		})
	}
}

// logged is a time during which a thread or goroutine surely served a request; 0: none.
type logged struct {
	request      string
	since, until int64
}

// readSpans reads the log of a program, by thread or, if negative, goroutine.
func readSpans(t *testing.T, path string) map[int64][]logged {
	t.Helper()
	spans := map[int64][]logged{}
	for _, line := range strings.Split(strings.TrimSpace(contents(t, path)), "\n") {
		var owner, id, since, until int64
		if _, err := fmt.Sscan(line, &owner, &id, &since, &until); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		spans[owner] = append(spans[owner], logged{strconv.FormatInt(id, 10), since, until})
	}
	return spans
}

// monotonic returns the time of a row, in ns since the epoch, by CLOCK_MONOTONIC.
func monotonic(t *testing.T, row string) int64 {
	t.Helper()
	at, err := strconv.ParseInt(row, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	read := func(id int32) int64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(id, &ts); err != nil {
			t.Fatal(err)
		}
		return ts.Nano()
	}
	for { // until the thread keeps its processor between the two clocks
		before, real, after := read(unix.CLOCK_MONOTONIC), read(unix.CLOCK_REALTIME), read(unix.CLOCK_MONOTONIC)
		if after-before < int64(5*time.Microsecond) {
			return at - real + before
		}
	}
}
