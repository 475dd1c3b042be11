package uprobe

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/program"
)

// crowd is a target whose threads call f without pause for the given number of
// milliseconds, or with 0 until there is a line to read and, after a second, with pauses
// so that slow readers can catch up. It prints the number of calls and the sum of the
// arguments. f begins with an instruction that the kernel need not step, for more calls.
const crowd = prelude + `
__asm__(".text\n.type f,@function\n.globl f\nf: .cfi_startproc\npush %rbx\n.cfi_adjust_cfa_offset 8\nmov %rdi,%rbx\nmov %rbx,%rax\npop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size f,.-f\n");
long f(long);
static long duration;
static volatile int over;
static long calls[8], sums[8];
static void *work(void *arg) {
	long n = (long)arg;
	struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
	long now = t.tv_sec * 1000000000L + t.tv_nsec, end = now + (duration ? duration : 1000000000L);
	do {
		if (now >= end)
			usleep(10000);
		for (int k = 0; k < 100; k++) { sink += f(calls[n] % 50); sums[n] += calls[n] % 50; calls[n]++; }
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = t.tv_sec * 1000000000L + t.tv_nsec;
	} while (duration ? now < end : !over);
	return 0;
}
int main(int argc, char **argv) {
	duration = atol(argv[1]) * 1000000L;
	pthread_t t[8];
	long all = 0, sum = 0;
	ready();
	for (long i = 0; i < 8; i++) pthread_create(&t[i], 0, work, (void *)i);
	if (!duration) { getchar(); over = 1; }
	for (int i = 0; i < 8; i++) { pthread_join(t[i], 0); all += calls[i]; sum += sums[i]; }
	printf("%ld\n%ld\n", all, sum);
}
`

// While all processors are busy, each call is counted exactly once, in a state or as a
// row.
func TestCollectingUnderLoad(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, crowd, "-O1", "-fcf-protection=none")
	for _, c := range []struct {
		name   string
		stream string
		pane   time.Duration
		keys   []plan.Expr
		aggs   []plan.Agg // the first is COUNT, the second, if any, SUM(arg0)
	}{
		{"count", catalog.FunctionStart, 0, []plan.Expr{col("function_name")}, []plan.Agg{agg("count")}},
		{"dense", catalog.FunctionStart, 0, nil, []plan.Agg{agg("count"), agg("sum", col("arg0")), agg("stddev", col("arg0"))}},
		{"hash", catalog.FunctionStart, 0, []plan.Expr{col("tid")}, []plan.Agg{agg("count"), agg("sum", col("arg0")), agg("quantile", col("arg0"))}},
		{"durations", catalog.FunctionDuration, 0, []plan.Expr{col("function_name")}, []plan.Agg{agg("count"), agg("sum", col("arg0")), agg("max", col("duration"))}},
		{"times in panes", catalog.FunctionStart, program.MinPane, nil, []plan.Agg{agg("count"), agg("sum", col("arg0")), agg("min", col("timestamp")), agg("max", col("timestamp"))}},
		{"count in panes", catalog.FunctionStart, program.MinPane, []plan.Expr{col("function_name")}, []plan.Agg{agg("count")}},
		{"hash in panes", catalog.FunctionStart, program.MinPane, []plan.Expr{col("tid")}, []plan.Agg{agg("count"), agg("sum", col("arg0")), agg("histogram", col("arg0"))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := provider(t, Options{})
			ms := 500
			if c.pane != 0 {
				ms = 0
			}
			r := run(t, target, strconv.Itoa(ms))
			cols := []string{"timestamp", "tid", "function_name", "arg0"}
			if c.stream == catalog.FunctionDuration {
				cols = append(cols, "duration")
			}
			spec := aggregate(testplan.Acquire(c.stream, r.target(), testplan.Named("f"), cols...), c.pane, c.keys, c.aggs...)
			src, got := start(t, p, spec)
			stop, collected := make(chan struct{}), make(chan int)
			go func() {
				n := 0
				defer func() { collected <- n }()
				for {
					if _, err := src.Control(t.Context(), probes.Collect{}); err != nil {
						t.Error(err)
						return
					}
					n++
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
				}
			}()
			if c.pane != 0 {
				r.step()
				somePanes(t, got)
			}
			printed := r.finish(success)
			got.wait(t)
			close(stop)
			n := <-collected
			all := groups(t, spec, got.parts, got.rows)
			var calls int64
			sum := new(bigInt)
			for _, g := range all {
				calls += g[0].N
				if len(g) > 1 {
					sum.Add(sum, &g[1].sum)
				}
				for _, a := range g[min(2, len(g)):] {
					if a.N != g[0].N {
						t.Errorf("%d of %d values in a group", a.N, g[0].N)
					}
				}
			}
			t.Logf("%d calls, collected %d times: %d partial rows, %d rows; counts %v", calls, n, len(got.parts), len(got.rows), got.counts)
			// After a long time without collection, events sent as rows may have found
			// the ring full.
			lost := int64(got.lost["ring buffer full"])
			if c.pane == 0 {
				lost = 0
			}
			if decimal(calls+lost) != printed[0] || lost == 0 && len(c.aggs) > 1 && sum.String() != printed[1] {
				t.Errorf("%d calls, %d lost, and a sum of %s, the target made %s calls with a sum of %s", calls, lost, sum, printed[0], printed[1])
			}
			if got.late > 0 || lost == 0 && len(got.lost) > 0 {
				t.Errorf("%d late, lost %v", got.late, got.lost)
			}
			if c.pane != 0 {
				checkPanes(t, got, int64(c.pane), 3)
			}
		})
	}
}

// somePanes waits until there are as many panes and watermarks as checkPanes requires.
func somePanes(t *testing.T, r *record) {
	t.Helper()
	testenv.Until(t, "there are three panes and three watermarks", func() bool {
		begins := map[int64]bool{}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, row := range r.parts {
			begins[row[0].I] = true
		}
		return len(begins) >= 3 && len(r.marks) >= 3
	})
}

// Nothing is collected for several panes, as when the machine sleeps: events that do not
// fit into the two panes with slots become rows, and no event is in a wrong pane.
func TestPanesThatAreNotCollected(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, crowd, "-O1", "-fcf-protection=none")
	r := run(t, target, "1750")
	aggs := []plan.Agg{agg("count"), agg("sum", col("arg0")), agg("min", col("timestamp")), agg("max", col("timestamp"))}
	spec := aggregate(testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("f"), "timestamp", "arg0"), program.MinPane, nil, aggs...)
	src, got := start(t, provider(t, Options{}), spec)
	a := src.(*source).aggregator
	go func() {
		time.Sleep(300 * time.Millisecond) // panes are collected meanwhile
		a.Mu.Lock()
		time.Sleep(4 * program.MinPane) // panes are not collected meanwhile
		a.Mu.Unlock()
	}()
	printed := r.finish(success)
	got.wait(t)
	all := groups(t, spec, got.parts, got.rows)[""]
	t.Logf("%d calls, %d rows singly", all[0].N, len(got.rows))
	if lost := got.lost["ring buffer full"]; decimal(all[0].N+int64(lost)) != printed[0] || len(got.rows) == 0 {
		t.Errorf("%d calls, %d of them singly, and %d lost; the target made %s", all[0].N, len(got.rows), lost, printed[0])
	}
	checkPanes(t, got, int64(program.MinPane), 2) // a busy machine may collect no more before and after
}

// The reader is busy for several panes: the panes end on time, are delivered in order
// once the reader is free, and contain all calls.
func TestPanesOfABusyReader(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, crowd, "-O1", "-fcf-protection=none")
	p := provider(t, Options{})
	r := run(t, target, "0")
	aggs := []plan.Agg{agg("count"), agg("sum", col("arg0")), agg("min", col("timestamp")), agg("max", col("timestamp"))}
	spec := aggregate(testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("f"), "timestamp", "arg0"), program.MinPane, nil, aggs...)
	src, got := start(t, p, spec)
	r.step()
	somePanes(t, got)
	a := src.(*source).aggregator
	release := make(chan struct{})
	busy := p.reader.Post(func() { <-release })
	var first int64
	letGo := sync.OnceFunc(func() { close(release) })
	defer letGo()
	testenv.Until(t, "panes end while the reader is busy", func() bool {
		if !a.Mu.TryLock() {
			return false
		}
		at := a.Begins
		a.Mu.Unlock()
		if first == 0 {
			first = at
		}
		return at >= first+(program.MaxUngiven-2)*int64(program.MinPane)
	})
	letGo()
	<-busy
	printed := r.finish(success)
	got.wait(t)
	all := groups(t, spec, got.parts, got.rows)[""]
	t.Logf("%d calls, %d rows singly", all[0].N, len(got.rows))
	if lost := got.lost["ring buffer full"]; decimal(all[0].N+int64(lost)) != printed[0] {
		t.Errorf("%d calls and %d lost; the target made %s", all[0].N, lost, printed[0])
	}
	checkPanes(t, got, int64(program.MinPane), 3)
}

// checkPanes checks that each row belongs to one pane only, and that none is late.
func checkPanes(t *testing.T, got *record, pane int64, least int) {
	t.Helper()
	var begins []int64
	for _, row := range got.parts {
		begins = append(begins, row[0].I)
	}
	// Where a pane is delivered in halves, the next may have begun meanwhile.
	slices.Sort(begins)
	begins = slices.Compact(begins)
	for _, b := range begins {
		if b%pane != 0 {
			t.Errorf("a pane begins at %d", b)
		}
	}
	for _, row := range got.parts {
		if len(row) != 1+1+3+2+2 {
			break // except the shortest and the longest time
		}
		if from, to := row[5].I, row[7].I; from < row[0].I || to >= row[0].I+pane || from > to {
			t.Errorf("events from %d to %d in the pane of %d", from, to, row[0].I)
		}
	}
	if len(begins) < least || len(got.marks) < least || got.late > 0 {
		t.Errorf("%d panes and %d watermarks, %d rows late", len(begins), len(got.marks), got.late)
	}
}
