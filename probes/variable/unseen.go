package variable

import (
	"context"
	"sync"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/sched"
)

// ends hears of the processes of a target that end, of which some may have come
// since it was last looked for them, and written: they are counted.
type ends struct {
	source probes.Source
	former map[int]bool // have been subjects: their ends are still to be heard of

	mu   sync.Mutex
	pids []int  // that have ended, in order
	lost uint64 // ends that were not heard of
}

// watchEnds begins to hear of them; nil where the kernel does not tell.
func watchEnds(ctx context.Context, target plan.Target) *ends {
	spec := &plan.Acquire{Stream: sched.ThreadEnd, Target: target, Out: types.Schema{Time: -1, Fields: []types.Field{
		{Name: "pid", Type: types.Bigint}, {Name: "tid", Type: types.Bigint},
	}}}
	e := &ends{former: map[int]bool{}}
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

// Push implements probes.Sink: of a process its first thread counts.
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

// take returns those that have ended since it was asked last, and how many ends were not
// heard of.
func (e *ends) take() (pids []int, lost uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pids, lost = e.pids, e.lost
	e.pids, e.lost = nil, 0
	return pids, lost
}

// unheard is of processes of which it is not known whether they were observed.
const unheard = "ends of threads that were not heard of, perhaps of processes that were never observed"

// countUnseen counts the processes that have ended and were never observed, nor
// refused. It comes before those that have ended are forgotten.
func (s *source) countUnseen(sink probes.Sink) {
	if s.ends == nil {
		return
	}
	pids, lost := s.ends.take()
	if lost > 0 {
		sink.Lost(unheard, lost)
	}
	for _, pid := range pids {
		_, isRefused := s.refusals[pid]
		if s.subjects[pid] == nil && !isRefused && !s.ends.former[pid] {
			sink.Count(passed, 1)
		}
		delete(s.ends.former, pid)
	}
}

// endUnseen counts the last ones, when nothing is observed any more.
func (s *source) endUnseen(sink probes.Sink) {
	if s.ends == nil {
		return
	}
	_ = s.ends.source.Stop()
	s.countUnseen(sink)
	s.ends = nil
}
