package uprobe

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// flood calls one function from some threads, as fast as it can. Its first
// instruction is one that the kernel emulates.
const flood = prelude + `
__asm__(".text\n.globl drop\n.type drop,@function\ndrop: .cfi_startproc\npush %rbx\n.cfi_adjust_cfa_offset 8\npop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size drop,.-drop\n");
void drop(long);
static long each;
static void *work(void *x) { for (long i = 0; i < each; i++) drop(i); return x; }
int main(int argc, char **argv) {
	int n = atoi(argv[1]);
	each = atol(argv[2]);
	ready();
	pthread_t t[8];
	for (int i = 0; i < n; i++) pthread_create(&t[i], 0, work, 0);
	for (int i = 0; i < n; i++) pthread_join(t[i], 0);
	return 0;
}
`

// A query may use one second's events at once, and from then on its rate; each call
// above that is counted. One processor may use all of it.
func TestEventRateIsLimited(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, flood, "-O1", "-pthread")
	const limit = 20_000
	for _, c := range []struct {
		name          string
		stream        string
		threads, each string
		calls         int
		within        bool
	}{
		{"below", catalog.FunctionStart, "2", "9500", 19_000, true},
		{"one thread", catalog.FunctionStart, "1", "200000", 200_000, false},
		{"several threads", catalog.FunctionStart, "4", "50000", 200_000, false},
		{"returns", catalog.FunctionDuration, "2", "100000", 200_000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := provider(t, Options{})
			r := run(t, target, c.threads, c.each)
			spec := testplan.Acquire(c.stream, r.target(), testplan.Named("drop"), "timestamp")
			spec.Settings.MaxEventRate = limit
			began := time.Now()
			_, sink := start(t, p, spec)
			r.finish(success)
			sink.wait(t)
			seconds := time.Since(began).Seconds()
			got, lost := len(sink.rows), int(sink.lost["rate limit"])
			if got+lost != c.calls || len(sink.lost) > 1 {
				t.Fatalf("%d rows and %v lost of %d calls", got, sink.lost, c.calls)
			}
			if c.within {
				if lost > 0 {
					t.Errorf("%d of %d lost below the limit", lost, c.calls)
				}
				return
			}
			// A processor that stops sending may keep a chunk.
			chunks := float64(runtime.NumCPU() * limit / 1000)
			if most := limit*(1+seconds) + chunks; float64(got) > most {
				t.Errorf("%d rows in %.3f s, at most %.0f are allowed", got, seconds, most)
			}
			// While the program has no processor, it uses none of what is allowed.
			times := sink.ints("timestamp")
			slices.Sort(times)
			var busy time.Duration
			for i, at := range times[1:] {
				if gap := time.Duration(at - times[i]); gap < 10*time.Millisecond {
					busy += gap
				}
			}
			if least := 0.95*limit*(1+busy.Seconds()) - chunks; lost > 0 && float64(got) < least {
				t.Errorf("%d rows in %v, at least %.0f are allowed", got, busy, least)
			}
		})
	}
}

// Rates that are neither divisible by chunks of events nor divisors of a second in ns.
func TestRateNeedsNoRoundNumber(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, flood, "-O1", "-pthread")
	for _, limit := range []int64{1, 7, 999, 1001, 1_000_000_000} {
		p := provider(t, Options{})
		r := run(t, target, "1", "3000")
		spec := testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("drop"), "timestamp")
		spec.Settings.MaxEventRate = limit
		began := time.Now()
		_, sink := start(t, p, spec)
		r.finish(success)
		sink.wait(t)
		// All are called within a fraction of a second, unless the machine is busy.
		least := min(limit, 3000)
		most := min(float64(limit)*(1+time.Since(began).Seconds())+1, 3000)
		if got := int64(len(sink.rows)); got < least || float64(got) > most {
			t.Errorf("limit %d: %d rows, %d to %.0f are allowed; lost %v", limit, got, least, most, sink.lost)
		}
	}
}
