package uprobe

import (
	"math"
	"slices"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/rows"
	"endoscope/probes/stack"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/program"
)

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
	cols     []calls.Column
	options  uint32
	offset   int64 // from the boot clock to the epoch
	lateness int64 // how far watermarks stay behind the clock, ns
	exes     *exeNames
	groups   *exeNames // containers
	in       *program.Installation

	labels []codes // by function
	// receivers is nil where nothing is asked of objects and methods; then there
	// are no methods.
	receivers *receivers
	methods   []about         // by function with a probe
	shares    [][]calls.Share // by function with a probe; nil where nothing is inferred
	events    [256]uint32     // codes of names of events, by initial
	// stacks is nil where no callers are asked for; torn counts stacks that are not
	// whole, by why.
	stacks *stack.Stacks
	torn   map[string]uint64
	rows   *rows.Writer[event]
	event  event // that is being read

	// shared is the sink, if that wants to know when the rows' calls began.
	shared probes.SharedSink
	java   *methods // nil: of functions that were known beforehand
	begun  []int64  // of the rows not pushed yet, ns since the epoch

	percpu    []bpf.FunctionCounters
	told      bpf.FunctionCounters // to the sink
	divisions divisions
	mark      int64 // last watermark sent
	bound     int64 // boot time from which aggregates are still to be given
}

func newSubscription(s []types.Type, w calls.Request, sink probes.Sink, offset int64, exes *exeNames, in *program.Installation) *subscription {
	sub := &subscription{sink: sink, cols: w.Cols, options: w.Options, offset: offset, exes: exes, in: in, bound: math.MaxInt64}
	sub.rows = rows.NewWriter(s, appendersOf(w, s), offset)
	sub.rows.Push, sub.rows.Renewed = sub.push, sub.recode
	if sub.options&abi.AtReturn != 0 {
		sub.shared, _ = sink.(probes.SharedSink)
	}
	sub.nameEvents()
	return sub
}

// name gives function id its label. Called before the subscription is the
// reader's: dictionaries have one writer at a time.
func (s *subscription) name(id uint32, l calls.Label) {
	for uint32(len(s.labels)) <= id {
		s.labels = append(s.labels, codes{})
	}
	var c codes
	for i, col := range s.cols {
		switch col {
		case calls.ColFunction:
			c.function = s.rows.Code(i, l.Function)
		case calls.ColClass:
			c.class = s.rows.Code(i, l.Class)
		case calls.ColModule:
			c.module = s.rows.Code(i, l.Module)
		case calls.ColExe:
			c.exe = s.rows.Code(i, l.Exe)
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
		for range f.Times {
			s.row(e, &s.labels[f.Function])
		}
	}
}

// row makes a row of the event, as one of the function that l names.
func (s *subscription) row(e *event, l *codes) {
	e.of, e.label, e.named = s, *l, s.events[e.kind]
	if e.kind == gapInitial { // it is the thread's
		e.label = codes{function: rows.Null, class: rows.Null, module: rows.Null, exe: l.exe}
		e.object = received{}
	} else if s.options&abi.SendReceiver != 0 {
		e.object = s.receivers.of(e)
	}
	if s.shared != nil {
		s.begun = append(s.begun, int64(e.start)+s.offset)
	}
	s.rows.Add(e)
}

// Flush gives the rows collected so far to the sink.
func (s *subscription) Flush() { s.rows.Flush() }

// push gives the sink a batch of rows.
func (s *subscription) push(b *batch.Batch) {
	if s.shared == nil {
		s.sink.Push(b)
		return
	}
	s.shared.PushBegun(b, s.begun)
	s.begun = s.begun[:0]
}

// recode codes what is coded once for each function again, when a column has a new
// dictionary.
func (s *subscription) recode(i int, old, now *batch.Dict) {
	if s.cols[i] == calls.ColExe {
		for l := range s.labels {
			s.labels[l].exe = now.Code(old.Values()[s.labels[l].exe])
		}
	}
}

// watermark promises that no event before the boot time t follows.
func (s *subscription) watermark(t int64) {
	if m := min(t, s.bound) + s.offset; m > s.mark {
		s.mark = m
		s.sink.Watermark(m)
	}
}

// Give gives partial rows to the sink; those to come are of the boot time bound
// or later.
func (s *subscription) Give(rows []*batch.Batch, bound int64) {
	for _, b := range rows {
		s.sink.Partial(b)
	}
	s.bound = bound
}

// Account tells the sink of calls that gave no row and were not told of yet.
func (s *subscription) Account() {
	c, err := s.in.Counters(&s.percpu)
	if err != nil {
		return
	}
	s.in.Sweeper.Consider(c)
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
	s.Account()
	if n := s.between(0, 0); n > 0 {
		s.sink.Count(probes.Unfinished, n)
	}
}

// closeStacks lets go of what stacks are made with, when the reader has none of s's
// events any more.
func (s *subscription) closeStacks() {
	if s != nil && s.stacks != nil {
		s.stacks.Close()
		s.stacks = nil
	}
}

// tellTorn tells the sink of stacks that are not whole.
func (s *subscription) tellTorn() {
	var causes []string
	for why := range s.torn {
		causes = append(causes, why)
	}
	slices.Sort(causes)
	for _, why := range causes {
		s.sink.Count(why, s.torn[why])
	}
	clear(s.torn)
}
