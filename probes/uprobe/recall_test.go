package uprobe

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/recall"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// recalled is a sink of recorded events: the rows of each firing.
type recalled struct {
	*record
	set     *recall.Set
	events  []loggedEvent        // since the last firing
	tid     int64                // of them
	firings map[int64]firingRows // by the time of the tuple
}

type firingRows struct {
	recall.Summary
	events []loggedEvent
	tid    int64
}

// loggedEvent is an event as the program logs it: its first letter, the function and the depth.
type loggedEvent struct {
	what     byte
	function string
	depth    int64
}

var recalledColumns = []string{"timestamp", "tid", "event", "function_name", "depth"}

func (r *recalled) Push(b *batch.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, functions := b.Cols[2].Dict.Values(), b.Cols[3].Dict.Values()
	for i := range b.Len() {
		row := b.Row(i)
		r.tid = b.Cols[1].Int[row]
		r.events = append(r.events, loggedEvent{events[b.Cols[2].Code[row]][0], functions[b.Cols[3].Code[row]], b.Cols[4].Int[row]})
	}
	b.Release()
}

// Recalled implements probes.RecallSink.
func (r *recalled) Recalled(number uint64) {
	s := r.set.Summary(number)
	r.mu.Lock()
	defer r.mu.Unlock()
	f := firingRows{Summary: s}
	f.events, f.tid, r.events = r.events, r.tid, nil
	r.firings[s.At] = f // another thread may have fired at the same time
}

// startRecall starts an acquisition whose rows recall calls of functions, which are recorded
// in the given memory, for the given time.
func startRecall(t testing.TB, p *Provider, when *plan.Acquire, functions plan.Expr, bytes int64, last time.Duration) (tuples *record, calls *recalled, stop func()) {
	t.Helper()
	set, err := recall.New(bytes, int64(last), clock.Offset())
	if err != nil {
		t.Fatal(err)
	}
	spec := testplan.Acquire(catalog.FunctionCall, when.Target, functions, recalledColumns...)
	spec.Settings = plan.Settings{Recall: last}
	var sources []probes.Source
	for _, a := range []*plan.Acquire{when, spec} {
		src, err := p.Prepare(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, src)
	}
	tuples, calls = newRecord(when), &recalled{record: newRecord(spec), set: set, firings: map[int64]firingRows{}}
	if err := sources[0].Start(t.Context(), tuples, probes.Options{Recall: set, Standby: true}); err != nil {
		t.Fatal(err)
	}
	if err := sources[1].Start(t.Context(), calls, probes.Options{Record: set}); err != nil {
		t.Fatal(err)
	}
	if _, err := sources[0].Control(t.Context(), probes.Begin{}); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		for _, s := range sources {
			s.Stop()
		}
		set.Close()
	})
	t.Cleanup(stop)
	return tuples, calls, stop
}

// loggedRequests is a program whose threads serve requests, some of them slowly, and log the
// calls that they make: each as two letters, in lines "log THREAD ...". After each slow
// request it says "slow REQUEST THREAD POSITION", the position in the thread's log.
const loggedRequests = prelude + `
#include <sys/syscall.h>
#define THREADS 4
#define REQUESTS %d
static __thread char *logged;
static __thread int n;
static __thread unsigned seed;
struct slow { int request, position; };
static __thread struct slow *slows; /* a thread with little data has a stack that is known without a lookup */
static __thread int slow;
static int next(int below) { seed = seed * 1103515245 + 12345; return (seed >> 16) %% below; }
static void note(char what, char f) { logged[2 * n] = what; logged[2 * n++ + 1] = f; }
#define BODY(f, calls) { note('E', f); __asm__ volatile("" ::: "memory"); calls; note('L', f); sink++; return depth; }
NOINLINE long leaf(long depth) BODY('l', )
NOINLINE long branch(long depth) BODY('b', if (depth > 0) { branch(depth - 1 - next(3)); leaf(depth); })
NOINLINE long request(long number, long calls, long pause) {
	note('E', 'r');
	for (int i = 0; i < calls; i++) if (next(2)) branch(next(4)); else leaf(0);
	if (pause) usleep(pause);
	note('L', 'r');
	return number;
}
static int number;
static void *serve(void *arg) {
	seed = 7 + (long)arg;
	logged = malloc(64 << 20);
	slows = malloc(REQUESTS * sizeof(*slows));
	for (int i = 0; i < REQUESTS; i++) {
		int id = __sync_add_and_fetch(&number, 1), is_slow = !next(%d);
		sink += request(id, next(50) ? next(40) : 3000, is_slow ? 1000 : 0);
		if (is_slow) slows[slow++] = (struct slow){ id, n };
	}
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&one);
	long tid = syscall(SYS_gettid);
	for (int i = 0; i < n; i += 10000) printf("log %%ld %%.*s\n", tid, 2 * (n - i < 10000 ? n - i : 10000), logged + 2 * i);
	for (int i = 0; i < slow; i++) printf("slow %%d %%ld %%d\n", slows[i].request, tid, slows[i].position);
	fflush(stdout);
	pthread_mutex_unlock(&one);
	return 0;
}
int main(void) {
	pthread_t t[THREADS];
	ready();
	for (long i = 0; i < THREADS; i++) pthread_create(&t[i], 0, serve, (void *)i);
	for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
}
`

// loggedAs returns the events of a log as a recalled sequence has them.
func loggedAs(log string) []loggedEvent {
	names := map[byte]string{'r': "request", 'b': "branch", 'l': "leaf"}
	out := make([]loggedEvent, 0, len(log)/2)
	depth := int64(0)
	for i := 0; i < len(log); i += 2 {
		if log[i] == 'L' {
			depth--
		}
		out = append(out, loggedEvent{log[i], names[log[i+1]], depth})
		if log[i] == 'E' {
			depth++
		}
	}
	return out
}

// TestRecallOfSlowRequests compares what is recalled of 1,000 slow requests with the log of
// the program itself.
func TestRecallOfSlowRequests(t *testing.T) {
	testenv.NeedUprobes(t)
	many := testenv.CompileCText(t, fmt.Sprintf(loggedRequests, 3000, 10), "-O1", "-pthread", "-fno-optimize-sibling-calls")
	some := testenv.CompileCText(t, fmt.Sprintf(loggedRequests, 400, 10), "-O1", "-pthread", "-fno-optimize-sibling-calls")
	multiModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		target, least := many, 1000
		if o.Returns == plan.ExitReturns { // each return is single-stepped
			target, least = some, 100
		}
		r := run(t, target)
		when := testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("request"), "timestamp", "arg0", "arg2")
		when.Filter = bound(testplan.Call(">", col("arg2"), num(0)), when.Out)
		when.FilterOnly = []int{2}
		tuples, calls, stop := startRecall(t, p, when, testplan.Named("request", "branch", "leaf"), 64<<20, time.Hour)
		logs, slow := map[string]string{}, map[int64][2]string{}
		for _, line := range r.finish(success) {
			f := strings.Fields(line)
			if f[0] == "log" {
				logs[f[1]] += f[2]
			} else {
				id, _ := strconv.ParseInt(f[1], 10, 64)
				slow[id] = [2]string{f[2], f[3]}
			}
		}
		<-tuples.ended
		<-calls.ended
		stop()
		if len(tuples.lost)+len(calls.counts) > 0 {
			t.Fatalf("lost %v, counted %v", tuples.lost, calls.counts)
		}
		// A busy machine does not read all firings in time, but counts them.
		unread := 0
		for _, f := range calls.firings {
			if f.Events == 0 {
				unread++
			}
		}
		at := map[int64]int{} // two threads may have fired at one time, and are one firing in the map
		for _, row := range tuples.rows {
			at[row[0].I]++
		}
		same := len(tuples.rows) - len(at)
		differs := func(n, from int) bool { return n > from || n < from-same }
		if differs(unread, int(calls.lost["nothing recalled: earlier firings were not read yet"])) ||
			differs(len(calls.firings)+int(calls.lost["nothing recalled: too many firings at a time"]), len(slow)) {
			t.Fatalf("of %d slow requests %d fired, %d without calls, and lost are %v", len(slow), len(calls.firings), unread, calls.lost)
		}
		if len(slow) < least || len(tuples.rows) != len(slow) {
			t.Fatalf("%d slow requests, and %d tuples", len(slow), len(tuples.rows))
		}
		sequences, full := map[string][]loggedEvent{}, 0
		for tid, log := range logs {
			sequences[tid] = loggedAs(log)
		}
		for _, row := range tuples.rows {
			told := slow[row[1].I]
			got, ok := calls.firings[row[0].I]
			if !ok || got.Events == 0 || at[row[0].I] > 1 {
				continue
			}
			position, _ := strconv.Atoi(told[1])
			if strconv.FormatInt(got.tid, 10) != told[0] || got.Events != len(got.events) {
				t.Fatalf("request %d of thread %s recalled %+v", row[1].I, told[0], got.Summary)
			}
			if len(got.events) < min(position, recall.RingEvents) || len(got.events) > position {
				t.Fatalf("request %d: %d events of %d were recalled: %+v, from %v to %v", row[1].I, len(got.events), position, got.Summary, got.events[:3], got.events[len(got.events)-3:])
			}
			if len(got.events) >= recall.RingEvents {
				full++
			}
			want := sequences[told[0]][position-len(got.events) : position]
			for i := range want {
				if want[i] != got.events[i] {
					t.Fatalf("request %d, event %d of %d: got %v, want %v", row[1].I, i, len(want), got.events[i:min(i+3, len(want))], want[i:min(i+3, len(want))])
				}
			}
		}
		// Each firing that was not read may have had a full ring.
		if lost := len(slow) - (len(calls.firings) - unread); full+lost < least/2 || full < least/10 {
			t.Errorf("only %d of %d firings recalled %d events", full, len(calls.firings)-unread, recall.RingEvents)
		}
	})
}
