package entities

import (
	"math"
	"strings"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/sched"
)

// part is the sink of one of the sources that a query combines.
type part struct {
	owner  *source
	source probes.Source
	// options are the source's start options. They say which calls are
	// delivered while it is suspended.
	options  probes.Options
	suspends bool // the source supports Suspend
	decode   decoder
	mark     int64 // its last watermark
	ended    bool
}

// decoder turns rows of a batch into events.
type decoder struct {
	fields []types.Field
	read   func(c []batch.Column, row int) event
}

// Push implements probes.Sink: it decodes rows and adds them to merge.
func (p *part) Push(b *batch.Batch) {
	defer b.Release()
	s := p.owner
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.Len() {
		h := p.decode.read(b.Cols, b.Row(i))
		if !s.inTarget(h.pid) {
			continue
		}
		if s.merge.full() {
			s.lost[queueFull]++
			continue
		}
		switch {
		case h.kind == mapped, h.kind == executed, h.kind == started && h.pid == h.tid:
			s.look(h)
		}
		if h.kind != mapped { // added when the modules are known
			s.merge.add(h)
		}
		if h.kind == executed { // it may end before its modules can be read
			if m, ok := s.library.executed(h.exe); ok {
				s.merge.add(event{time: h.time, kind: mapped, pid: h.pid, tid: h.tid, modules: []moduleTypes{m}})
			}
		}
	}
}

// Partial does not occur: no aggregate is pushed down.
func (p *part) Partial(b *batch.Batch) { b.Release() }

// Watermark releases the events that all parts have passed.
func (p *part) Watermark(t int64) {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	p.mark = t
	p.owner.release()
}

// Lost records a loss and starts an inventory, after which all live entities
// are reported again.
func (p *part) Lost(cause string, n uint64) {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	p.owner.lost[cause] += n
	p.owner.inspect()
}

// Count forwards to the query's sink. Children are not counted, since each part would count
// them.
func (p *part) Count(cause string, n uint64) {
	if cause == probes.Unobserved {
		return
	}
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	p.owner.sink.Count(cause, n)
}

// End ends this part. When the part of threads ends, the target has ended.
func (p *part) End(err error) {
	s := p.owner
	s.mu.Lock()
	defer s.mu.Unlock()
	p.ended, p.mark = true, math.MaxInt64
	if err != nil && s.err == nil {
		s.err = err
	}
	if s.begun { // otherwise Start, about to start the next part, checks it
		s.stopIfOver()
	}
	s.release()
}

func text(c *batch.Column, row int) string {
	if c.Nulls.Get(row) {
		return ""
	}
	return c.Values[c.Code[row]]
}

func number(c *batch.Column, row int) int {
	if c.Nulls.Get(row) {
		return 0
	}
	return int(c.Int[row])
}

// columns returns the schema of a part; the first three columns are the same
// for all.
func columns(more ...types.Field) []types.Field {
	return append([]types.Field{{Name: "timestamp", Type: types.Timestamp}, {Name: "pid", Type: types.Bigint}, {Name: "tid", Type: types.Bigint}}, more...)
}

// at returns an event with the columns that all parts have.
func at(k kind, c []batch.Column, row int) event {
	return event{kind: k, time: c[0].Int[row], pid: number(&c[1], row), tid: number(&c[2], row)}
}

var threadKinds = map[string]kind{sched.Started: started, sched.Ended: ended, sched.Renamed: renamed, sched.Exec: executed}

var decodeThreads = decoder{
	columns(types.Field{Name: "event", Type: types.Varchar}, types.Field{Name: "thread_name", Type: types.Varchar},
		types.Field{Name: "parent_tid", Type: types.Bigint}, types.Field{Name: "started", Type: types.Timestamp},
		types.Field{Name: "process", Type: types.Varchar}, types.Field{Name: "exe", Type: types.Varchar}),
	func(c []batch.Column, row int) event {
		h := at(threadKinds[text(&c[3], row)], c, row)
		h.name, h.parent, h.started = text(&c[4], row), number(&c[5], row), c[6].Int[row]
		h.process, h.exe = text(&c[7], row), text(&c[8], row)
		return h
	},
}

var callKinds = map[string]kind{"ENTER": entered, "LEAVE": left, "UNWIND": unwound, "GAP": missed, "OVER": over}

var decodeCalls = decoder{
	columns(types.Field{Name: "event", Type: types.Varchar}, types.Field{Name: "function_name", Type: types.Varchar}, types.Field{Name: "class", Type: types.Varchar},
		types.Field{Name: "depth", Type: types.Bigint}, types.Field{Name: "receiver", Type: types.Bigint}, types.Field{Name: "receiver_class", Type: types.Varchar}, types.Field{Name: "frame", Type: types.Bigint}),
	func(c []batch.Column, row int) event {
		h := at(callKinds[text(&c[3], row)], c, row)
		h.frame = uint64(c[9].Int[row])
		h.name, h.class, h.depth = text(&c[4], row), text(&c[5], row), number(&c[6], row)
		h.receiver, h.hasReceiver, h.receiverClass = uint64(number(&c[7], row)), !c[7].Nulls.Get(row), text(&c[8], row)
		return h
	},
}

// decodeMethods is decodeCalls for programs whose objects are not visible.
var decodeMethods = decoder{
	columns(types.Field{Name: "event", Type: types.Varchar}, types.Field{Name: "function_name", Type: types.Varchar}, types.Field{Name: "class", Type: types.Varchar}, types.Field{Name: "depth", Type: types.Bigint}),
	func(c []batch.Column, row int) event {
		h := at(callKinds[text(&c[3], row)], c, row)
		h.name, h.class, h.depth = text(&c[4], row), text(&c[5], row), number(&c[6], row)
		return h
	},
}

var decodeFrees = decoder{
	columns(types.Field{Name: "arg0", Type: types.Bigint}),
	func(c []batch.Column, row int) event {
		h := at(freed, c, row)
		h.arg0 = uint64(c[3].Int[row])
		return h
	},
}

var decodeLoads = decoder{columns(), func(c []batch.Column, row int) event { return at(mapped, c, row) }}

// decodeUnloads decodes class names of a Java machine: they have slashes and no
// terminator; arg1 is their length.
var decodeUnloads = decoder{
	columns(types.Field{Name: "arg1", Type: types.Bigint}, types.Field{Name: classText, Type: types.Varchar}),
	func(c []batch.Column, row int) event {
		h := at(unloaded, c, row)
		name := text(&c[4], row)
		h.name = strings.ReplaceAll(name[:max(0, min(int(int32(number(&c[3], row))), len(name)))], "/", ".")
		return h
	},
}

// classText reads the name of a class. Longer names are cut, in calls of
// methods, too.
const classText = "str(arg0, 384)"

var decodeLockCalls = decoder{
	columns(types.Field{Name: "function_name", Type: types.Varchar}, types.Field{Name: "arg0", Type: types.Bigint}, types.Field{Name: "arg1", Type: types.Bigint}),
	func(c []batch.Column, row int) event {
		h := at(locking, c, row)
		h.name, h.arg0, h.arg1 = text(&c[3], row), uint64(c[4].Int[row]), uint64(c[5].Int[row])
		return h
	},
}

var decodeLockReturns = decoder{
	columns(types.Field{Name: "function_name", Type: types.Varchar}, types.Field{Name: "retval", Type: types.Bigint}),
	func(c []batch.Column, row int) event {
		h := at(locked, c, row)
		h.name, h.result = text(&c[3], row), int32(number(&c[4], row))
		return h
	},
}
