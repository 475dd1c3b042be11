package export

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/clock"
	"endoscope/server/flow"
)

// calls is the last operator of an export of spans: it makes a span of each call, with the
// call that encloses it on its thread, goroutine or coroutine as the parent.
type calls struct {
	plan  *planner.Export
	at    *planner.Spans
	to    interface{ addSpans([]*span) }
	tally *flow.Tally
	now   func() int64 // the clock of events

	sequences map[sequenceID]*sequence
	held      int // spans in all sequences
	ready     []*span
	swept     int64 // when spans that wait too long were looked for
}

// sequenceID names a thread, or a goroutine or coroutine: calls of one are nested.
type sequenceID struct {
	pid, id   int64
	goroutine bool
}

// sequence is the calls of one thread, goroutine or coroutine.
type sequence struct {
	// waiting are finished calls whose enclosing call has not been seen yet, in the order of
	// their ends. (function_duration)
	waiting []*span
	// open are the calls in progress, outermost first. (function_call)
	open []*span
}

func newCalls(p *planner.Export, to *sender, t *flow.Tally) *calls {
	return &calls{plan: p, at: p.Spans, to: to, tally: t, now: clock.Now, sequences: map[sequenceID]*sequence{}}
}

func (c *calls) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	for _, r := range batch.RowsOf(b) {
		row := int(r)
		id := sequenceID{pid: intAt(b, c.at.PID, row), id: intAt(b, c.at.TID, row)}
		if g := &b.Cols[c.at.Goroutine]; !g.Nulls.Get(row) {
			id.id, id.goroutine = g.Int[row], true
		}
		q := c.sequences[id]
		if q == nil {
			q = &sequence{}
			c.sequences[id] = q
		}
		if c.at.Events {
			c.event(q, b, row)
		} else {
			c.finished(q, c.span(b, row))
		}
		if len(q.waiting)+len(q.open) == 0 {
			delete(c.sequences, id)
		}
		if !c.at.Events && c.held > c.plan.Options.Queue {
			c.tally.AddNoted("calls that became spans without a parent: too many wait for it", uint64(c.release(func(*span) bool { return true })))
		}
	}
	c.send()
	return operators.More, nil
}

func intAt(b *batch.Batch, column, row int) int64 {
	if c := &b.Cols[column]; !c.Nulls.Get(row) {
		return c.Int[row]
	}
	return 0
}

// span makes a span of a row.
func (c *calls) span(b *batch.Batch, row int) *span {
	s := &span{pid: intAt(b, c.at.PID, row), depth: intAt(b, c.at.Depth, row), start: intAt(b, c.at.Start, row), end: intAt(b, c.at.End, row)}
	binary.BigEndian.PutUint64(s.id[:], rand.Uint64()|1)
	s.name = text(b, c.at.Name, row)
	if c.at.Trace >= 0 {
		s.key = text(b, c.at.Trace, row)
	}
	s.attrs = append(s.attrs, number64("thread.id", intAt(b, c.at.TID, row)))
	for _, l := range c.plan.Labels {
		if v := b.Cols[l.Column].Value(row); !v.IsNull {
			s.attrs = append(s.attrs, attributeOf(l.Name, v))
		}
	}
	return s
}

func text(b *batch.Batch, column, row int) string {
	return string(appendLabel(nil, &b.Cols[column], row))
}

// attributeOf returns a value as an attribute; durations are in ns.
func attributeOf(name string, v types.Value) *commonpb.KeyValue {
	switch v.Type.Physical() {
	case types.PhysInt:
		if v.Type != types.Timestamp && (v.I >= 0 || !v.Type.Unsigned()) { // OTLP has no unsigned numbers
			return number64(name, v.I)
		}
	case types.PhysFloat:
		return &commonpb.KeyValue{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v.F}}}
	case types.PhysBool:
		return &commonpb.KeyValue{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.I != 0}}}
	case types.PhysCode:
		return attribute(name, v.S)
	}
	return attribute(name, plan.FormatValue(v))
}

// finished adds a finished call: it encloses those that wait and began later. The outermost
// one completes a tree.
func (c *calls) finished(q *sequence, s *span) {
	i := len(q.waiting)
	for i > 0 && q.waiting[i-1].start >= s.start && q.waiting[i-1].depth > s.depth {
		i--
	}
	s.children = append(s.children, q.waiting[i:]...)
	clear(q.waiting[i:])
	q.waiting = append(q.waiting[:i], s)
	c.held++
	if s.depth == 0 {
		// What ended before it has no enclosing call that could still come.
		for _, w := range q.waiting {
			c.complete(w)
		}
		q.waiting = nil
	}
}

// complete makes the trees of one root ready to be sent.
func (c *calls) complete(root *span) {
	before := len(c.ready)
	c.ready = root.place(c.ready, nil)
	c.held -= len(c.ready) - before
	if len(c.ready) >= spansInRequest {
		c.send()
	}
}

// release makes finished calls that one function selects roots of trees, and returns how many
// of them have an enclosing call that was not seen.
func (c *calls) release(selected func(*span) bool) (orphans int) {
	for id, q := range c.sequences {
		kept := q.waiting[:0]
		for _, w := range q.waiting {
			if !selected(w) {
				kept = append(kept, w)
				continue
			}
			if w.depth > 0 {
				orphans++
			}
			c.complete(w)
		}
		clear(q.waiting[len(kept):])
		if q.waiting = kept; len(kept)+len(q.open) == 0 {
			delete(c.sequences, id)
		}
	}
	return orphans
}

// event adds an entry or a return.
func (c *calls) event(q *sequence, b *batch.Batch, row int) {
	depth := intAt(b, c.at.Depth, row)
	cut := 0
	leave := func(n int) { // the calls that are not the first n
		c.held -= len(q.open) - n
		clear(q.open[n:])
		q.open = q.open[:n]
	}
	unfinished := func(down int64) { // those deeper than this: their returns are missing
		n := len(q.open)
		for n > 0 && q.open[n-1].depth > down {
			n--
		}
		cut += len(q.open) - n
		leave(n)
	}
	switch event := text(b, c.at.Event, row); event {
	case "ENTER":
		unfinished(depth - 1)
		if c.held >= c.plan.Options.Queue {
			c.tally.AddLost("calls in progress beyond the queue", 1)
			break
		}
		s := c.span(b, row)
		var parent *span
		if n := len(q.open); n > 0 {
			parent = q.open[n-1]
		}
		s.join(parent, s.key)
		q.open = append(q.open, s)
		c.held++
	case "LEAVE", "UNWIND":
		unfinished(depth)
		n := len(q.open)
		if n == 0 || q.open[n-1].depth != depth {
			break // it began before the export
		}
		s := q.open[n-1]
		leave(n - 1)
		s.end = intAt(b, c.at.End, row)
		if event == "UNWIND" {
			s.attrs = append(s.attrs, attributeOf("unwound", types.Bool(true)))
		}
		c.ready = append(c.ready, s)
	case "GAP":
		unfinished(-1)
	}
	c.tally.AddLost("calls without a return, since events are missing", uint64(cut))
}

// send passes on the spans that are ready.
func (c *calls) send() {
	if len(c.ready) > 0 {
		c.to.addSpans(c.ready)
		c.ready = nil
	}
}

func (c *calls) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Gap {
		c.tally.AddLost(s.Cause, s.N)
	}
	if now := c.now(); now-c.swept > int64(c.plan.Options.Hold/4) {
		c.swept = now
		oldest := now - int64(c.plan.Options.Hold)
		c.orphans(c.release(func(s *span) bool { return s.end < oldest }))
		c.send()
	}
	return operators.More, nil
}

// orphans counts calls that became roots because the enclosing call did not end in time, or
// is not selected.
func (c *calls) orphans(n int) {
	c.tally.AddNoted("calls that became spans without a parent: "+time.Duration(c.plan.Options.Hold).String()+" after their end it was not there", uint64(n))
}

func (c *calls) Close(context.Context, int) error {
	c.orphans(c.release(func(*span) bool { return true }))
	c.send()
	return nil
}
