package decode

import (
	"os"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/recall"
	"endoscope/probes/uprobe/abi"
)

// Recaller is the goroutine that makes rows of the events of a query that a trigger recalls.
// It owns the subscription until Stop.
type Recaller struct {
	sub     *Subscription
	set     *recall.Set
	stop    chan struct{}
	stopped chan struct{}
}

// StartRecaller starts a Recaller. The sink is a probes.RecallSink.
func StartRecaller(s *Subscription, set *recall.Set) *Recaller {
	s.Executables = newExeNames() // that of the reader belongs to its goroutine
	r := &Recaller{sub: s, set: set, stop: make(chan struct{}), stopped: make(chan struct{})}
	go r.run()
	return r
}

// Stop makes rows of what was recalled until now, and reports what was lost. The programs
// must be detached before.
func (r *Recaller) Stop() {
	if r == nil {
		return
	}
	close(r.stop)
	r.set.Wake()
	<-r.stopped
}

func (r *Recaller) run() {
	defer close(r.stopped)
	for {
		r.set.Read(r.recall)
		r.account()
		select {
		case <-r.stop:
			r.set.Read(r.recall)
			r.account()
			r.sub.report()
			return
		default:
			r.set.Wait(time.Minute) // the kernel wakes for each firing
		}
	}
}

// recall makes rows of the events of a firing.
func (r *Recaller) recall(f *recall.Firing) {
	s, e := r.sub, &r.sub.event
	names := map[uint32][]byte{f.TID: []byte(f.Thread)}
	e.process = []byte(f.Process)
	for i := range f.Events {
		at := &f.Events[i]
		// A recorded event begins like one in the ring buffer, but for the query.
		e.FunctionEvent = (*bpf.FunctionEvent)(unsafe.Pointer(at))
		e.function, e.kind, e.goroutine = at.Function&(abi.MaxFunctions-1), byte(at.Function>>24), at.Goroutine
		name, ok := names[at.Tid]
		if !ok {
			name = threadName(at.Pid, at.Tid)
			names[at.Tid] = name
		}
		e.thread = name
		s.add(e)
	}
	s.Flush()
	r.set.Conclude(f)
	if sink, ok := s.Sink.(probes.RecallSink); ok {
		sink.Recalled(f.Number)
	}
}

// threadName returns the name of a thread on which a goroutine ran; nil: it has ended.
func threadName(pid, tid uint32) []byte {
	name, err := os.ReadFile("/proc/" + strconv.Itoa(int(pid)) + "/task/" + strconv.Itoa(int(tid)) + "/comm")
	if err != nil {
		return nil
	}
	return slices.Clip(name[:max(len(name)-1, 0)])
}

// account reports losses.
func (r *Recaller) account() {
	n := r.set.News()
	if n.Missed > 0 {
		r.sub.Sink.Lost("nothing recalled: earlier firings were not read yet", n.Missed)
	}
	if n.Untold > 0 {
		r.sub.Sink.Lost("nothing recalled: too many firings at a time", n.Untold)
	}
	if n.GivenAway > 0 {
		r.sub.Sink.Count("recorded calls of idle threads given up for other threads", n.GivenAway)
	}
	r.sub.Account()
}
