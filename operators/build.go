package operators

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Options of a graph.
type Options struct {
	// Start is when the query was armed, ns since the epoch: RATE counts from it.
	// Where that is not known yet, [Graph.Armed] says it.
	Start int64
	// Clock tells the time, ns since the epoch, by which RATE counts; nil: this
	// machine's.
	Clock func() int64
	// OpenFile opens the file of an INSERT; nil: os.Create.
	OpenFile func(path string) (io.WriteCloser, error)
	// Residual is what the source of a leaf leaves of the leaf's Filter, which
	// the graph tests; a nil function: everything.
	Residual func(*plan.Acquire) plan.Expr
	// Stats makes the graph measure itself; it costs two readings of the clock
	// per batch and node.
	Stats bool
	// MemoryLimit is how many bytes of rows one operator may hold before the
	// query ends with an error; 0: DefaultMemoryLimit.
	MemoryLimit int64
	// Demand returns what makes a source give the rows of its value, to its
	// leaf and before it returns (plan.Acquire.OnDemand).
	Demand func(*plan.Acquire) func(context.Context) error
	// Tap returns what is told of the rows that arrive at a port of a join; nil:
	// nobody is.
	Tap func(*plan.Join, int) *Tap
	// JoinMemory is how many bytes of rows one join may hold before it forgets
	// the oldest, which is counted; 0: DefaultJoinMemory.
	JoinMemory int64
	// EncoderBudget is how many bytes one encoder may hold, over all groups,
	// before it encodes no more, which its result says; 0: DefaultEncoderBudget.
	EncoderBudget int64
}

// DefaultMemoryLimit is what one operator may hold if nobody says otherwise.
const DefaultMemoryLimit = 512 << 20

// Leaf says where the rows of an acquisition go: whoever runs its source calls
// Op with Port. Every Tick goes to every leaf, with the same Time.
type Leaf struct {
	Acquire *plan.Acquire
	Op      Operator
	Port    int
	// Partial takes, on port 0, the partial rows that the source may give
	// besides; nil if Acquire.Partial is. It is only pushed to: signals and
	// Close go to Op and are for both.
	Partial Operator
}

// Graph is an executable plan. One goroutine at a time drives it.
type Graph struct {
	// Leaves are in the order of plan.Leaves.
	Leaves []Leaf
	// Standing are the leaves of plan.Values that are Standing: they get no rows,
	// but signals, as others, and Close when the query ends.
	Standing []Leaf
	// Stats are in the order of plan.Tree, one for each node, with
	// Options.Stats; nil without.
	Stats []*Stats

	values     []*values
	inserts    []*insert
	aggregates []*aggregate
}

// Armed says when the query was armed, ns since the epoch, where Options.Start could
// not. It is called before the graph is given anything.
func (g *Graph) Armed(at int64) {
	for _, a := range g.aggregates {
		a.start = at
	}
}

// StartValues pushes the rows of the plan's constant relations and closes
// them. It is called once, before or after the sources start.
func (g *Graph) StartValues(ctx context.Context) error {
	for _, v := range g.values {
		if err := v.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Abandon lets go of what the graph holds outside memory (the file of an
// INSERT). It is for queries that end without closing their leaves, after an
// error; after a full Close it does nothing.
func (g *Graph) Abandon() error {
	var errs []error
	for _, f := range g.inserts {
		errs = append(errs, f.failed(f.abandon()))
	}
	return errors.Join(errs...)
}

// Build makes the operators of a plan; sink gets the root's rows on port 0. A
// sub-plan that is used twice (one pointer) is built once. Refusals are
// *plan.Error. Nothing is opened or started.
func Build(root plan.Node, sink Operator, o *Options) (*Graph, error) {
	opts := *o
	if opts.OpenFile == nil {
		opts.OpenFile = func(path string) (io.WriteCloser, error) { return os.Create(path) }
	}
	if opts.MemoryLimit == 0 {
		opts.MemoryLimit = DefaultMemoryLimit
	}
	b := &builder{o: &opts, g: &Graph{}, uses: map[plan.Node]int{}, partials: map[*plan.Acquire]Operator{},
		consumers: map[plan.Node][]Operator{}, stats: map[plan.Node]*Stats{}}
	b.survey(root)
	b.tracked = plan.Tracked(root)
	b.noPreview = spoiledByPreview(root, false)
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
	o         *Options
	g         *Graph
	uses      map[plan.Node]int
	consumers map[plan.Node][]Operator // of shared nodes, until all are there
	stats     map[plan.Node]*Stats
	partials  map[*plan.Acquire]Operator // what merges an acquisition's partial rows
	noPreview bool                       // a preview would change what comes after it
	tracked   map[*plan.Acquire]bool     // whose events CONSISTENT keeps track of
}

// survey counts the uses of each node and makes their statistics.
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

// build makes n and everything below it. down is n's consumer, whose
// statistics are to.
func (b *builder) build(n plan.Node, down Operator, to *Stats) error {
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

func (b *builder) measure(op Operator, from, to *Stats) Operator {
	if from == nil && to == nil {
		return op
	}
	return measured{op, from, to}
}

func (b *builder) operator(n plan.Node, down Operator) (Operator, error) {
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
		return newWindow(n, down, limit)
	case *plan.Aggregate:
		a, err := newAggregate(n, down, b.o)
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
		return newSort(n, down, limit)
	case *plan.Limit:
		return newLimit(n, down), nil
	case *plan.Union:
		return newUnion(n, down, limit), nil
	case *plan.Join:
		return newJoin(n, down, b.o)
	case *plan.Insert:
		f, err := newInsert(n, down, b.o.OpenFile)
		if err == nil {
			b.g.inserts = append(b.g.inserts, f)
		}
		return f, err
	}
	return nil, fmt.Errorf("no operator for %s", n.Describe())
}

// merge prepares an aggregate for the partial rows of its acquisition, if that
// may give any. They pass by what lies between the two, but for a window: their
// panes lie in windows as rows do.
func (b *builder) merge(n *plan.Aggregate, a *aggregate) error {
	leaf, win := n.FirstStage()
	if leaf == nil {
		return nil
	}
	m, err := newPartials(a, leaf.Partial)
	if err != nil {
		return err
	}
	from := plan.Node(leaf)
	if win != nil {
		from = win
	}
	op := b.measure(m, b.stats[from], b.stats[n])
	if win != nil {
		if op, err = newWindow(windowOfPanes(win, leaf.Partial.Out), op, b.o.MemoryLimit); err != nil {
			return err
		}
		op = b.measure(op, b.stats[leaf], b.stats[win])
	}
	b.partials[leaf] = b.measure(op, nil, b.stats[leaf])
	return nil
}

// windowOfPanes is a window over partial rows, by their panes.
func windowOfPanes(w *plan.Window, in types.Schema) *plan.Window {
	borders := w.Out.Fields[len(w.Out.Fields)-2:]
	spec := w.Spec
	spec.Time = 0 // plan.PaneColumn
	return &plan.Window{Spec: spec, Out: types.Schema{Fields: slices.Concat(in.Fields, borders)}}
}

// leaf ends a chain with what a source feeds.
func (b *builder) leaf(n *plan.Acquire, down Operator) error {
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
		return fmt.Errorf("nothing merges what %s gives", n.Describe())
	}
	leaf := Leaf{Acquire: n, Op: b.measure(op, nil, b.stats[n]), Partial: b.partials[n]}
	if !b.tracked[n] {
		leaf = reportingOf(leaf)
	}
	b.g.Leaves = append(b.g.Leaves, leaf)
	return nil
}

// noPreview drops Ticks that ask for a preview.
type noPreview struct{ Operator }

func (p noPreview) Signal(ctx context.Context, port int, s Signal) (Status, error) {
	if s.Kind == Tick && s.Preview {
		return More, nil
	}
	return p.Operator.Signal(ctx, port, s)
}

// flushes reports whether a node's output is divided into results by Flush.
// Above such a node ORDER BY acts on Flush, elsewhere on Tick.
func flushes(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Aggregate:
		return n.Windowed || n.Emit.Mode != plan.Changes
	case *plan.Sort:
		return true
	case *plan.Window:
		if n.Hold {
			return true
		}
	case *plan.Join:
		return false
	}
	return slices.ContainsFunc(n.Inputs(), flushes)
}

// spoiledByPreview reports whether some node above one that answers a preview
// would take its rows for final ones: an INSERT would write them, an aggregate
// add them, DISTINCT know them when they come again. kept says that a node
// above n keeps what it gets beyond Flush.
func spoiledByPreview(n plan.Node, kept bool) bool {
	answers := false
	switch n := n.(type) {
	case *plan.Insert:
		kept = true
	case *plan.Aggregate:
		answers = !n.Windowed && n.Emit.Mode != plan.Changes
	case *plan.Sort:
		answers = !flushes(n.Input)
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
	return slices.ContainsFunc(n.Inputs(), func(in plan.Node) bool { return spoiledByPreview(in, kept) })
}
