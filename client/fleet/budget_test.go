package fleet_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"testing"

	"endoscope/client/fleet"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// countsItself calls often in each turn and seldom in each 20,000th. For each line with a number
// of turns it says how often it has called both.
const countsItself = testenv.Work + `
#include <stdio.h>
#include <stdlib.h>
volatile long sink; long oftens, seldoms;
__attribute__((noinline, noclone)) void often(long a) { sink += a; oftens++; }
__attribute__((noinline, noclone)) void seldom(long a) { sink += a; seldoms++; }
int main(void) {
	char b[32];
	measure();
	puts("ready"); fflush(stdout);
	while (fgets(b, sizeof b, stdin)) {
		for (long i = 0, n = atol(b); i < n; i++) {
			work();
			often(i % 7);
			if (i % 20000 == 0) seldom(i);
		}
		printf("%ld %ld\n", oftens, seldoms); fflush(stdout);
	}
}
`

// TestOverheadOfHosts: three hosts observe a program within an overhead each. What they count
// together is three times what the program says.
func TestOverheadOfHosts(t *testing.T) {
	testenv.NeedUprobes(t)
	cmd := exec.Command(testenv.CompileCText(t, countsItself, "-O1"))
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	says := bufio.NewScanner(out)
	says.Scan()
	const hosts = 3
	var members []fleet.Host
	for i := range hosts {
		members = append(members, fleet.Host{Name: fmt.Sprint("host", i), Engine: engine(t)})
	}
	s := open(t, fleet.New(members))
	r, err := s.Execute(t.Context(), fmt.Sprintf("SELECT function_name, COUNT(*), exact(COUNT(*)) FROM function_start WHERE pid = %d AND function_name IN (often, seldom) GROUP BY function_name WITHIN OVERHEAD 10%%", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, 200_000)
	says.Scan()
	truth := map[string]int64{}
	var often, seldom int64
	fmt.Sscan(says.Text(), &often, &seldom)
	truth["often"], truth["seldom"] = hosts*often, hosts*seldom
	r.Stop()
	seen := 0
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind != wire.Rows {
			continue
		}
		for i := range ev.Batch.Len() {
			cell := func(c int) (text string, n float64, null bool) {
				v := ev.Batch.Cols[c].Value(ev.Batch.Row(i))
				return v.S, float64(v.I), v.IsNull
			}
			name, _, _ := cell(0)
			_, n, _ := cell(1)
			_, exact, _ := cell(2)
			_, low, noLow := cell(3)
			_, high, noHigh := cell(4)
			t.Logf("%s: %s (%.0f to %.0f), exact %v; it is %d", name, strconv.FormatFloat(n, 'f', -1, 64), low, high, exact > 0, truth[name])
			seen++
			const slack = 1.3 // in one of twenty runs the interval is a little too narrow
			want := float64(truth[name])
			switch {
			case exact > 0 && (n != want || low != want || high != want):
				t.Errorf("%s is said to be exact", name)
			case noLow || low > slack*want || !noHigh && high*slack < want:
				t.Errorf("%s: the interval does not contain the truth", name)
			}
		}
		ev.Batch.Release()
	}
	if seen != len(truth) {
		t.Errorf("%d functions, of %d that were called", seen, len(truth))
	}
	for _, n := range r.Summary().Notes {
		t.Log(n)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
