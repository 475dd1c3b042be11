package query

import (
	"fmt"
	"sync/atomic"

	"endoscope/probes/clock"
)

// Phase is where a query is in its life.
//
//	from                       to         who moves it                 under which lock
//	prepared                   loaded     its owner, by query.load     none
//	loaded                     standby    its owner, by query.standBy  none
//	prepared, loaded, standby  running    its owner, by query.start    query.reports
//	prepared, loaded, standby  abandoned  its owner, by query.abandon  none
//	running                    ending     its runner, by beginEnd      none
//	ending                     done       its runner, by query.run     none
//
// The owner is the one goroutine that has prepared the query, or was handed it: a
// session's, or that of a trigger's action. From running on it is the runner. A move is
// one atomic step, so that one that is not in the table, or comes twice, is refused
// whoever tries it. Everybody may ask for the phase; who acts on the answer "before
// running" holds query.reports, so that the query does not start meanwhile.
type Phase uint32

const (
	phasePrepared  Phase = iota // the sources are prepared; nothing is loaded or attached
	phaseLoaded                 // what takes long is loaded; nothing is attached
	phaseStandby                // what has to be attached is, and gives nothing
	PhaseRunning                // the sources give, and the runner takes
	phaseEnding                 // the sources are stopped, and the runner takes what is under way
	PhaseDone                   // nothing is attached any more
	PhaseAbandoned              // likewise, of a query that has never run
	queryPhases                 // how many there are
)

func (p Phase) String() string {
	return [...]string{"prepared", "loaded", "standing by", "running", "ending", "done", "abandoned"}[p]
}

// moves are the phases that may follow a phase.
var moves = [queryPhases][]Phase{
	phasePrepared: {phaseLoaded, PhaseRunning, PhaseAbandoned},
	phaseLoaded:   {phaseStandby, PhaseRunning, PhaseAbandoned},
	phaseStandby:  {PhaseRunning, PhaseAbandoned},
	PhaseRunning:  {phaseEnding},
	phaseEnding:   {PhaseDone},
}

// step is something that is done to a query.
type step uint8

const (
	stepLoad     step = iota // load the sources
	stepStandBy              // start the sources that can stand by
	stepStart                // start the sources: share them, or take part in shared ones
	stepRemember             // remember a SUSPEND or RESUME until the query runs
	stepReport               // have a SUSPEND or RESUME follow what happened before it
	stepCollect              // ask the sources for what they have aggregated, to show it
	StepAttach               // take probes away while a gate is shut, and put them back
	stepEnd                  // stop the sources, which leave the shared ones
	steps                    // how many there are
)

func (s step) String() string {
	return [...]string{"be loaded", "stand by", "start", "remember", "report", "collect", "attach", "end"}[s]
}

// permitted says in which phases each step may be done.
var permitted = [steps][queryPhases]bool{
	stepLoad:     {phasePrepared: true},
	stepStandBy:  {phaseLoaded: true},
	stepStart:    {phasePrepared: true, phaseLoaded: true, phaseStandby: true},
	stepRemember: {phasePrepared: true, phaseLoaded: true, phaseStandby: true},
	stepReport:   {PhaseRunning: true, phaseEnding: true},
	stepCollect:  {PhaseRunning: true},
	StepAttach:   {PhaseRunning: true},
	stepEnd:      {PhaseRunning: true},
}

// lifecycle is the phase of one query. The zero value is a prepared one's.
type lifecycle struct{ now atomic.Uint32 }

func (l *lifecycle) Phase() Phase { return Phase(l.now.Load()) }

// May reports whether a step may be done now.
func (l *lifecycle) May(s step) bool { return permitted[s][l.Phase()] }

// check is may, as an error.
func (l *lifecycle) check(s step) error {
	if p := l.Phase(); !permitted[s][p] {
		return fmt.Errorf("a query that is %s cannot %s", p, s)
	}
	return nil
}

// move makes a move of the table, and reports whether it has.
func (l *lifecycle) move(to Phase) bool {
	for {
		from := l.now.Load()
		allowed := false
		for _, p := range moves[from] {
			allowed = allowed || p == to
		}
		if !allowed {
			return false
		}
		if l.now.CompareAndSwap(from, uint32(to)) {
			return true
		}
	}
}

// Started reports whether the query runs or has run: its operators and the time at
// which it was armed may be read.
func (l *lifecycle) Started() bool {
	p := l.Phase()
	return p == PhaseRunning || p == phaseEnding || p == PhaseDone
}

// Shown is the phase in sys.queries.
func (l *lifecycle) Shown() string {
	switch l.Phase() {
	case PhaseRunning:
		return "running"
	case phaseEnding, PhaseDone:
		return "ending"
	}
	return "preparing"
}

// beginEnd begins to end the query, and reports whether it was not ending yet. What
// happens from now on is not the query's, nor what happened since FOR was over. Only
// the runner calls it.
func (q *Query) beginEnd() bool {
	if !q.Life.May(stepEnd) {
		return false
	}
	q.until = clock.Now()
	if q.Plan.For > 0 {
		q.until = min(q.until, q.began+int64(q.Plan.For))
	}
	return q.Life.move(phaseEnding)
}
