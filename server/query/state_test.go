package query

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// atPhase returns a lifecycle in a phase.
func atPhase(p Phase) *lifecycle {
	l := &lifecycle{}
	l.now.Store(uint32(p))
	return l
}

func runs() *lifecycle { return atPhase(PhaseRunning) }

// TestPhaseMoves: of all moves between phases, exactly these are allowed.
func TestPhaseMoves(t *testing.T) {
	allowed := []string{
		"prepared > loaded", "prepared > running", "prepared > abandoned",
		"loaded > standing by", "loaded > running", "loaded > abandoned",
		"standing by > running", "standing by > abandoned",
		"running > ending", "ending > done",
	}
	for from := range queryPhases {
		for to := range queryPhases {
			l, name := atPhase(from), from.String()+" > "+to.String()
			moved := l.move(to)
			if moved != slices.Contains(allowed, name) {
				t.Errorf("%s: %v", name, moved)
			}
			if now := l.Phase(); moved && now != to || !moved && now != from {
				t.Errorf("%s: it is %s then", name, now)
			}
		}
	}
}

// TestPhaseSteps: the permitted steps in each phase, how the phase is shown,
// and whether the query has run.
func TestPhaseSteps(t *testing.T) {
	for p, want := range map[Phase]string{
		phasePrepared:  "preparing: be loaded, start, remember",
		phaseLoaded:    "preparing: stand by, start, remember",
		phaseStandby:   "preparing: start, remember",
		PhaseRunning:   "running, has run: report, collect, attach, end",
		phaseEnding:    "ending, has run: report",
		PhaseDone:      "ending, has run: ",
		PhaseAbandoned: "preparing: ",
	} {
		l := atPhase(p)
		got := l.Shown()
		if l.Started() {
			got += ", has run"
		}
		var may []string
		for s := range steps {
			err := l.check(s)
			if l.May(s) != (err == nil) {
				t.Errorf("%s: %s is %v, and the error is %v", p, s, l.May(s), err)
			}
			if err == nil {
				may = append(may, s.String())
			}
		}
		if got += ": " + strings.Join(may, ", "); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
}

// TestOneMoveWins: of many goroutines that make the same move at once, one
// succeeds.
func TestOneMoveWins(t *testing.T) {
	l := runs()
	var won atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if l.move(phaseEnding) {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || l.Phase() != phaseEnding {
		t.Errorf("%d have moved it, and it is %s", won.Load(), l.Phase())
	}
}
