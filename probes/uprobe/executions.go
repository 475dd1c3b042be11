package uprobe

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/ringbuf"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/selection"
)

// execution is a call of exec by a thread other than the leader of its process. Links
// restricted to that process no longer fire.
type execution struct {
	pid   int
	time  int64  // boot clock, ns
	image uint64 // the self_exec_id of the new program
}

// executions watches for such calls of exec on the whole machine, where they are rare,
// while a query has restricted links. It belongs to a provider, whose mutex may be held
// by its callers.
type executions struct {
	objects *ebpf.Collection
	link    *attach.Link
	ring    *ringbuf.Buffer
	over    chan struct{} // closed when no more executions are reported

	mu      sync.Mutex // guards the fields below, and the ring except for waiting
	ended   bool
	dropped uint64        // number for which the kernel had no room
	missed  bool          // some were lost, which has not been reported
	queue   []execution   // read, not yet reported
	last    map[int]int64 // time of the last, by process
}

// maxWait bounds a wait. Most of the time there are no records.
const maxWait = time.Hour

// followExecutions attaches the program that reports executions. report is called for
// each, from one goroutine; missed is called when some were lost.
func followExecutions(types *btf.Cache, report func(execution), missed func()) (*executions, error) {
	spec, err := bpf.LoadExecution()
	if err != nil {
		return nil, err
	}
	x := &executions{over: make(chan struct{}), last: map[int]int64{}}
	if x.objects, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types}); err != nil {
		return nil, program.RefuseLoad(err)
	}
	m := x.objects.Maps[bpf.ExecutionMapExecutions]
	if x.ring, err = ringbuf.Open(m.FD(), int(m.MaxEntries())); err != nil {
		x.objects.Close()
		return nil, err
	}
	if x.link, err = attach.Tracepoint(x.objects.Programs[bpf.ExecutionProgExecuted], "sched_process_exec"); err != nil {
		x.ring.Close()
		x.objects.Close()
		return nil, plan.Errorf(-1, -1, "the kernel refuses to report executions of programs: %v", err)
	}
	go x.run(report, missed)
	return x, nil
}

func (x *executions) run(report func(execution), missed func()) {
	defer close(x.over)
	for {
		x.ring.Wait(maxWait)
		x.mu.Lock()
		if x.ended {
			x.mu.Unlock()
			return
		}
		x.read()
		list, more := x.queue, x.missed
		x.queue, x.missed = nil, false
		x.mu.Unlock()
		for _, e := range list {
			report(e)
		}
		if more {
			missed()
		}
	}
}

// read drains the ring into the queue. The caller holds x.mu.
func (x *executions) read() {
	x.ring.DrainAll(x.note)
	var n uint64
	_ = x.objects.Variables[bpf.ExecutionVarUnheard].Get(&n) // mapped memory, or one lookup
	x.missed = x.missed || n > x.dropped
	x.dropped = n
}

func (x *executions) note(record []byte) {
	var r bpf.ExecutionExecution
	if len(record) < int(unsafe.Sizeof(r)) {
		return
	}
	r = *(*bpf.ExecutionExecution)(unsafe.Pointer(unsafe.SliceData(record)))
	e := execution{pid: int(r.Pid), time: int64(r.Time), image: r.Image}
	x.queue = append(x.queue, e)
	x.last[e.pid] = e.time
}

// since reports whether a non-leader thread of a process has called exec at or after
// that time.
func (x *executions) since(pid int, time int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.read()
	if len(x.queue) > 0 || x.missed {
		x.ring.Wake() // wake the goroutine to report the others
	}
	return x.last[pid] >= time
}

// stop detaches the program and ends the goroutine. ending waits for the goroutine,
// which may be in a callback that waits for the caller's lock.
func (x *executions) stop(ending *sync.WaitGroup) {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	x.link.Close()
	x.ring.Wake()
	ending.Go(func() {
		<-x.over
		x.ring.Close()
		x.objects.Close()
	})
}

// restricted returns the processes to which links of the source are restricted.
func (s *source) restricted() (pids []int) {
	add := func(sc *selection.Scope) {
		if sc.PID != 0 && !slices.Contains(pids, sc.PID) {
			pids = append(pids, sc.PID)
		}
	}
	for _, w := range s.resolution.Functions {
		add(w.Scope)
	}
	for _, l := range s.resolution.Landmarks {
		add(l.Scope)
	}
	return pids
}
