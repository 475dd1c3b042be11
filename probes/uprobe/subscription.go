package uprobe

import (
	"math"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/stack"
)

// label is what a query calls a probed function.
type label struct {
	function, class, module string
	exe                     string // "" unless the module is an executable itself
}

// about is what the columns of methods say of a function.
type about struct {
	lineage uint32 // code
	known   bool   // the lineage
	size    int64
	native  bool
}

// codes are a label in the dictionaries of a subscription's columns.
type codes struct{ function, class, module, exe uint32 }

// subscription makes rows of one query's events. The reader owns it from
// subscribe to unsubscribe; before and after, its source does.
type subscription struct {
	sink     probes.Sink
	cols     []column
	options  uint32
	offset   int64 // from the boot clock to the epoch
	lateness int64 // how far watermarks stay behind the clock, ns
	exes     *exeNames
	groups   *exeNames // containers
	in       *installation

	labels []codes // by function
	values *readings
	// receivers is nil where nothing is asked of objects and methods; then there
	// are no methods.
	receivers *receivers
	methods   []about     // by function with a probe
	shares    [][]share   // by function with a probe; nil where nothing is inferred
	events    [256]uint32 // codes of names of events, by initial
	// stacks is nil where no callers are asked for; torn counts stacks that are not
	// whole, by why.
	stacks *stack.Stacks
	torn   map[string]uint64
	pool   *batch.Pool
	b      *batch.Batch

	// shared is the sink, if that wants to know when the rows' calls began.
	shared probes.SharedSink
	java   *methods // nil: of functions that were known beforehand
	begun  []int64  // of b's rows, ns since the epoch

	percpu    []bpf.FunctionCounters
	told      bpf.FunctionCounters // to the sink
	divisions divisions
	mark      int64 // last watermark sent
	bound     int64 // boot time from which aggregates are still to be given
}

func newSubscription(s []types.Type, w wants, sink probes.Sink, offset int64, exes *exeNames, in *installation) *subscription {
	sub := &subscription{sink: sink, cols: w.cols, options: w.options, offset: offset, exes: exes, in: in, pool: batch.NewPool(s), bound: math.MaxInt64}
	for i, c := range w.cols {
		if d := sub.pool.Dict(i); d != nil && c == colUnread {
			d.Code("") // what its rows have
		}
	}
	if sub.options&atReturn != 0 {
		sub.shared, _ = sink.(probes.SharedSink)
	}
	sub.nameEvents()
	return sub
}

// name gives function id its label. Called before the subscription is the
// reader's: dictionaries have one writer at a time.
func (s *subscription) name(id uint32, l label) {
	for uint32(len(s.labels)) <= id {
		s.labels = append(s.labels, codes{})
	}
	var c codes
	for i, col := range s.cols {
		switch col {
		case colFunction:
			c.function = s.pool.Dict(i).Code(l.function)
		case colClass:
			c.class = s.pool.Dict(i).Code(l.class)
		case colModule:
			c.module = s.pool.Dict(i).Code(l.module)
		case colExe:
			c.exe = s.pool.Dict(i).Code(l.exe)
		}
	}
	s.labels[id] = c
}

// add makes the event a row, and as many of the functions whose calls follow.
func (s *subscription) add(e *event) {
	if s.java != nil && !s.java.tells(e, len(s.labels)) {
		return
	}
	s.row(e, &s.labels[e.function])
	if s.shares == nil {
		return
	}
	for _, f := range s.shares[e.function] {
		for range f.times {
			s.row(e, &s.labels[f.function])
		}
	}
}

// row makes a row of the event, as one of the function that l names.
func (s *subscription) row(e *event, l *codes) {
	if s.b == nil {
		s.b = s.pool.Get()
	}
	b := s.b
	var object received
	if s.options&sendReceiver != 0 && e.kind != gapInitial {
		object = s.receivers.of(e)
	}
	for i, col := range s.cols {
		c := &b.Cols[i]
		switch col {
		case colUnread:
			switch {
			case c.Dict != nil:
				c.Code = append(c.Code, 0)
			case c.Type == types.Boolean:
				c.Bool = append(c.Bool, false)
			case c.Type == types.List:
				c.Any = append(c.Any, nil)
			case c.Type == types.Double:
				c.Float = append(c.Float, 0)
			default:
				c.Int = append(c.Int, 0)
			}
		case colTime:
			c.Int = append(c.Int, int64(e.Time)+s.offset)
		case colPID:
			c.Int = append(c.Int, int64(e.Pid))
		case colTID:
			c.Int = append(c.Int, int64(e.Tid))
		case colEvent:
			c.Code = append(c.Code, s.events[e.kind])
		case colFunction:
			c.Code = append(c.Code, l.function)
		case colClass:
			c.Code = append(c.Code, l.class)
		case colModule:
			c.Code = append(c.Code, l.module)
		case colProcess:
			c.Code = append(c.Code, c.Dict.CodeBytes(e.process))
		case colThread:
			c.Code = append(c.Code, c.Dict.CodeBytes(e.thread))
		case colExe:
			s.addExe(c, b.N, e.Pid, l.exe)
		case colContainer:
			s.addContainer(c, b.N, e.Pid)
		case colStart:
			c.Int = append(c.Int, int64(e.start)+s.offset)
		case colDuration:
			c.Int = append(c.Int, int64(e.Time-e.start))
		case colSelf:
			c.Int = append(c.Int, int64(e.self))
		case colAddress:
			c.Int = append(c.Int, int64(e.address))
		case colSize:
			if e.size == noSize {
				c.Nulls.Set(b.N)
				e.size = 0
			}
			c.Int = append(c.Int, int64(e.size))
		case colCaller:
			s.addCaller(c, b.N, e)
		case colStack:
			if e.kind == gapInitial || e.kind == eventUnwind[0] {
				c.Nulls.Set(b.N)
				c.Any = append(c.Any, nil)
				continue
			}
			c.Any = append(c.Any, s.stackOf(e))
		case colValue:
			s.addValue(c, b.N, s.values.columns[i], e)
		case colRetval:
			if e.Function&(1<<(firstAbsent+retvalSlot)) != 0 {
				c.Nulls.Set(b.N)
				e.retval = 0
			}
			c.Int = append(c.Int, int64(e.retval))
		case colDepth:
			c.Int = append(c.Int, int64(e.Depth))
		case colFrame:
			c.Int = append(c.Int, int64(e.frame))
		case colGoroutine:
			if e.goroutine == 0 {
				c.Nulls.Set(b.N)
			}
			c.Int = append(c.Int, int64(e.goroutine))
		case colCPUTime, colReadBytes, colWrittenBytes:
			n := int64(e.cost[col-colCPUTime])
			if n == -1 {
				c.Nulls.Set(b.N)
			}
			c.Int = append(c.Int, max(n, 0))
		default:
			if col.aboutMethods() {
				s.addAbout(c, b.N, col, e, object)
				continue
			}
			c.Int = append(c.Int, int64(e.args[col-colArg0]))
		}
	}
	if e.kind == gapInitial {
		s.noFunction()
	}
	if s.shared != nil {
		s.begun = append(s.begun, int64(e.start)+s.offset)
	}
	b.N++
	if b.N == batch.MaxRows {
		s.flush()
	}
}

// addExe adds the executable of a process: what the label says where the
// function is the executable's own, else what /proc says or said, else NULL.
func (s *subscription) addExe(c *batch.Column, row int, pid uint32, own uint32) {
	if c.Dict.Values()[own] != "" {
		c.Code = append(c.Code, own)
		return
	}
	exe := s.exes.of(int(pid))
	if exe == "" {
		c.Nulls.Set(row)
		c.Code = append(c.Code, own)
		return
	}
	c.Code = append(c.Code, c.Dict.Code(exe))
}

// addContainer adds the container of a process, NULL if it is not known: the
// process had ended when its first row was made.
func (s *subscription) addContainer(c *batch.Column, row int, pid uint32) {
	name := s.groups.of(int(pid))
	if name == "" {
		c.Nulls.Set(row)
	}
	c.Code = append(c.Code, c.Dict.Code(name))
}

// flush gives the rows collected so far to the sink.
func (s *subscription) flush() {
	b := s.b
	if b == nil {
		return
	}
	s.b = nil
	for i := range b.Cols {
		if c := &b.Cols[i]; c.Dict != nil {
			c.Values = c.Dict.Values()
		}
	}
	if s.shared != nil {
		s.shared.PushBegun(b, s.begun)
		s.begun = s.begun[:0]
	} else {
		s.sink.Push(b)
	}
	s.renew()
}

// dictLimit is when a column's strings move to a new dictionary: texts of calls
// and names of processes are without end.
const dictLimit = 1 << 16

// renew begins new dictionaries where those of the rows so far are large. No row
// is under way.
func (s *subscription) renew() {
	for i, col := range s.cols {
		old := s.pool.Dict(i)
		if old == nil || old.Len() <= dictLimit || col.codedOnce() {
			continue
		}
		s.pool.Renew(i)
		if col == colExe {
			for l := range s.labels {
				s.labels[l].exe = s.pool.Dict(i).Code(old.Values()[s.labels[l].exe])
			}
		}
	}
}

// codedOnce reports whether the column's strings are coded before there are rows,
// or once for each function: they are no more than there are functions.
func (c column) codedOnce() bool {
	switch c {
	case colUnread, colEvent, colFunction, colClass, colModule, colClassLineage:
		return true
	}
	return false
}

// watermark promises that no event before the boot time t follows.
func (s *subscription) watermark(t int64) {
	if m := min(t, s.bound) + s.offset; m > s.mark {
		s.mark = m
		s.sink.Watermark(m)
	}
}

// give gives partial rows to the sink; those to come are of the boot time bound
// or later.
func (s *subscription) give(rows []*batch.Batch, bound int64) {
	for _, b := range rows {
		s.sink.Partial(b)
	}
	s.bound = bound
}

// account tells the sink of calls that gave no row and were not told of yet.
func (s *subscription) account() {
	c, err := s.in.counters(&s.percpu)
	if err != nil {
		return
	}
	s.in.sweeper.consider(c)
	inferred := ""
	if s.shares != nil {
		inferred = ", and what was inferred from them"
	}
	told := &s.told
	for _, n := range []struct {
		tell        func(cause string, n uint64)
		cause       string
		before, now uint64
	}{
		{s.sink.Lost, "ring buffer full" + inferred, told.Lost, c.Lost},
		{s.sink.Lost, "rate limit" + inferred, told.Limited, c.Limited},
		{s.sink.Lost, "no memory for calls in progress", told.Unstored, c.Unstored},
		{s.sink.Lost, "no room for calls in progress", told.Overflown, c.Overflown},
		{s.sink.Lost, "goroutine that could not be read", told.Missed, c.Missed},
		{s.sink.Lost, "too many methods of Java", told.Undefined, c.Undefined},
		{s.sink.Lost, "virtual threads of Java", told.Carried, c.Carried},
		{s.sink.Count, "no room for more groups in the kernel", told.Ungrouped, c.Ungrouped},
		{s.sink.Count, "foreign stack", told.Foreign, c.Foreign},
		{s.sink.Count, "stack not known", told.Unchecked, c.Unchecked},
		{s.sink.Count, "nesting", told.Nesting, c.Nesting},
		{s.sink.Count, "inherited", told.Inherited, c.Inherited},
		{s.sink.Count, "arguments that could not be read", told.Unreadable, c.Unreadable},
		{s.sink.Count, "text cut off at max_string", told.Cut, c.Cut},
		{s.sink.Count, "unsigned number above 9223372036854775807", told.TooLarge, c.TooLarge},
		{s.sink.Count, "texts not kept: too many calls under way", told.Unkept, c.Unkept},
	} {
		if n.now > n.before {
			n.tell(n.cause, n.now-n.before)
		}
	}
	s.told = c
	s.tellTorn()
}

// report accounts for the calls that gave no row, at the end.
func (s *subscription) report() {
	s.account()
	if n := s.between(0, 0); n > 0 {
		s.sink.Count(probes.Unfinished, n)
	}
}
