package server_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// What a real program did over time: its calls, work, waiting and allocations are
// what it measures itself.
func TestIntervalsOfWork(t *testing.T) {
	testenv.NeedUprobes(t)
	log := filepath.Join(t.TempDir(), "log")
	s := newSessionOf(t, server.Options{}, wire.Options{Command: []string{encodingProgram(t, "waits.c"), log}})
	a := run(t, s, `SELECT json(INTERVALS(event, function_name, 64, sequence => tid, waits => function_name = 'await', bytes => size)) FROM (
		SELECT timestamp, tid, event, function_name, 0 AS size FROM function_call WHERE function_name IN (serve, await, work)
		UNION ALL SELECT timestamp, tid, 'ALLOCATE', 'buffer', arg0 FROM function_start WHERE function_name = 'allocate')`)
	var allocations, bytes, waited, worked int64
	if _, err := fmt.Sscan(contents(t, log), &allocations, &bytes, &waited, &worked); err != nil {
		t.Fatal(err)
	}
	var x struct {
		Length int64 `json:"length_ns"`
		Cells  []struct {
			Part        int
			Class       string
			Calls       int64
			Time        int64 `json:"time_ns"`
			Waiting     int64 `json:"waiting_ns"`
			Allocations int64
			Bytes       int64
		}
	}
	if err := json.Unmarshal([]byte(a.rows[0][0]), &x); err != nil {
		t.Fatal(err)
	}
	type sum struct{ calls, time, waiting, allocations, bytes int64 }
	sums := map[string]sum{}
	for _, c := range x.Cells {
		o := sums[c.Class]
		sums[c.Class] = sum{o.calls + c.Calls, o.time + c.Time, o.waiting + c.Waiting, o.allocations + c.Allocations, o.bytes + c.Bytes}
		if c.Time > x.Length || c.Part >= 64 {
			t.Errorf("%+v in an interval of %d ns", c, x.Length)
		}
	}
	if b := sums["buffer"]; b.allocations != allocations || b.bytes != bytes {
		t.Errorf("%d allocations of %d bytes, not %d of %d", b.allocations, b.bytes, allocations, bytes)
	}
	// A call begins before the program can look at its clock, and ends after that.
	if got := sums["await"].waiting; got < waited {
		t.Errorf("waited %d ns, where the program measured %d", got, waited)
	}
	if got := sums["work"].time; got < worked {
		t.Errorf("worked %d ns, where the program measured %d", got, worked)
	}
	if own := sums["serve"].time + sums["await"].time + sums["work"].time; own > 64*x.Length {
		t.Errorf("one thread took %d ns of %d", own, 64*x.Length)
	}
	for class, n := range map[string]int64{"serve": 40, "await": 40, "work": 40} {
		if o := sums[class]; o.calls != n || (o.waiting > 0) != (class == "await") || o.waiting > o.time {
			t.Errorf("%s: %+v", class, o)
		}
	}
}
