package query

import (
	"fmt"
	"sync/atomic"

	"endoscope/probes/clock"
)

// Phase is a phase in the life of a query.
//
//	from                       to         moved by                       lock
//	prepared                   loaded     its owner, in Query.Load       none
//	loaded                     standby    its owner, in Query.StandBy    none
//	prepared, loaded, standby  running    its owner, in Query.Start      Query.reports
//	prepared, loaded, standby  abandoned  its owner, in Query.Abandon    none
//	running                    ending     its runner, in beginEnd        none
//	ending                     done       its runner, in Query.run       none
//
// The owner is the one goroutine that prepared the query, or to which it was
// passed: that of a session, or of a trigger's action. From running on it is
// the runner. A move is one atomic step: one that is not in the table, or is
// repeated, is refused. Any goroutine may read the phase. One that acts on the
// answer "not running yet" holds query.reports, so that the query does not
// start meanwhile.
type Phase uint32

const (
	phasePrepared  Phase = iota // the sources are prepared; nothing is loaded or attached
	phaseLoaded                 // the sources are loaded; nothing is attached
	phaseStandby                // the sources that can stand by are attached, and deliver nothing
	PhaseRunning                // the sources deliver rows to the runner
	phaseEnding                 // the sources are stopped; the runner takes the rows in flight
	PhaseDone                   // nothing is attached any more
	PhaseAbandoned              // nothing is attached; the query never ran
	queryPhases                 // number of phases
)

func (p Phase) String() string {
	return [...]string{"prepared", "loaded", "standing by", "running", "ending", "done", "abandoned"}[p]
}

// moves lists the phases that may follow each phase.
var moves = [queryPhases][]Phase{
	phasePrepared: {phaseLoaded, PhaseRunning, PhaseAbandoned},
	phaseLoaded:   {phaseStandby, PhaseRunning, PhaseAbandoned},
	phaseStandby:  {PhaseRunning, PhaseAbandoned},
	PhaseRunning:  {phaseEnding},
	phaseEnding:   {PhaseDone},
}

// step is an operation on a query.
type step uint8

const (
	stepLoad     step = iota // load the sources
	stepStandBy              // start the sources that can stand by
	stepStart                // start the sources, or join shared ones
	stepRemember             // queue a SUSPEND or RESUME until the query runs
	stepReport               // report a SUSPEND or RESUME after the events before it
	stepCollect              // collect the sources' aggregates, to show them
	StepAttach               // detach probes while a gate is shut, and attach them again
	stepEnd                  // stop the sources; the query leaves shared ones
	steps                    // number of steps
)

func (s step) String() string {
	return [...]string{"be loaded", "stand by", "start", "remember", "report", "collect", "attach", "end"}[s]
}

// permitted lists the phases in which each step is permitted.
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

// lifecycle holds the phase of one query. The zero value is phasePrepared.
type lifecycle struct{ now atomic.Uint32 }

func (l *lifecycle) Phase() Phase { return Phase(l.now.Load()) }

// May reports whether a step is permitted now.
func (l *lifecycle) May(s step) bool { return permitted[s][l.Phase()] }

// check is May, as an error.
func (l *lifecycle) check(s step) error {
	if p := l.Phase(); !permitted[s][p] {
		return fmt.Errorf("a query that is %s cannot %s", p, s)
	}
	return nil
}

// move changes the phase if the table permits it, and reports whether it did.
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

// Started reports whether the query runs or has run. Then its operators and the
// time at which it was armed may be read.
func (l *lifecycle) Started() bool {
	p := l.Phase()
	return p == PhaseRunning || p == phaseEnding || p == PhaseDone
}

// Shown returns the phase as sys.queries shows it.
func (l *lifecycle) Shown() string {
	switch l.Phase() {
	case PhaseRunning:
		return "running"
	case phaseEnding, PhaseDone:
		return "ending"
	}
	return "preparing"
}

// beginEnd begins to end the query, and reports whether it was not ending
// before. Events from now on do not belong to the query, nor do those after FOR
// has expired. Only the runner calls it.
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
