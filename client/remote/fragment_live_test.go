package remote_test

import (
	"os"
	"testing"

	"endoscope/client/remote"
	"endoscope/planner/types"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/flight"
	"endoscope/server/wire"
)

// counted calls a function so often, with the numbers of the calls.
const counted = `
__attribute__((noinline)) int work(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
int main(void) {
	int x = 0;
	for (int i = 0; i < 60000; i++)
		x += work(i) & 1;
	return x == 0;
}`

// Each call of a running program is counted once, however often the operators that
// count move.
func TestOperatorsMoveOnALiveStream(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, counted, "-O1")
	s := serveEngine(t, flight.Options{}, server.Options{Steer: func(n uint64) int { return int(n / 700 % 3) }})
	e, err := remote.Dial(s.addr, remote.Options{Launch: func(argv []string) (remote.Command, error) {
		return process.Launch(argv, nil, os.Stdout, os.Stderr, os.Environ())
	}})
	if err != nil {
		t.Fatal(err)
	}
	const calls = 60_000
	for _, c := range []struct {
		query string
		count int // column of COUNT(*)
	}{
		{"SELECT count(*), sum(arg0), min(arg0), max(arg0) FROM function_start WHERE function_name = 'work' AND length('x' || CAST(arg0 AS VARCHAR)) > 1", 0},
		{"SELECT count(*), window_start FROM TUMBLE(function_start, 2ms) WHERE function_name = 'work' GROUP BY window_start", 0},
		{"SELECT arg0 * 2 AS twice FROM function_start WHERE function_name = 'work' AND length(CAST(arg0 AS VARCHAR)) > 0", -1},
	} {
		x, err := e.NewSession(t.Context(), wire.Options{Command: []string{target}})
		if err != nil {
			t.Fatal(err)
		}
		all(t, execute(t, x, "SET kernel = 'off'")) // nothing is counted before the rows arrive
		all(t, execute(t, x, "SET max_event_rate = 0"))
		all(t, execute(t, x, "SET max_overhead = 0")) // a busy machine does not end it
		r := execute(t, x, c.query)
		rows, _, _ := all(t, r)
		sum := r.Summary()
		lost := uint64(0)
		for _, l := range sum.Losses {
			lost += l.N
		}
		n, seen := int64(0), map[types.Value]bool{}
		for _, row := range rows {
			if c.count < 0 {
				n++
				seen[types.Int(row[0].I)] = true
				continue
			}
			n += row[c.count].I
		}
		if n+int64(lost) != calls {
			t.Errorf("%s\n%d calls are counted, and %d lost: %v; there were %d", c.query, n, lost, sum.Losses, calls)
		}
		if c.count < 0 && len(seen) != len(rows) {
			t.Errorf("%s\n%d rows say %d different things", c.query, len(rows), len(seen))
		}
		if lost == 0 && c.count == 0 && len(rows) == 1 && len(rows[0]) == 4 && rows[0][1].I != calls*(calls-1)/2 {
			t.Errorf("the sum of the arguments is %d", rows[0][1].I)
		}
		moves := 0
		for _, note := range sum.Notes {
			if len(note) > 5 && note[:5] == "moved" {
				moves++
			}
		}
		if moves < 5 {
			t.Errorf("%s\nnothing moved: %q", c.query, sum.Notes)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
