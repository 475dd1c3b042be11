package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// steadyC has two threads that call work(0), work(1), ... and work(2^40),
// work(2^40 + 1) ..., together about 100,000 times a second.
const steadyC = `#include <pthread.h>
#include <unistd.h>
long work(long i) { return i + 1; }
static void *loop(void *from) {
	volatile long i = (long)from;
	for (;;) { for (int k = 0; k < 50; k++) i = work(i); usleep(900); }
}
int main(void) {
	pthread_t t;
	pthread_create(&t, 0, loop, (void *)(1L << 40));
	loop(0);
}`

// startSteady runs it until the test ends.
func startSteady(t testing.TB) (pid int) {
	t.Helper()
	cmd := exec.Command(testenv.CompileCText(t, steadyC, "-O1", "-fno-inline", "-pthread"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

// sharedStatements ask for the calls of work in ways that sharing treats
// differently. The columns of their results are: the thread (0: there is one),
// how many calls, the arguments of the first and of the last, and the time of the
// first.
var sharedStatements = []string{
	"SELECT tid, 1, arg0, arg0, timestamp FROM function_start WHERE function_name = 'work'",
	"SELECT tid, 1, arg0, arg0, timestamp FROM function_duration WHERE function_name = 'work'",
	"SELECT 0, COUNT(*), MIN(arg0), MAX(arg0) FROM function_start WHERE function_name = 'work' AND arg0 < 1000000000",
	"SELECT tid, COUNT(*), MIN(arg0), MAX(arg0), MIN(timestamp) FROM function_duration WHERE function_name = 'work' GROUP BY tid",
	"SELECT 0, COUNT(*), MIN(arg0), MAX(arg0), MIN(timestamp) FROM TUMBLE(function_start, 300ms) WHERE function_name = 'work' AND arg0 < 1000000000",
	"SELECT tid, COUNT(*), MIN(arg0), MAX(arg0), MIN(timestamp) FROM TUMBLE(function_start, 300ms) WHERE function_name = 'work' GROUP BY tid",
	"SELECT tid, COUNT(*), MIN(arg0), MAX(arg0) FROM TUMBLE(function_duration, 100ms) WHERE function_name = 'work' GROUP BY tid",
}

// span is the calls of a thread that a result has told of.
type span struct {
	n, lo, hi int64
	since     int64 // when the first was, ns since the epoch; 0: unknown
}

// spansOf reads a result to its end. Each of its rows must go on where the one
// before of its thread ended: no call is missing, none double.
func spansOf(t *testing.T, r wire.Result) (map[int64]span, error) {
	spans := map[int64]span{}
	var wrong error
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return spans, wrong
		}
		if err != nil {
			return nil, err
		}
		if ev.Kind != wire.Rows {
			continue
		}
		for i := range ev.Batch.Len() {
			var v [5]int64
			for c := range ev.Batch.Cols {
				v[c] = ev.Batch.Cols[c].Int[ev.Batch.Row(i)]
			}
			if v[1] == 0 {
				continue // the target did not run meanwhile
			}
			s, before := spans[v[0]]
			if v[1] != v[3]-v[2]+1 || before && v[2] != s.hi+1 {
				wrong = errors.Join(wrong, fmt.Errorf("%d calls from %d to %d, after %+v", v[1], v[2], v[3], s))
			}
			if !before {
				s = span{lo: v[2], since: v[4]}
			}
			s.n, s.hi = s.n+v[1], v[3]
			spans[v[0]] = s
		}
		ev.Batch.Release()
	}
}

// TestSharingIsExact has ten queries come and go at random, of which many
// acquire the same, while their target calls: each has every call from its
// first to its last, shared or not.
func TestSharingIsExact(t *testing.T) {
	testenv.NeedUprobes(t)
	pid := startSteady(t)
	s := newSession(t, wire.Options{PID: pid})
	alone := newSession(t, wire.Options{PID: pid})
	ask(t, alone, "SET sharing = off")
	testenv.Once(t, func() error { return sharesExactly(t, s, alone) })
}

// sharesExactly returns an error where the machine was too busy to compare.
func sharesExactly(t *testing.T, s, alone wire.Session) error {
	const seekers, rounds = 10, 5
	var seen, lossy atomic.Int32 // queries that had calls, and that lost some
	joined := 0
	var all sync.WaitGroup
	for i := range seekers {
		rnd := rand.New(rand.NewPCG(uint64(i), 7))
		all.Go(func() {
			for round := range rounds {
				statement := sharedStatements[rnd.IntN(len(sharedStatements))]
				session := s
				if i == 0 {
					session = alone
				}
				asked := time.Now().UnixNano()
				r, err := session.Execute(t.Context(), statement)
				if err != nil {
					t.Errorf("%s: %v", statement, err)
					return
				}
				time.AfterFunc(time.Duration(50+rnd.IntN(500))*time.Millisecond, r.Stop)
				got, err := spansOf(t, r)
				sum := r.Summary()
				r.Close()
				if len(got) > 0 { // else the target did not run meanwhile
					seen.Add(1)
				}
				delayed := slices.ContainsFunc(sum.Losses, func(l wire.Loss) bool {
					return slices.Contains([]string{"ring buffer full", "query too slow", "not read in time"}, l.Cause)
				})
				if delayed {
					lossy.Add(1)
				} else if err != nil || len(sum.Losses) > 0 {
					t.Errorf("query %d.%d: %s: %+v, lost %v, %v", i, round, statement, got, sum.Losses, err)
				}
				for _, s := range got {
					if s.since != 0 && s.since < asked {
						t.Errorf("query %d.%d: %s: a call of %d ns before it was asked for", i, round, statement, asked-s.since)
					}
				}
			}
		})
	}
	done := make(chan bool)
	go func() { all.Wait(); close(done) }()
	for running := true; running; {
		for _, row := range ask(t, s, "SELECT shares_with FROM sys.queries").rows {
			if row[0] != "" {
				joined++
			}
		}
		select {
		case <-done:
			running = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	if p := ask(t, s, "SHOW PROBES").rows; len(p) > 0 {
		t.Errorf("still attached: %v", p)
	}
	if n := seen.Load(); joined == 0 || n < seekers*rounds/2 || lossy.Load() > 0 {
		return fmt.Errorf("queries were seen to share %d times; %d had calls, and %d lost some", joined, n, lossy.Load())
	}
	return nil
}

// TestSharedTargetEnds counts the calls of a program that begins when its
// queries are armed and ends before them: those that were there all the time
// have all calls, whoever left in between, and were there first.
func TestSharedTargetEnds(t *testing.T) {
	testenv.NeedUprobes(t)
	cmd := exec.Command(testenv.CompileCText(t, `#include <stdio.h>
#include <unistd.h>
long work(long i) { return i + 1; }
int main(void) {
	volatile long i = 0;
	puts("ready"); fflush(stdout);
	getchar();
	while (i < 50000) { for (int k = 0; k < 100; k++) i = work(i); usleep(900); }
}`, "-O1", "-fno-inline"))
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	s := newSession(t, wire.Options{PID: cmd.Process.Pid})
	queries := map[string][]wire.Result{}
	for _, statement := range sharedStatements {
		for range 4 {
			queries[statement] = append(queries[statement], start(t, s, statement))
		}
	}
	in.Write([]byte("\n"))
	leaves := map[int]bool{0: true, 3: true}
	for _, rs := range queries {
		for i := range leaves {
			time.AfterFunc(time.Duration(50+50*i)*time.Millisecond, rs[i].Stop)
		}
	}
	var all sync.WaitGroup
	for statement, rs := range queries {
		for i, r := range rs {
			all.Go(func() { // rows are lost of a result that is not read for long
				spans, err := spansOf(t, r)
				if losses := r.Summary().Losses; err != nil || len(losses) > 0 || !leaves[i] && len(spans) != 1 {
					t.Errorf("%s: query %d: %+v, lost %v, %v", statement, i, spans, losses, err)
				}
				for _, got := range spans {
					if got.lo != 0 || !leaves[i] && got.n != 50_000 {
						t.Errorf("%s: query %d: %+v", statement, i, got)
					}
				}
			})
		}
	}
	all.Wait()
}

// TestSharedSamples has queries of one sampler get the same samples, each from
// when it began.
func TestSharedSamples(t *testing.T) {
	testenv.NeedUprobes(t)
	pid := startSteady(t)
	s := newSession(t, wire.Options{PID: pid})
	for _, statement := range []string{
		"SELECT timestamp, used FROM SAMPLE(memory_usage, 10ms)",
		"SELECT timestamp, rss FROM SAMPLE(process_usage, 10ms)",
		"SELECT timestamp, tid FROM SAMPLE(stack_sample, 10ms)",
	} {
		first := start(t, s, statement)
		testenv.Until(t, "samples", func() bool {
			return number(t, ask(t, s, "SELECT acquired FROM sys.queries WHERE statement LIKE '%SAMPLE%' AND NOT statement LIKE '%sys%'"), 0, 0) >= 5
		})
		asked := time.Now().UnixNano()
		second := start(t, s, statement+" LIMIT 5")
		armed := time.Now().UnixNano()
		b := read(t, second)
		first.Stop()
		a := read(t, first)
		at := slices.IndexFunc(a.rows, func(row []string) bool { return row[0] == b.rows[0][0] })
		if at < 3 || len(b.rows) != 5 || !reflect.DeepEqual(a.rows[at:][:5], b.rows) {
			t.Errorf("%s: the second query has\n%v\nof the first one's\n%v", statement, b.rows, a.rows)
		}
		if from := number(t, b, 0, 0); from < asked || at > 0 && number(t, a, at-1, 0) >= armed {
			t.Errorf("%s: asked for at %d and armed at %d the second begins at %d; the sample before was at %s", statement, asked, armed, from, a.rows[at-1][0])
		}
	}
}

// TestSharedCallsUnderWay: a call that is under way when a query joins is that of
// the queries that were there, as it is where each has its own probes.
func TestSharedCallsUnderWay(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, `#include <stdio.h>
volatile long sink;
long slow(long i) { puts("in"); fflush(stdout); getchar(); sink = i; return i; }
int main(void) { puts("ready"); fflush(stdout); getchar(); slow(0); slow(1); slow(2); }`, "-O1", "-fno-inline", "-fno-optimize-sibling-calls")
	for _, sharing := range []string{"on", "off"} {
		cmd := exec.Command(program)
		in, _ := cmd.StdinPipe()
		pipe, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { in.Close(); cmd.Wait() }()
		out := bufio.NewScanner(pipe)
		step := func() { in.Write([]byte("\n")) }
		out.Scan()
		s := newSession(t, wire.Options{PID: cmd.Process.Pid})
		ask(t, s, "SET sharing = "+sharing)
		statements := []string{
			"SELECT 1, 1, arg0, arg0 FROM function_duration WHERE function_name = 'slow'",
			"SELECT 1, 1, arg0, arg0 FROM function_duration WHERE function_name = 'slow' AND duration > 1h",
			"SELECT 1, 1, retval, retval FROM function_end WHERE function_name = 'slow'",
			"SELECT 1, COUNT(*), MIN(arg0), MAX(arg0) FROM function_duration WHERE function_name = 'slow'",
			"SELECT 1, COUNT(*), MIN(arg0), MAX(arg0) FROM TUMBLE(function_duration, 1h) WHERE function_name = 'slow'",
			"SELECT 1, COUNT(*), MIN(retval), MAX(retval) FROM function_end WHERE function_name = 'slow' GROUP BY tid",
		}
		// The queries of round i begin when call i-1 is under way.
		var rounds [][]wire.Result
		for range 3 {
			var rs []wire.Result
			for _, statement := range statements {
				rs = append(rs, start(t, s, statement))
			}
			rounds = append(rounds, rs)
			step()
			out.Scan()
		}
		if n := len(ask(t, s, "SELECT * FROM sys.queries WHERE shares_with = ''").rows); (n == 1) != (sharing == "on") {
			t.Errorf("sharing %s: %d queries share nothing", sharing, n)
		}
		for k := range statements {
			if k == 2 {
				step()
			}
			for i, rs := range rounds[:2] {
				want := span{n: 3 - int64(i), lo: int64(i), hi: 2}
				var unfinished, counted uint64
				switch k {
				case 0: // these end while the last call is under way
					rs[k].Stop()
					want.n, want.hi, unfinished = want.n-1, 1, 1
				case 1: // and of these no call is a row when it ends
					rs[k].Stop()
					want, unfinished = span{}, 1
				}
				spans, err := spansOf(t, rs[k])
				for _, c := range rs[k].Summary().Counts {
					counted += c.N
				}
				got := spans[1]
				if err != nil || got != want || counted != unfinished {
					t.Errorf("sharing %s: %s, begun with %d calls behind it: %+v, want %+v; %v unfinished, %v", sharing, statements[k], i, got, want, counted, err)
				}
			}
		}
	}
}
