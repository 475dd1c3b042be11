package handlerstream

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"endoscope/operators/batch"
	"endoscope/operators/handlers"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/rows"
	"endoscope/probes/stack"
)

// Stream is the stream of this file, computed from samples of stacks.
const Stream = catalog.EventHandlers

// handlersSampling is the sampling interval of stacks.
const handlersSampling = 10 * time.Millisecond

// handlerTable builds the rows of the stream.
var handlerTable = rows.NewTable(Stream, rows.Columns[handlerRow]{
	"timestamp":  rows.Word(func(r *handlerRow) *int64 { return &r.at }),
	"handler":    rows.String(func(r *handlerRow) string { return r.Function }),
	"module":     rows.String(func(r *handlerRow) string { return r.Module }),
	"kind":       rows.String(func(r *handlerRow) string { return r.Kind.String() }),
	"node_type":  rows.Text(func(r *handlerRow) string { return r.Node }),
	"samples":    rows.Word(func(r *handlerRow) *uint64 { return &r.Samples }),
	"confidence": rows.RealOr(func(r *handlerRow) (float64, bool) { return r.Confidence, true }),
})

// handlerRow is a handler found by an analysis.
type handlerRow struct {
	at int64
	handlers.Handler
}

// Provider finds event handlers in the stacks that another provider samples.
type Provider struct {
	Stacks  probes.Provider
	Forgets bool // handlers seen longer ago than SET handler_memory are dropped
}

func (p *Provider) Streams() []string { return []string{Stream} }

func (p *Provider) Close() error { return nil }

func (p *Provider) Prepare(ctx context.Context, spec *plan.Acquire) (probes.Source, error) {
	if spec.Every <= 0 && !spec.OnDemand {
		return nil, plan.Errorf(spec.Start, spec.Stop, "%s has a value at every instant and cannot be read tuple by tuple", Stream).
			WithHint("SAMPLE(%s, 5s)", Stream)
	}
	samples := *spec
	samples.Stream, samples.Every, samples.OnDemand = stack.Stream, handlersSampling, false
	samples.Out = types.Schema{Time: -1, Fields: []types.Field{
		{Name: "state", Type: types.Varchar}, {Name: "stack", Type: types.List}, {Name: "syscall", Type: types.Varchar}}}
	samples.Filter, samples.FilterOnly, samples.Partial = nil, nil, nil
	in, err := p.Stacks.Prepare(ctx, &samples)
	if err != nil {
		return nil, inTermsOf(stack.Stream, spec.Stream, err)
	}
	h := &handlersSource{stacks: in, settings: handlers.Settings(spec.Settings.Handlers), filter: spec.Filter, every: int64(spec.Every), onDemand: spec.OnDemand}
	if p.Forgets {
		h.trie.Span = int64(spec.Settings.HandlerMemory)
	}
	if h.rows, err = handlerTable.Writer(spec, 0); err != nil {
		return nil, err
	}
	return h, nil
}

// inTermsOf returns an error about a stream as one about another that needs it.
func inTermsOf(from, stream string, err error) error {
	var refused *plan.Error
	if errors.As(err, &refused) {
		if rest, ok := strings.CutPrefix(refused.Msg, from+" "); ok {
			refused.Msg = stream + " " + rest
		}
	}
	return err
}

// handlersSource accumulates the stacks of a source in a trie and delivers the
// handlers found in it. It is the sink of that source.
type handlersSource struct {
	stacks   probes.Source
	filter   plan.Expr
	settings handlers.Settings
	every    int64 // ns between analyses; 0: on demand
	onDemand bool
	rows     *rows.Writer[handlerRow]

	mu     sync.Mutex // guards the following, and the use of sink
	sink   probes.Sink
	trie   handlers.Recent
	frames handlers.Reader
	due    int64
	now    int64  // the last watermark
	looked uint64 // samples
	found  bool   // any handler
	fresh  bool   // there were samples since the last analysis
	over   bool
}

// Info implements probes.Source. Sites, notices and refusal are those of the
// stacks. The source is not shared or gated, although the stacks could be: its
// result depends on all samples since its start.
func (h *handlersSource) Info() probes.Info {
	of := h.stacks.Info()
	return probes.Info{Sites: of.Sites, Notices: of.Notices, Refusal: of.Refusal, Residual: h.filter, Live: of.Live, OnDemand: h.onDemand}
}

// Load implements probes.Source: it is forwarded to the stacks.
func (h *handlersSource) Load(ctx context.Context, _ probes.Options) error {
	return h.stacks.Load(ctx, probes.Options{})
}

func (h *handlersSource) Start(ctx context.Context, sink probes.Sink, _ probes.Options) error {
	h.mu.Lock()
	h.sink, h.rows.Push = sink, sink.Push
	h.mu.Unlock()
	return h.stacks.Start(ctx, h, probes.Options{})
}

// Control implements probes.Source. Sample is handled here: it delivers the
// handlers found so far. All other commands are refused, see Info.
func (h *handlersSource) Control(_ context.Context, c probes.Command) (probes.Reply, error) {
	if _, ok := c.(probes.Sample); !ok || !h.onDemand {
		return probes.Unsupported(c)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sink != nil && !h.over {
		h.emit(h.now)
	}
	return probes.Reply{}, nil
}

// Stats implements probes.Source. Samples of stacks are no events of its rows, but cost.
func (h *handlersSource) Stats() probes.Stats { return probes.Stats{Spent: h.stacks.Stats().Spent} }

// Stop implements probes.Source. The source ends when the stacks end.
func (h *handlersSource) Stop() error { return h.stacks.Stop() }

// Push accumulates stacks.
func (h *handlersSource) Push(b *batch.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range b.Len() {
		row := b.Row(i)
		frames, _ := b.Cols[1].Any[row].([]types.Value)
		h.looked++
		h.trie.Add(h.frames.Frames(frames), handlers.StateOf(textAt(b, 0, row), textAt(b, 2, row)))
	}
	h.fresh = true
	b.Release()
}

// textAt is a cell of a VARCHAR column; "" where it is NULL.
func textAt(b *batch.Batch, col, row int) string {
	c := &b.Cols[col]
	if c.Nulls.Get(row) {
		return ""
	}
	return c.Values[c.Code[row]]
}

// Partial is not called: no aggregate is pushed down to the stacks.
func (h *handlersSource) Partial(b *batch.Batch) { b.Release() }

// Watermark triggers the analyses of the trie.
func (h *handlersSource) Watermark(t int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = t
	h.trie.Advance(t)
	if h.due == 0 {
		h.due = t + h.every
	}
	if h.every > 0 && t >= h.due {
		h.emit(t)
		h.due += (t - h.due + h.every) / h.every * h.every
	}
	h.sink.Watermark(t)
}

func (h *handlersSource) Lost(cause string, n uint64) { h.locked(func() { h.sink.Count(cause, n) }) }

func (h *handlersSource) Count(cause string, n uint64) { h.locked(func() { h.sink.Count(cause, n) }) }

func (h *handlersSource) locked(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

// End delivers the handlers found since the last analysis.
func (h *handlersSource) End(err error) {
	h.locked(func() {
		if h.every > 0 && h.fresh && err == nil {
			h.emit(h.now)
		}
		h.over = true
		if !h.found && h.looked > 0 {
			h.sink.Count("samples of stacks, in which no event handler was found", h.looked)
		}
		h.sink.End(err)
	})
}

// emit pushes a row for each handler.
func (h *handlersSource) emit(t int64) {
	h.fresh = false
	for _, found := range h.trie.Analyse(h.settings) {
		h.found = true
		h.rows.Put(handlerRow{t, found})
	}
	h.rows.Flush()
}
