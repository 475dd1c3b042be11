package variable

import (
	"os"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/debugfiles"
	"endoscope/probes/process"
)

// Processes whose end events were lost may have been missed, which is counted.
func TestEndsNotHeardOf(t *testing.T) {
	s := &source{ends: newEnds()}
	s.ends.pids = []int{7}
	s.ends.Lost("no room", 3)
	got := &record{lost: map[string]uint64{}}
	s.countUnseen(got)
	s.countUnseen(got)
	if len(got.lost) != 2 || got.lost[endsLost] != 3 || got.lost[passed] != 1 {
		t.Errorf("%v", got.lost)
	}
}

// A process is counted once, whether the event of its end comes before or after it cannot be found
// any more.
func TestEndsAndWhatIsFound(t *testing.T) {
	now := time.Now()
	for _, of := range []struct {
		name    string
		steps   string // e: the event comes; f, g: a scan finds it, does not
		refused bool   // it was refused
		want    uint64 // how often it counts as missed
	}{
		{"missed", "eg", false, 1},
		{"missed, but still found", "effg", false, 1},
		{"refused", "feg", true, 0},
		{"refused, and not found before the event", "fge", true, 0},
		{"refused, and still found after the event", "fefg", true, 0},
	} {
		s := &source{ends: newEnds(), refusals: map[int]refusal{}}
		if of.refused {
			s.refusals[7] = refusal{}
		}
		got := &record{lost: map[string]uint64{}}
		for _, step := range of.steps {
			switch found := map[int]bool{7: step == 'f'}; step {
			case 'e':
				s.ends.pids = []int{7}
				s.countUnseen(got)
				if !s.ends.isOver(7) && !of.refused {
					t.Errorf("%s: it could be observed after its end", of.name)
				}
			default:
				s.dropRefusals(found)
				s.ends.trim(found, now)
			}
		}
		if got.lost[passed] != of.want || len(s.ends.awaited)+len(s.ends.over) != 0 {
			t.Errorf("%s: counted %d times, want %d; left %v %v", of.name, got.lost[passed], of.want, s.ends.awaited, s.ends.over)
		}
	}
	self, _ := process.Lookup(os.Getpid())
	s := &source{ends: newEnds(), refusals: map[int]refusal{}, names: []string{"nonsense"}, layouts: newLayouts(debugfiles.Known(plan.Settings{}))}
	s.ends.over[self.PID] = now
	got := &record{lost: map[string]uint64{}}
	if s.observe(self, now, got); len(got.lost) != 0 {
		t.Errorf("a process that is over is not passed by: %v", got.lost)
	}
	s.ends.trim(map[int]bool{self.PID: true}, now.Add(2*retry))
	if s.ends.isOver(self.PID) {
		t.Error("a process whose first thread was replaced by execve is not observed again")
	}
	if s.observe(self, now, got); got.lost[refused] != 1 {
		t.Errorf("it is passed by, though it has no such variable: %v", got.lost)
	}
}
