package graph_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/graph"
	"endoscope/operators/optest"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// planOf is the [optest.Planner] of these tests: every stream of the input is
// a file.
func planOf(statement string, in *optest.Input) (plan.Node, error) {
	env := &planner.Env{Views: definitions.NewViews(), Eval: expr.EvalConst,
		File: func(path string) (types.Schema, error) {
			s, ok := in.Relations[path]
			if !ok {
				return s, plan.Errorf(0, 0, "there is no file '%s'", path)
			}
			return s, nil
		}}
	st, err := parser.Parse(statement)
	if err != nil {
		return nil, err
	}
	var q *plan.Query
	switch st := st.(type) {
	case *parser.Query:
		q, err = planner.Plan(st, statement, env)
	case *parser.Insert:
		q, err = planner.PlanInsert(st, statement, env)
	default:
		return nil, fmt.Errorf("%T has no plan", st)
	}
	if err != nil {
		return nil, err
	}
	return q.Root, nil
}

// fast runs plans with the operators under test.
type fast struct {
	// sparse hides the rows between others that do not count, with values that
	// would show, and gives batches dictionaries of their own at random.
	sparse *rand.Rand
	// stages makes the sources fold rows themselves, where the plan allows it,
	// and counts the partial rows in merged.
	stages *rand.Rand
	merged *int
}

// Run implements optest.Engine.
func (f fast) Run(root plan.Node, in *optest.Input) (*optest.Output, error) {
	ctx := context.Background()
	out := &optest.Output{}
	if f.stages != nil {
		root = offer(root)
	}
	files := map[string]*file{}
	g, err := graph.Build(root, collector{out}, &operators.Options{Start: in.Start,
		OpenFile: func(path string) (io.WriteCloser, error) {
			files[path] = &file{}
			return files[path], nil
		}})
	if err != nil {
		return out, err
	}
	err = f.drive(ctx, g, in, out)
	if err != nil {
		g.Abandon()
	}
	for path, w := range files {
		if out.Files == nil {
			out.Files = map[string]string{}
		}
		out.Files[path] = w.String()
	}
	return out, err
}

func (f fast) drive(ctx context.Context, g *graph.Graph, in *optest.Input, out *optest.Output) error {
	if err := g.StartValues(ctx); err != nil {
		return err
	}
	feeds := make([]*feed, len(g.Leaves))
	for i, l := range g.Leaves {
		name := optest.StreamOf(l.Acquire)
		feeds[i] = &feed{leaf: l, name: name, out: out, columns: optest.Columns(l.Acquire, in.Relations[name]),
			pool: batch.NewPool(l.Acquire.Out.Types()), sparse: f.sparse}
		if l.Partial != nil {
			feeds[i].split = &splitter{leaf: l, rng: f.stages, merged: f.merged, mark: math.MinInt64}
		}
	}
	for _, step := range in.Steps {
		for _, fd := range feeds {
			if step.Stream != fd.name && step.Kind != optest.Tick && step.Kind != optest.Preview {
				continue
			}
			if err := fd.step(ctx, step); err != nil {
				return err
			}
		}
	}
	for _, fd := range feeds {
		if err := fd.close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// feed is one leaf's source.
type feed struct {
	leaf            graph.Leaf
	name            string
	out             *optest.Output
	columns         []int
	pool            *batch.Pool
	sparse          *rand.Rand
	split           *splitter // nil: rows only
	drained, closed bool
}

func (fd *feed) step(ctx context.Context, s optest.Step) error {
	if fd.drained || fd.closed {
		return nil
	}
	var st operators.Status
	var err error
	switch s.Kind {
	case optest.End:
		return fd.close(ctx)
	case optest.Rows:
		rows := fd.acquired(s.Rows)
		if fd.split != nil {
			st, err = fd.split.push(ctx, rows, func(rows [][]types.Value) (operators.Status, error) { return fd.push(ctx, rows) })
		} else {
			st, err = fd.push(ctx, rows)
		}
	default:
		if err := fd.collect(ctx); err != nil {
			return err
		}
		if fd.split != nil && s.Kind == optest.Watermark {
			fd.split.mark = max(fd.split.mark, s.Time)
		}
		st, err = fd.leaf.Op.Signal(ctx, fd.leaf.Port, signalOf(s))
	}
	if st != operators.More {
		fd.drained = true
		fd.out.Drained = append(fd.out.Drained, fd.name)
	}
	return err
}

func signalOf(s optest.Step) operators.Signal {
	switch s.Kind {
	case optest.Watermark:
		return operators.Signal{Kind: operators.Watermark, Time: s.Time}
	case optest.Gap:
		return operators.Signal{Kind: operators.Gap, Cause: s.Cause, N: s.N}
	}
	return operators.Signal{Kind: operators.Tick, Time: s.Time, Preview: s.Kind == optest.Preview}
}

func (fd *feed) close(ctx context.Context) error {
	if fd.closed {
		return nil
	}
	fd.closed = true
	if err := fd.collect(ctx); err != nil {
		return err
	}
	return fd.leaf.Op.Close(ctx, fd.leaf.Port)
}

// acquired is rows with the leaf's columns alone.
func (fd *feed) acquired(rows [][]types.Value) [][]types.Value {
	out := make([][]types.Value, len(rows))
	for r, vs := range rows {
		for _, c := range fd.columns {
			out[r] = append(out[r], vs[c])
		}
	}
	return out
}

func (fd *feed) collect(ctx context.Context) error {
	if fd.split == nil {
		return nil
	}
	return fd.split.collect(ctx)
}

func (fd *feed) push(ctx context.Context, rows [][]types.Value) (operators.Status, error) {
	b := fd.pool.Get()
	defer b.Release()
	if fd.sparse != nil {
		b.Sel = []uint16{}
		if fd.sparse.IntN(2) == 0 {
			for i := range b.Cols {
				if b.Cols[i].Dict != nil {
					b.Cols[i].Dict = batch.NewDict()
				}
			}
		}
	}
	for _, vs := range rows {
		if fd.sparse != nil {
			for fd.sparse.IntN(3) == 0 && b.N < batch.MaxRows-len(rows) {
				b.AppendRow(fd.junk()...)
			}
			b.Sel = append(b.Sel, uint16(b.N))
		}
		b.AppendRow(vs...)
	}
	return fd.leaf.Op.Push(ctx, fd.leaf.Port, b)
}

// junk is a row that does not count.
func (fd *feed) junk() []types.Value {
	row := make([]types.Value, len(fd.columns))
	for i, f := range fd.leaf.Acquire.Out.Fields {
		row[i] = types.Value{Type: f.Type, S: "junk", F: -7.5e300, IsNull: fd.sparse.IntN(4) == 0}
		if row[i].I = -1 << 62; f.Type == types.Boolean {
			row[i].I = 1
		}
	}
	return row
}

// collector is the sink.
type collector struct{ out *optest.Output }

func (c collector) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	for i := range b.Len() {
		row := make([]types.Value, len(b.Cols))
		for j := range b.Cols {
			row[j] = b.Cols[j].Value(b.Row(i))
		}
		c.out.Add(row)
	}
	return operators.More, nil
}

func (c collector) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	switch s.Kind {
	case operators.Flush:
		c.out.Flush(s.Preview)
	case operators.Gap:
		c.out.Lose(s.Cause, s.N)
	}
	return operators.More, nil
}

func (c collector) Close(context.Context, int) error { return nil }

type file struct{ bytes.Buffer }

func (*file) Close() error { return nil }
