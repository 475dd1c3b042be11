package stack

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/clock"
	"endoscope/probes/lang/golang"
	"endoscope/probes/rows"
)

// Samples tell what a thread or goroutine is inside of (CREATE CONTEXT). Programs at the
// functions that begin and end the context note it in maps, which the sampler's programs read
// at the instant of the sample.

// Contexts follows contexts in programs (package uprobe).
type Contexts interface {
	// FollowContext prepares what follows the context of a specification, for the rows of owner.
	FollowContext(spec *plan.Acquire, owner probes.Source) (*Follower, error)
}

// Follower follows a context.
type Follower struct {
	probes.Source // without rows
	// Inside returns the maps, by name, in which the programs note what threads and goroutines
	// are inside of. They are valid between Load and Stop.
	Inside func() map[string]*ebpf.Map
}

// contextColumn returns the column of a context, whose key has type t.
func contextColumn(t types.Type) rows.Column[observation] {
	if t == types.Varchar {
		return rows.TextOr(func(o *observation) (string, bool) { return o.key, o.inside })
	}
	return rows.IntOr(func(o *observation) (int64, bool) {
		if !o.inside || len(o.key) != wordBytes {
			return 0, false
		}
		return int64(binary.LittleEndian.Uint64([]byte(o.key))), true
	})
}

// tableWith returns the table with the column of a context.
func tableWith(f types.Field) *rows.Table[observation] {
	stream, all := *catalog.Must(Stream), maps.Clone(columns)
	stream.Asked = append(slices.Clip(stream.Asked), catalog.Column{Name: f.Name, Type: f.Type})
	all[f.Name] = contextColumn(f.Type)
	return rows.NewTableOf(&stream, all)
}

// lockedSink is the sink of the sampler and of a follower, which have goroutines of their own.
type lockedSink struct {
	probes.Sink
	mu sync.Mutex
}

func (l *lockedSink) locked(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *lockedSink) Push(b *batch.Batch)          { l.locked(func() { l.Sink.Push(b) }) }
func (l *lockedSink) Watermark(t int64)            { l.locked(func() { l.Sink.Watermark(t) }) }
func (l *lockedSink) Lost(cause string, n uint64)  { l.locked(func() { l.Sink.Lost(cause, n) }) }
func (l *lockedSink) Count(cause string, n uint64) { l.locked(func() { l.Sink.Count(cause, n) }) }

const (
	elsewhere      = ^uint64(0) // ELSEWHERE of bpf.StackSample.Top
	innermostFrame = ^uint64(0) // INNERMOST_FRAME
)

// noteContext sets what a thread is inside of. The unwinder has just passed its stack, up to
// its first function if why is reached.
func (c *collector) noteContext(t *thread, in *bpf.StackInside, n uint32, sp, top uint64, why cause) {
	t.inside = false
	for i := int(min(n, uint32(len(in.Of)))) - 1; i >= 0; i-- {
		o := &in.Of[i]
		if top != elsewhere && o.Below != innermostFrame && c.hasLeft(top-o.Below, o.Caller, sp, why) {
			continue
		}
		key := unsafe.Slice((*byte)(unsafe.Pointer(&o.Key)), unsafe.Sizeof(o.Key))
		if o.Size > 0 && o.Size <= uint64(len(key))+1 {
			if key = key[:o.Size-1]; t.key != string(key) {
				t.key = string(key)
			}
			t.inside = true
		}
		return
	}
}

// hasLeft reports whether a thread has left a context although its end was not seen. The call
// that began it had its return address at a place of the stack. A context with an end of its
// own lasts as long as the function that made that call.
func (c *collector) hasLeft(at, caller, sp uint64, why cause) bool {
	if c.context.End == nil {
		return sp > at
	}
	for i := range c.unwinder.steps {
		if s := &c.unwinder.steps[i]; s.frame > at {
			return caller != 0 && !c.isOf(s, caller)
		}
	}
	return why == reached
}

// isOf reports whether a frame is of the function that contains the instruction before an
// address. It is if that cannot be told.
func (c *collector) isOf(s *step, address uint64) bool {
	r := c.unwinder.region(address - 1)
	if r == nil || s.module.symbols == nil {
		return true
	}
	if r.module != s.module {
		return false
	}
	var functions [2]int
	for i, offset := range [2]uint64{s.offset, address - 1 - r.start + r.offset} {
		a, ok := s.module.symbols.AddrOf(offset)
		if !ok {
			return true
		}
		if functions[i], ok = s.module.symbols.FunctionAt(a); !ok {
			return true
		}
	}
	return functions[0] == functions[1]
}

// noted is what a goroutine without a thread was inside of at a time.
type noted struct {
	time   uint64
	inside *bpf.StackInside // nil: nothing
}

// lookInside notes what a goroutine of a process is inside of now.
func (c *collector) lookInside(pid int, g *golang.Goroutine) {
	n := noted{time: uint64(clock.Boot())}
	if in := new(bpf.StackInside); c.kernel.inside(pid, g.Address, in) {
		n.inside = in
	}
	c.noted[g.Address] = n
}

// noteGolang tells the sampler where the threads of a Go program have their goroutine.
func (c *collector) noteGolang(sp *space, layout *golang.Layout) {
	if c.context == nil {
		return
	}
	for _, r := range sp.regions {
		if r.module != nil && r.module.symbols != nil && r.module.symbols.HasGo() {
			where := bpf.StackGolang{Slot: r.module.symbols.GoSlot()}
			if layout != nil {
				where.M, where.Current = layout.Current().M, layout.Current().G
			}
			c.kernel.setGolang(sp.process.PID, where)
			return
		}
	}
}
