package stack

import "testing"

// A thread has as much of its stack copied as its frames take, mostly twice
// that: more at once when some were missing, less only when many samples
// did without.
func TestRoomFollowsMissingSamples(t *testing.T) {
	var r room
	sample := func(used uint32) (missing bool) {
		missing = used > r.size()
		r.bytes = r.next(used, missing)
		return missing
	}
	for i, step := range []struct {
		used  uint32
		times int
		want  uint32
	}{
		{1200, steady - 1, usualBytes}, // not yet
		{1200, 1, 2560},
		{1200, 5 * steady, 2560},
		{2500, 10, 2560}, // it is enough
		{2600, 1, usualBytes},
		{20000, 1, 40000},
		{9000, steady, 18432}, // less than half
		{1 << 20, 1, maxBytes},
		{maxBytes, 3 * steady, maxBytes},
		{3000, 1, usualBytes}, // that much is not copied in vain
		{10, steady, leastBytes},
		{0, 2 * steady, leastBytes},
	} {
		for range step.times {
			sample(step.used)
		}
		if r.bytes != step.want && !(step.want == usualBytes && r.bytes == 0) {
			t.Errorf("step %d: %d bytes, want %d", i, r.bytes, step.want)
		}
	}
	// One that needs more each few samples keeps it.
	r = room{}
	missed := 0
	for i := range 10 * steady {
		used := uint32(800)
		if i%(steady-1) == 0 {
			used = 7000
		}
		if sample(used) {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d samples had too little", missed)
	}
}
