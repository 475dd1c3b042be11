package variable

import "testing"

// Processes whose end events were lost may have been missed, which is counted.
func TestEndsNotHeardOf(t *testing.T) {
	s := &source{ends: &ends{awaited: map[int]bool{}, pids: []int{7}}}
	s.ends.Lost("no room", 3)
	got := &record{lost: map[string]uint64{}}
	s.countUnseen(got)
	s.countUnseen(got)
	if len(got.lost) != 2 || got.lost[endsLost] != 3 || got.lost[passed] != 1 {
		t.Errorf("%v", got.lost)
	}
}
