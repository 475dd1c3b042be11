package decode

import (
	"math"
	"slices"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/process"
	"endoscope/probes/rows"
	"endoscope/probes/stack"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/program"
)

// functionColumns holds the columns of methods that are constant per function.
type functionColumns struct {
	lineage uint32 // dictionary code
	known   bool   // whether the lineage is known
	size    int64
	native  bool
}

// codes are a label's codes in the dictionaries of a subscription's columns.
type codes struct {
	function, class, module, exe uint32
	inside                       bool
}

// Subscription makes rows of one query's events. The reader owns it from Subscribe to
// Unsubscribe; before and after, its source owns it.
type Subscription struct {
	Sink        probes.Sink
	cols        []calls.Column
	options     uint32
	offset      int64         // from the boot clock to the epoch
	Lateness    int64         // how far watermarks lag behind the clock, ns
	Seldom      time.Duration // how seldom the reader may wake for it; 0: it has events
	Executables *Names
	// ExeBefore returns the executable that a process had at a time of the boot clock, if it
	// has ended since; nil: it is not known.
	ExeBefore    func(pid int, at int64) string
	Installation *program.Installation
	// Contained is set if the target is a container: calls whose container is unknown are lost.
	Contained bool

	labels []codes // by function
	// receivers is nil where no column of objects or methods is requested; then
	// methods is empty.
	receivers *Receivers
	methods   []functionColumns // by function with a probe
	Shares    [][]calls.Share   // by function with a probe; nil where nothing is inferred
	events    [256]uint32       // codes of names of events, by initial
	// Stacks is nil where no callers are requested; torn counts incomplete stacks by
	// cause.
	Stacks *stack.Stacks
	torn   map[string]uint64
	rows   *rows.Writer[event]
	event  event // the event being decoded

	// shared is the sink, if it needs to know when the rows' calls began.
	shared   probes.SharedSink
	Reported *methods // nil: the functions were known beforehand
	begun    []int64  // when the calls of the rows not pushed yet began, ns since the epoch

	percpu    []bpf.FunctionCounters
	reported  bpf.FunctionCounters // the counts last reported to the sink
	divisions divisions
	mark      int64 // last watermark sent
	Bound     int64 // boot time from which aggregates are not yet delivered
}

func NewSubscription(s []types.Type, w calls.Request, sink probes.Sink, offset int64, exes *Names, in *program.Installation) *Subscription {
	sub := &Subscription{Sink: sink, cols: w.Cols, options: w.Options, offset: offset, Executables: exes, Installation: in, Bound: math.MaxInt64}
	sub.event.contextWords = w.ContextWords
	sub.rows = rows.NewWriter(s, appendersOf(w, s), offset)
	sub.rows.Push, sub.rows.Renewed = sub.push, sub.recode
	if sub.options&abi.AtReturn != 0 {
		sub.shared, _ = sink.(probes.SharedSink)
	}
	sub.nameEvents()
	return sub
}

// Name assigns function id its label. It must be called before the reader owns the
// subscription: a dictionary has one writer at a time.
func (s *Subscription) Name(id uint32, l calls.Label) {
	for uint32(len(s.labels)) <= id {
		s.labels = append(s.labels, codes{})
	}
	c := codes{inside: l.Inside}
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

// add makes a row of the event, and a row for each call inferred from it.
func (s *Subscription) add(e *event) {
	if s.Reported != nil && !s.Reported.includes(e, len(s.labels)) {
		return
	}
	s.row(e, &s.labels[e.function])
	if s.Shares == nil {
		return
	}
	for _, f := range s.Shares[e.function] {
		for range f.Times {
			s.row(e, &s.labels[f.Function])
		}
	}
}

// row makes a row of the event, with the function of label l.
func (s *Subscription) row(e *event, l *codes) {
	e.subscription, e.label, e.named = s, *l, s.events[e.kind]
	if e.kind == gapInitial { // a gap belongs to the thread, not to a function
		e.label = codes{function: rows.Null, class: rows.Null, module: rows.Null, exe: l.exe}
		e.object = received{}
	} else if s.options&abi.SendReceiver != 0 {
		e.object = s.receivers.Object(e)
	}
	if s.shared != nil {
		s.begun = append(s.begun, int64(e.start)+s.offset)
	}
	if s.Contained && process.ContainerOf(int(e.Pid)) == nil {
		s.Sink.Lost("calls of processes that had ended before their container was looked up", 1)
	}
	s.rows.Add(e)
}

// Flush passes the rows collected so far to the sink.
func (s *Subscription) Flush() { s.rows.Flush() }

// push passes a batch of rows to the sink.
func (s *Subscription) push(b *batch.Batch) {
	if s.shared == nil {
		s.Sink.Push(b)
		return
	}
	s.shared.PushBegun(b, s.begun)
	s.begun = s.begun[:0]
}

// recode renews the codes stored per function when a column has a new dictionary.
func (s *Subscription) recode(i int, old, now *batch.Dict) {
	if s.cols[i] == calls.ColExe {
		for l := range s.labels {
			s.labels[l].exe = now.Code(old.Values()[s.labels[l].exe])
		}
	}
}

// watermark promises that no event before the boot time t follows.
func (s *Subscription) watermark(t int64) {
	if m := min(t, s.Bound) + s.offset; m > s.mark {
		s.mark = m
		s.Sink.Watermark(m)
	}
}

// PushPartial passes partial rows to the sink; later rows have the boot time bound or later.
func (s *Subscription) PushPartial(rows []*batch.Batch, bound int64) {
	for _, b := range rows {
		s.Sink.Partial(b)
	}
	s.Bound = bound
}

// Causes of what an acquisition counts that follows a context.
const (
	ContextsLost     = "no room for another one"
	ContextsUnclosed = "left at a gap in the calls"
	TextCut          = "text cut off at max_string"
)

// Account reports to the sink the calls that produced no row and are not reported yet.
func (s *Subscription) Account() {
	c, err := s.Installation.Counters(&s.percpu)
	if err != nil {
		return
	}
	s.Installation.Sweeper.Consider(c)
	inferred := ""
	if s.Shares != nil {
		inferred = ", and what was inferred from them"
	}
	reported := &s.reported
	for _, n := range []struct {
		count       func(cause string, n uint64)
		cause       string
		before, now uint64
	}{
		{s.Sink.Lost, "ring buffer full" + inferred, reported.Lost, c.Lost},
		{s.Sink.Lost, "rate limit" + inferred, reported.Limited, c.Limited},
		{s.Sink.Lost, "no memory for calls in progress", reported.Unstored, c.Unstored},
		{s.Sink.Lost, "no room for calls in progress", reported.Overflown, c.Overflown},
		{s.Sink.Lost, "goroutine that could not be read", reported.Missed, c.Missed},
		{s.Sink.Lost, "too many coroutines", reported.Unlisted, c.Unlisted},
		{s.Sink.Lost, s.Reported.tooMany(), reported.Undefined, c.Undefined},
		{s.Sink.Lost, "virtual threads of Java", reported.Carried, c.Carried},
		{s.Sink.Lost, ContextsLost, reported.Unopened, c.Unopened},
		{s.Sink.Lost, ContextsUnclosed, reported.Unclosed, c.Unclosed},
		{s.Sink.Count, "no room for more groups in the kernel", reported.Ungrouped, c.Ungrouped},
		{s.Sink.Count, "foreign stack", reported.Foreign, c.Foreign},
		{s.Sink.Count, "stack not known", reported.Unchecked, c.Unchecked},
		{s.Sink.Count, "nesting", reported.Nesting, c.Nesting},
		{s.Sink.Count, "inherited", reported.Inherited, c.Inherited},
		{s.Sink.Count, "arguments that could not be read", reported.Unreadable, c.Unreadable},
		{s.Sink.Count, "calls that waited for memory", reported.Waited, c.Waited},
		{s.Sink.Count, "milliseconds of waiting for memory", reported.Waiting / 1e6, c.Waiting / 1e6},
		{s.Sink.Count, TextCut, reported.Cut, c.Cut},
		{s.Sink.Count, "unsigned number above 9223372036854775807", reported.TooLarge, c.TooLarge},
		{s.Sink.Count, probes.Unobserved, reported.Children, c.Children},
		{s.Sink.Count, "child processes not followed: too many run", reported.Unfollowed, c.Unfollowed},
		{s.Sink.Count, "child processes not followed after a change of user", reported.Hidden, c.Hidden},
		{s.Sink.Count, "texts not kept: too many calls under way", reported.Unkept, c.Unkept},
	} {
		if n.now > n.before {
			n.count(n.cause, n.now-n.before)
		}
	}
	s.reported = c
	s.reportIncomplete()
}

// report accounts for the calls that produced no row, at the end.
func (s *Subscription) report() {
	s.Account()
	if n := s.Between(0, 0); n > 0 {
		s.Sink.Count(probes.Unfinished, n)
	}
}

// CloseStacks releases the unwinder's modules. The reader must hold no events of s any
// more.
func (s *Subscription) CloseStacks() {
	if s != nil && s.Stacks != nil {
		s.Stacks.Close()
		s.Stacks = nil
	}
}

// reportIncomplete reports incomplete stacks to the sink.
func (s *Subscription) reportIncomplete() {
	if s.Stacks != nil {
		for notice, n := range s.Stacks.Missing() {
			s.Sink.Count(notice, n)
		}
	}
	var causes []string
	for why := range s.torn {
		causes = append(causes, why)
	}
	slices.Sort(causes)
	for _, why := range causes {
		s.Sink.Count(why, s.torn[why])
	}
	clear(s.torn)
}
