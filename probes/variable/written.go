package variable

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"endoscope/probes"
	"endoscope/probes/bpf"
)

// watched is a source of writes, and of values of local variables.
type watched struct{ *source }

// watchNs is the cost of a write that traps; on a virtual machine it is higher.
const watchNs = 18000

// Info implements probes.Source. Its sites are the watchpoints, or the lines at
// which variables are read. It may be called while the goroutine adds
// processes.
func (s *watched) Info() probes.Info { return s.info(*s.sites.Load()) }

// describe publishes the sites.
func (s *source) describe() {
	if s.probes() {
		sites := s.probed()
		if s.ends != nil {
			sites = append(sites, s.ends.source.Info().Sites...)
		}
		s.sites.Store(&sites)
	}
}

func (s *source) probed() []probes.Site {
	if s.tracer != nil {
		return s.tracer.sites()
	}
	var sites []probes.Site
	site := func(name, kind string) {
		sites = append(sites, probes.Site{Provider: "variable", Function: name, Method: "watchpoint", Kind: kind, CostNs: watchNs, Estimated: true})
	}
	for _, one := range s.subjects {
		for _, p := range one.watch.points {
			kind := "hardware watchpoint, each thread"
			if p.pointer {
				kind += ": pointer on the way"
			}
			site(p.name, kind)
		}
		return sites
	}
	for _, name := range s.names {
		site(name, "hardware watchpoint, each thread")
	}
	return sites
}

// Start implements probes.Source.
func (s *watched) Start(ctx context.Context, sink probes.Sink, _ probes.Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		sink.End(nil)
		return nil
	}
	if s.grows && s.ends == nil { // before the first refresh
		s.ends = watchEnds(ctx, s.spec.Target)
		s.describe()
	}
	for pid, one := range s.subjects {
		err := s.watch(one)
		if errors.Is(err, errNoImage) {
			delete(s.subjects, pid) // refresh finds the variables of the new program
			continue
		}
		if err != nil {
			return placed(err, s.spec)
		}
	}
	s.begin(ctx, sink, s.run)
	return nil
}

func (s *watched) run(ctx context.Context, sink probes.Sink) error {
	timer := time.NewTicker(poll)
	defer timer.Stop()
	for {
		if s.watcher != nil {
			s.watcher.ring.Wait(poll) // or until a pointer has changed
		} else {
			<-timer.C
		}
		select {
		default:
		case <-s.stop:
			for pid := range s.subjects {
				s.countTrapped(pid, sink)
				s.remove(pid) // all writes until now are delivered
			}
			if s.watcher != nil && len(s.watcher.guarded) > 0 {
				time.Sleep(grace) // all signals until now are counted
			}
			s.drain(sink)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		now := s.clock() + s.rows.Offset()
		s.drain(sink)
		sink.Watermark(now - int64(s.spec.Settings.Lateness))
		if !s.refresh(time.Now(), sink) {
			s.drain(sink)
			return nil
		}
	}
}

// drain makes rows of the writes in the ring, and moves watchpoints after
// changed pointers.
func (s *source) drain(sink probes.Sink) {
	if s.tracer != nil {
		s.tracer.drain(s.subjects, s.rows, sink)
		return
	}
	s.collect(sink)
	s.moveOutdated(sink)
}

// collect makes rows of the writes in the ring.
func (s *source) collect(sink probes.Sink) {
	missed := uint64(0)
	give := func(record []byte) {
		if !s.addRow(record) {
			missed++
		}
	}
	w := s.watcher
	w.ring.DrainAll(give)
	s.rows.Flush()
	if missed > 0 {
		sink.Lost(orphaned, missed)
	}
	if s.failed > 0 {
		sink.Lost(unread, s.failed)
		s.failed = 0
	}
	if s.cut > 0 {
		sink.Count(cutTexts, s.cut)
		s.cut = 0
	}
	if n := w.lost(); n > w.lostReported {
		sink.Lost(ringFull, n-w.lostReported)
		w.lostReported = n
		s.markOutdated()
	}
	if n := w.taken(); n > w.withheld {
		sink.Lost(withheld, n-w.withheld)
		w.withheld = n
	}
	if w.unguarded > 0 {
		sink.Count(unguarded, w.unguarded)
		w.unguarded = 0
	}
	if w.unsure > 0 {
		sink.Count(unsure, w.unsure)
		w.unsure = 0
	}
}

// addRow makes a row of a write, and reports whether its process is known.
func (s *source) addRow(record []byte) bool {
	if len(record) < int(unsafe.Sizeof(bpf.VariableWrite{})) {
		return false
	}
	w := (*bpf.VariableWrite)(unsafe.Pointer(&record[0]))
	one := s.subjects[int(w.Tgid)]
	if one == nil {
		return false
	}
	if int(w.Variable) >= len(one.variables) {
		return false
	}
	v := &one.variables[w.Variable]
	one.watch.outdated = one.watch.outdated || w.Moved != 0
	var has value
	switch state(w.State) {
	case present:
		bytes := (*[8]byte)(unsafe.Pointer(&w.Value))[:]
		has = v.form.written(bytes, record)
		if v.form.unread(has) {
			s.failed++
		}
		if has.cut {
			s.cut++
		}
	case unreadable:
		s.failed++
	}
	one.watch.last[w.Variable] = last{int64(w.Time), has}
	s.rows.Put(observation{time: int64(w.Time), subject: one, name: v.name, module: v.module, value: has,
		tid: int(w.Tid), threadName: unix.ByteSliceToString(unsafe.Slice((*byte)(unsafe.Pointer(&w.Comm)), len(w.Comm))),
		function: one.writers.function(one.process.PID, w.Ip)})
	return true
}

// markOutdated makes the next settle recompute all watchpoints, though no write to
// a pointer was seen.
func (s *source) markOutdated() {
	for _, one := range s.subjects {
		one.watch.outdated = one.watch.follows()
	}
}
