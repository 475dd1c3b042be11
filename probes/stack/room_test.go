package stack

import "testing"

// The room of a thread follows the size of its frames, mostly twice that size: it
// grows at once when some frames were missing, and shrinks only after many smaller
// samples.
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
	// A thread that needs more every few samples keeps its room.
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
