package variable

import (
	"context"
	"maps"
	"sync"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/sched"
)

// ends observes process ends in a target. A process may start, write and end
// between two refreshes; such processes are counted.
type ends struct {
	source  probes.Source
	awaited map[int]bool      // processes that are not observed or refused any more, and whose end event is still to come
	over    map[int]time.Time // when end events came, of processes that may still be found for a moment

	mu   sync.Mutex
	pids []int  // pids that have ended, in order
	lost uint64 // lost end events
}

func newEnds() *ends {
	return &ends{awaited: map[int]bool{}, over: map[int]time.Time{}}
}

// watchEnds starts observing ends; it returns nil where the kernel does not
// report them.
func watchEnds(ctx context.Context, target plan.Target) *ends {
	spec := &plan.Acquire{Stream: sched.ThreadEnd, Target: target, Out: types.Schema{Time: -1, Fields: []types.Field{
		{Name: "pid", Type: types.Bigint}, {Name: "tid", Type: types.Bigint},
	}}}
	e := newEnds()
	var err error
	if e.source, err = sched.New().Prepare(ctx, spec); err != nil {
		return nil
	}
	if err := e.source.Start(ctx, e, probes.Options{}); err != nil {
		_ = e.source.Stop()
		return nil
	}
	return e
}

// Push implements probes.Sink: the end of a process is that of its first
// thread.
func (e *ends) Push(b *batch.Batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range b.N {
		if pid := b.Cols[0].Int[i]; pid == b.Cols[1].Int[i] {
			e.pids = append(e.pids, int(pid))
		}
	}
	b.Release()
}

// Partial implements probes.Sink.
func (e *ends) Partial(b *batch.Batch) { b.Release() }

// Watermark implements probes.Sink.
func (e *ends) Watermark(int64) {}

// Lost implements probes.Sink.
func (e *ends) Lost(_ string, n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost += n
}

// Count implements probes.Sink.
func (e *ends) Count(string, uint64) {}

// End implements probes.Sink.
func (e *ends) End(error) {}

// takeEnded returns the pids that have ended since the last call, and the number of
// lost end events.
func (e *ends) takeEnded() (pids []int, lost uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pids, lost = e.pids, e.lost
	e.pids, e.lost = nil, 0
	return pids, lost
}

// endsLost is the cause counted for lost end events.
const endsLost = "lost ends of threads, perhaps of processes that were never observed"

// leave awaits the end event of a process, unless that has come.
func (e *ends) leave(pid int) {
	if e == nil {
		return
	}
	if _, came := e.over[pid]; !came {
		e.awaited[pid] = true
	}
}

// isOver reports whether the end event of a process has come.
func (e *ends) isOver(pid int) bool {
	if e == nil {
		return false
	}
	_, came := e.over[pid]
	return came
}

// trim drops the processes that are not found any more. A process that is still found after some
// time has not ended: another of its threads has called execve, which ends the first one.
func (e *ends) trim(found map[int]bool, now time.Time) {
	if e == nil {
		return
	}
	maps.DeleteFunc(e.over, func(pid int, since time.Time) bool { return !found[pid] || now.Sub(since) > retry })
}

// countUnseen counts the processes that have ended without being observed or
// refused. It runs before forget. The event of an end comes before the process cannot be found any
// more (kernel/exit.c, do_exit), or after it.
func (s *source) countUnseen(sink probes.Sink) {
	if s.ends == nil {
		return
	}
	pids, lost := s.ends.takeEnded()
	if lost > 0 {
		sink.Lost(endsLost, lost)
	}
	now := time.Now()
	for _, pid := range pids {
		if s.ends.awaited[pid] {
			delete(s.ends.awaited, pid)
			continue
		}
		if _, isRefused := s.refusals[pid]; s.subjects[pid] == nil && !isRefused {
			sink.Count(passed, 1)
		}
		s.ends.over[pid] = now
	}
}

// endUnseen counts the last ones when the source ends.
func (s *source) endUnseen(sink probes.Sink) {
	if s.ends == nil {
		return
	}
	_ = s.ends.source.Stop()
	s.countUnseen(sink)
	s.ends = nil
}
