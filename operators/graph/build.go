package graph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"endoscope/operators"
	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/operators/join"
	"endoscope/operators/sort"
	"endoscope/operators/window"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Leaf is the entry of the rows of an acquisition: the runner of its source calls Op with
// Port. Every Tick is sent to every leaf, with the same Time.
type Leaf struct {
	Acquire *plan.Acquire
	Op      operators.Operator
	Port    int
	// Partial receives, on port 0, the partial rows that the source may also produce; nil
	// if Acquire.Partial is. It is only pushed to: signals and Close are sent to Op and
	// apply to both.
	Partial operators.Operator
}

// Graph is an executable plan. One goroutine at a time drives it.
type Graph struct {
	// Leaves are in the order of plan.Leaves.
	Leaves []Leaf
	// Standing are the leaves of plan.Values that are Standing: they get no rows, but
	// signals like other leaves, and Close when the query ends.
	Standing []Leaf
	// Stats has one entry per node, in the order of EXPLAIN, with Options.Stats; nil
	// without.
	Stats []*Stats

	values     []*values
	inserts    []*insert
	aggregates []*agg.Aggregate
}

// HasPrecision reports whether the query ends when its results are known well enough.
func (g *Graph) HasPrecision() bool {
	return slices.ContainsFunc(g.aggregates, (*agg.Aggregate).HasPrecision)
}

// Precision returns how well the results are known of the aggregates that HasPrecision is about.
func (g *Graph) Precision() (p agg.Precision, err error) {
	for _, a := range g.aggregates {
		if !a.HasPrecision() {
			continue
		}
		q, err := a.Precision()
		if err != nil {
			return p, err
		}
		p.Add(q)
	}
	return p, nil
}

// Armed sets the time when the query was armed, ns since the epoch, if Options.Start was
// not known. It is called before the first batch or signal.
func (g *Graph) Armed(at int64) {
	for _, a := range g.aggregates {
		a.Start = at
	}
}

// StartValues pushes the rows of the plan's constant relations and closes them. It is
// called once, before or after the sources start.
func (g *Graph) StartValues(ctx context.Context) error {
	for _, v := range g.values {
		if err := v.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Abandon releases what the graph holds outside memory (the file of an INSERT). It is for
// queries that end without closing their leaves, after an error; after a full Close it does
// nothing.
func (g *Graph) Abandon() error {
	var errs []error
	for _, f := range g.inserts {
		errs = append(errs, f.failed(f.abandon()))
	}
	return errors.Join(errs...)
}

// Build creates the operators of a plan; sink receives the root's rows on port 0. A
// sub-plan that is used twice (one pointer) is built once. An unsupported plan is a
// *plan.Error. Nothing is opened or started.
func Build(root plan.Node, sink operators.Operator, o *operators.Options) (*Graph, error) {
	opts := *o
	if opts.OpenFile == nil {
		opts.OpenFile = func(path string) (io.WriteCloser, error) { return os.Create(path) }
	}
	if opts.MemoryLimit == 0 {
		opts.MemoryLimit = operators.DefaultMemoryLimit
	}
	b := &builder{o: &opts, g: &Graph{}, uses: map[plan.Node]int{}, partials: map[*plan.Acquire]operators.Operator{},
		consumers: map[plan.Node][]operators.Operator{}, stats: map[plan.Node]*Stats{}}
	b.survey(root)
	b.tracked = plan.Tracked(root)
	b.noPreview = previewIsFinal(root, false)
	if err := b.build(root, sink, nil); err != nil {
		return nil, err
	}
	order := plan.Leaves(root)
	slices.SortFunc(b.g.Leaves, func(x, y Leaf) int {
		return slices.Index(order, x.Acquire) - slices.Index(order, y.Acquire)
	})
	return b.g, nil
}

type builder struct {
	o         *operators.Options
	g         *Graph
	uses      map[plan.Node]int
	consumers map[plan.Node][]operators.Operator // of shared nodes, until all are known
	stats     map[plan.Node]*Stats
	partials  map[*plan.Acquire]operators.Operator // the operator that merges an acquisition's partial rows
	noPreview bool                                 // a preview would change later results
	tracked   map[*plan.Acquire]bool               // acquisitions whose events CONSISTENT tracks
}

// survey counts the uses of each node and creates their statistics.
func (b *builder) survey(n plan.Node) {
	b.uses[n]++
	if b.uses[n] > 1 {
		return
	}
	if b.o.Stats {
		b.stats[n] = &Stats{Node: n}
		b.g.Stats = append(b.g.Stats, b.stats[n])
	}
	for _, in := range n.Inputs() {
		b.survey(in)
	}
}

// build creates n and everything below it. down is n's consumer, and to its statistics.
func (b *builder) build(n plan.Node, down operators.Operator, to *Stats) error {
	if b.uses[n] > 1 {
		all := append(b.consumers[n], b.measure(down, nil, to))
		b.consumers[n] = all
		if len(all) < b.uses[n] {
			return nil
		}
		down, to = newTee(all), nil
	}
	st := b.stats[n]
	op, err := b.operator(n, b.measure(down, st, to))
	if err != nil {
		return err
	}
	ins := n.Inputs()
	for i, in := range ins {
		consumer := op
		if len(ins) > 1 {
			consumer = onPort{op, i}
			if j, ok := n.(*plan.Join); ok && b.o.Tap != nil {
				if t := b.o.Tap(j, i); t != nil {
					consumer = tapped{consumer, *t, in.Schema().Time}
				}
			}
		}
		if err := b.build(in, consumer, st); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) measure(op operators.Operator, from, to *Stats) operators.Operator {
	if from == nil && to == nil {
		return op
	}
	return measured{op, from, to}
}

func (b *builder) operator(n plan.Node, down operators.Operator) (operators.Operator, error) {
	limit := b.o.MemoryLimit
	switch n := n.(type) {
	case *plan.Acquire:
		return nil, b.leaf(n, down)
	case *plan.Values:
		if n.Standing {
			b.g.Standing = append(b.g.Standing, Leaf{Op: down})
			return nil, nil
		}
		b.g.values = append(b.g.values, newValues(n, down, b.stats[n]))
		return nil, nil
	case *plan.Filter:
		return newFilter(n.Cond, n.Input.Schema().Types(), down)
	case *plan.Project:
		return newProject(n, down)
	case *plan.Window:
		return window.New(n, down, limit)
	case *plan.Aggregate:
		a, err := agg.New(n, down, b.o)
		if err != nil {
			return nil, err
		}
		b.g.aggregates = append(b.g.aggregates, a)
		return a, b.merge(n, a)
	case *plan.Distinct:
		return newDistinct(n, down, limit), nil
	case *plan.Consistent:
		return newConsistent(n, down, limit), nil
	case *plan.Sort:
		return sort.New(n, down, limit)
	case *plan.Limit:
		return newLimit(n, down), nil
	case *plan.Union:
		return newUnion(n, down, limit), nil
	case *plan.Join:
		return join.New(n, down, b.o)
	case *plan.Insert:
		f, err := newInsert(n, down, b.o.OpenFile)
		if err == nil {
			b.g.inserts = append(b.g.inserts, f)
		}
		return f, err
	}
	return nil, fmt.Errorf("no operator for %s", n.Describe())
}

// merge prepares an aggregate for the partial rows of its acquisition, if there may be any.
// They bypass the operators between the two, except a window: their panes are assigned to
// windows as rows are.
func (b *builder) merge(n *plan.Aggregate, a *agg.Aggregate) error {
	leaf, win := n.FirstStage()
	if leaf == nil {
		return nil
	}
	m, err := agg.NewPartials(a, leaf.Partial)
	if err != nil {
		return err
	}
	from := plan.Node(leaf)
	if win != nil {
		from = win
	}
	op := b.measure(m, b.stats[from], b.stats[n])
	if win != nil {
		if op, err = window.New(windowOfPanes(win, leaf.Partial.Out), op, b.o.MemoryLimit); err != nil {
			return err
		}
		op = b.measure(op, b.stats[leaf], b.stats[win])
	}
	b.partials[leaf] = b.measure(op, nil, b.stats[leaf])
	return nil
}

// windowOfPanes returns a window over partial rows, by their panes.
func windowOfPanes(w *plan.Window, in types.Schema) *plan.Window {
	borders := w.Out.Fields[len(w.Out.Fields)-2:]
	spec := w.Spec
	spec.Time = 0 // plan.PaneColumn
	return &plan.Window{Spec: spec, Out: types.Schema{Fields: slices.Concat(in.Fields, borders)}}
}

// leaf ends a chain with the entry for a source.
func (b *builder) leaf(n *plan.Acquire, down operators.Operator) error {
	op := down
	cond := n.Filter
	if b.o.Residual != nil {
		cond = b.o.Residual(n)
	}
	if cond != nil {
		f, err := newFilter(cond, n.Out.Types(), down)
		if err != nil {
			return err
		}
		op = f
	}
	if b.noPreview {
		op = noPreview{op}
	}
	if n.Partial != nil && (b.partials[n] == nil || b.uses[n] > 1) {
		return fmt.Errorf("no operator merges the partial rows of %s", n.Describe())
	}
	leaf := Leaf{Acquire: n, Op: b.measure(op, nil, b.stats[n]), Partial: b.partials[n]}
	if !b.tracked[n] {
		leaf = reportingOf(leaf)
	}
	b.g.Leaves = append(b.g.Leaves, leaf)
	return nil
}

// noPreview drops Ticks that ask for a preview.
type noPreview struct{ operators.Operator }

func (p noPreview) Signal(ctx context.Context, port int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Tick && s.Preview {
		return operators.More, nil
	}
	return p.Operator.Signal(ctx, port, s)
}

// previewIsFinal reports whether some node above one that answers a preview would treat
// its rows as final: an INSERT would write them, an aggregate add them, DISTINCT drop them
// when they come again. kept means that a node above n keeps its input beyond Flush.
func previewIsFinal(n plan.Node, kept bool) bool {
	answers := false
	switch n := n.(type) {
	case *plan.Insert:
		kept = true
	case *plan.Aggregate:
		answers = !n.Windowed && n.Emit.Mode != plan.Changes
	case *plan.Sort:
		answers = !sort.Flushes(n.Input)
	}
	if kept && answers {
		return true
	}
	switch n := n.(type) {
	case *plan.Aggregate, *plan.Window, *plan.Join:
		kept = true
	case *plan.Distinct:
		kept = kept || !n.PerFlush
	case *plan.Limit:
		kept = kept || !n.PerFlush
	}
	return slices.ContainsFunc(n.Inputs(), func(in plan.Node) bool { return previewIsFinal(in, kept) })
}

// onPort forwards to one port of an operator with several, for producers that only know
// port 0.
type onPort struct {
	op   operators.Operator
	port int
}

func (p onPort) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	return p.op.Push(ctx, p.port, b)
}

func (p onPort) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	return p.op.Signal(ctx, p.port, s)
}

func (p onPort) Close(ctx context.Context, _ int) error { return p.op.Close(ctx, p.port) }
