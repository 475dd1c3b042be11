package graph_test

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators"
	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/graph"
	"endoscope/operators/optest"
	"endoscope/operators/optest/seeds"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// The property of two-stage aggregation: whatever a source aggregates itself, in how many
// pieces and how late, and whatever it sends as rows, the result equals that of the rows.

func stagesAgree(t *rapid.T) {
	root, in := optest.RandomAggregate(t), optest.RandomInput(t)
	e := fast{stages: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "stages"), 0)), merged: &mergedRows}
	if rapid.Bool().Draw(t, "sparse") {
		e.sparse = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	}
	// A source that aggregates does not compute a column that the aggregate does not read,
	// so that column cannot fail.
	unread := strings.Contains(optest.Tree(root), "project ")
	if diff := optest.Check(e, root, in); diff != "" && !(unread && strings.HasPrefix(diff, "no error, but the oracle has one")) {
		t.Fatalf("%s\n%s", diff, caseText(offer(root), in))
	}
}

var mergedRows int // partial rows that were merged

func TestStagesAgreeWithOracle(t *testing.T) {
	mergedRows = 0
	seeds.Check(t, 20, stagesAgree)
	if mergedRows < 1000 {
		t.Errorf("only %d partial rows were merged", mergedRows)
	}
}

// FuzzStages looks for splits that change the result.
func FuzzStages(f *testing.F) { f.Fuzz(rapid.MakeFuzz(stagesAgree)) }

// offer assigns acquisitions the first stage of the aggregates above.
func offer(root plan.Node) plan.Node {
	return plan.TransformNodes(root, func(n plan.Node) plan.Node {
		if a, ok := n.(*plan.Aggregate); ok {
			if b := offerTo(a); b != nil {
				return b
			}
		}
		return n
	})
}

// offerTo handles window, project and filter over the acquisition, in this order, each
// optional.
func offerTo(a *plan.Aggregate) plan.Node {
	in := a.Input
	w, windowed := in.(*plan.Window)
	pane := plan.WindowSpec{}.Size
	if windowed {
		in, pane = w.Input, w.Spec.Size
		if w.Spec.Kind == plan.Hop {
			pane = w.Spec.Slide // of which Size is a multiple
		}
	}
	columns := len(in.Schema().Fields)
	over := func(e plan.Expr) plan.Expr { return e }
	p, projected := in.(*plan.Project)
	if projected {
		in = p.Input
		over = func(e plan.Expr) plan.Expr {
			return plan.Transform(e, func(x plan.Expr) plan.Expr {
				if c, ok := x.(*plan.Col); ok {
					return p.Exprs[c.Index]
				}
				return x
			})
		}
	}
	var cond plan.Expr
	if f, ok := in.(*plan.Filter); ok {
		in, cond = f.Input, f.Cond
	}
	leaf, ok := in.(*plan.Acquire)
	if !ok || windowed && w.Spec.Kind == plan.Session {
		return nil
	}
	below := true
	each := func(e plan.Expr) plan.Expr {
		plan.Walk(e, func(x plan.Expr) {
			c, ok := x.(*plan.Col)
			below = below && !(ok && c.Index >= columns)
		})
		if !below || e == nil {
			return nil
		}
		return over(e)
	}
	var keys []plan.Expr
	start, end := a.Borders()
	for i, k := range a.Keys {
		if i != start && i != end {
			keys = append(keys, each(k))
		}
	}
	aggs := slices.Clone(a.Aggs)
	for i := range aggs {
		aggs[i].Args = slices.Clone(aggs[i].Args)
		for j := range aggs[i].Args {
			aggs[i].Args[j] = each(aggs[i].Args[j])
		}
		aggs[i].Filter = each(aggs[i].Filter)
	}
	if !below {
		return nil
	}
	c := *leaf
	if c.Partial, ok = plan.NewKernelPartial(keys, aggs, pane); !ok {
		return nil
	}
	c.Filter = cond
	n := plan.Node(&c)
	if projected {
		n = p.WithInputs([]plan.Node{n})
	}
	if windowed {
		n = w.WithInputs([]plan.Node{n})
	}
	return a.WithInputs([]plan.Node{n})
}

// splitter is placed between a leaf and its source: it forwards some rows, and converts
// others to partial rows, at once or before the next signal.
type splitter struct {
	leaf   graph.Leaf
	rng    *rand.Rand
	merged *int
	kept   [][]types.Value // to be aggregated
	mark   int64           // the watermark
	// folder is the first stage. One is used for all rows, because folders differ in what
	// they reject.
	folder func(*plan.Acquire, [][]types.Value) ([][]types.Value, error)
}

// counts reports whether partial rows have a row count.
func (s *splitter) counts() bool {
	return slices.ContainsFunc(s.leaf.Acquire.Partial.Aggs, func(f plan.Agg) bool { return f.Star && f.Filter == nil })
}

func (s *splitter) push(ctx context.Context, rows [][]types.Value, pass func([][]types.Value) (operators.Status, error)) (operators.Status, error) {
	for len(rows) > 0 {
		n := 1 + s.rng.IntN(len(rows))
		st, err := s.run(ctx, rows[:n], pass)
		if st != operators.More || err != nil {
			return st, err
		}
		rows = rows[n:]
	}
	return operators.More, nil
}

// run handles rows in one of the ways.
func (s *splitter) run(ctx context.Context, rows [][]types.Value, pass func([][]types.Value) (operators.Status, error)) (operators.Status, error) {
	late := slices.ContainsFunc(rows, func(vs []types.Value) bool { return vs[s.leaf.Acquire.Out.Time].I < s.mark })
	if len(rows) > 1 && late && !s.counts() { // each must be counted
		for i := range rows {
			if st, err := s.run(ctx, rows[i:i+1], pass); st != operators.More || err != nil {
				return st, err
			}
		}
		return operators.More, nil
	}
	way := s.rng.IntN(3)
	if way == 0 {
		return pass(rows)
	}
	partial, err := s.fold(rows)
	switch {
	case err != nil: // a source need not aggregate everything
		return pass(rows)
	case late && !s.counts() && len(partial) > 1:
		// The group and a bucket of it have separate rows: only COUNT(*) shows that they
		// are of one event.
		return pass(rows)
	case way == 1 && !late:
		s.kept = append(s.kept, rows...)
		return operators.More, nil
	}
	return s.give(ctx, partial)
}

// collect emits the kept rows, before a signal.
func (s *splitter) collect(ctx context.Context) error {
	if len(s.kept) == 0 {
		return nil
	}
	partial, err := s.fold(s.kept)
	if err != nil {
		return err // each row could be aggregated before
	}
	s.kept = nil
	_, err = s.give(ctx, partial)
	return err
}

// fold aggregates rows at once, or in pieces that are merged before they are emitted.
func (s *splitter) fold(rows [][]types.Value) ([][]types.Value, error) {
	p := s.leaf.Acquire.Partial
	if s.folder == nil {
		s.folder = fold
		if s.rng.IntN(2) == 0 {
			s.folder = foldByFirstStage
		}
	}
	var pieces []*batch.Batch
	for rest := rows; len(rest) > 0; {
		n := len(rest)
		if s.rng.IntN(2) == 0 {
			n = 1 + s.rng.IntN(n)
		}
		partial, err := s.folder(s.leaf.Acquire, rest[:n])
		if err != nil {
			return nil, err
		}
		if n == len(rows) {
			return partial, nil
		}
		for part := range slices.Chunk(partial, batch.MaxRows) {
			b := batch.New(p.Out.Types())
			for _, vs := range part {
				b.AppendRow(vs...)
			}
			pieces = append(pieces, b)
		}
		rest = rest[n:]
	}
	var out [][]types.Value
	for _, b := range agg.MergePartials(p, pieces) {
		for i := range b.N {
			vs := make([]types.Value, len(b.Cols))
			for c := range vs {
				vs[c] = b.Cols[c].Value(i)
			}
			out = append(out, vs)
		}
	}
	return out, nil
}

func (s *splitter) give(ctx context.Context, rows [][]types.Value) (st operators.Status, err error) {
	s.rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	*s.merged += len(rows)
	for len(rows) > 0 && st == operators.More && err == nil {
		b := batch.New(s.leaf.Acquire.Partial.Out.Types())
		n := min(1+s.rng.IntN(len(rows)), batch.MaxRows)
		for _, vs := range rows[:n] {
			b.AppendRow(vs...)
		}
		st, err = s.leaf.Partial.Push(ctx, 0, b)
		b.Release()
		rows = rows[n:]
	}
	return st, err
}

// fold is a naive first stage: it returns the partial rows for rows of a's columns.
func fold(a *plan.Acquire, rows [][]types.Value) ([][]types.Value, error) {
	b := batch.New(a.Out.Types())
	for _, vs := range rows {
		b.AppendRow(vs...)
	}
	eval := func(e plan.Expr) ([]types.Value, error) {
		p, err := expr.Compile(e, a.Out.Types())
		if err != nil {
			return nil, err
		}
		c, err := p.Eval(b)
		if err != nil {
			return nil, err
		}
		vs := make([]types.Value, len(rows))
		for i := range vs {
			vs[i] = c.Value(i)
		}
		return vs, nil
	}
	holds := func(e plan.Expr) (map[int]bool, error) {
		all := map[int]bool{}
		if e == nil {
			for i := range rows {
				all[i] = true
			}
			return all, nil
		}
		vs, err := eval(e)
		for i, v := range vs {
			all[i] = !v.IsNull && v.I != 0
		}
		return all, err
	}
	type group struct {
		pane types.Value
		key  []types.Value
		rows []int
	}
	groups := map[string]*group{}
	var order []*group
	passes, err := holds(a.Filter)
	if err != nil {
		return nil, err
	}
	var keys [][]types.Value
	for _, k := range a.Partial.Keys {
		vs, err := eval(k)
		if err != nil {
			return nil, err
		}
		keys = append(keys, vs)
	}
	for i, vs := range rows {
		if !passes[i] {
			continue
		}
		g := &group{pane: vs[a.Out.Time]}
		if pane := int64(a.Partial.Pane); pane > 0 {
			g.pane.I -= (g.pane.I%pane + pane) % pane
		} else {
			g.pane.I -= 5
		}
		for _, k := range keys {
			g.key = append(g.key, k[i])
		}
		name := fmt.Sprint(g.key)
		if a.Partial.Pane > 0 {
			name += fmt.Sprint(g.pane)
		}
		if groups[name] == nil {
			groups[name], order = g, append(order, g)
		}
		groups[name].rows = append(groups[name].rows, i)
	}
	states := make([]func([]int) [][]int64, len(a.Partial.Aggs))
	for i := range a.Partial.Aggs {
		f := &a.Partial.Aggs[i]
		counts, err := holds(f.Filter)
		if err != nil {
			return nil, err
		}
		args := make([]types.Value, len(rows))
		if len(f.Args) > 0 {
			if args, err = eval(f.Args[0]); err != nil {
				return nil, err
			}
		}
		states[i] = func(group []int) [][]int64 {
			var vs []types.Value
			var times []int64
			for _, r := range group {
				if counts[r] && !args[r].IsNull {
					vs, times = append(vs, args[r]), append(times, rows[r][a.Out.Time].I)
				}
			}
			return statesOf(f, vs, times)
		}
	}
	var out [][]types.Value
	for _, g := range order {
		var of [][][]int64
		n := 1
		for _, s := range states {
			of = append(of, s(g.rows))
			n = max(n, len(of[len(of)-1]))
		}
		for i := range n { // one row, or one for each value or bucket
			row := append([]types.Value{g.pane}, g.key...)
			for j, s := range of {
				fields, _ := plan.StateFields(&a.Partial.Aggs[j])
				for k, f := range fields {
					v := types.Int(-77) // meaningless where n is 0
					switch {
					case i < len(s):
						v.I = s[i][k]
					case f.Name == "n":
						v.I = 0
					}
					if f.Type == types.Bytes { // samples come singly
						v = types.NullOf(types.Bytes)
					}
					row = append(row, v)
				}
			}
			out = append(out, row)
		}
	}
	return out, nil
}

// statesOf returns the states of an aggregate over values, in the layout of
// plan.StateFields.
func statesOf(f *plan.Agg, vs []types.Value, times []int64) (states [][]int64) {
	n := int64(len(vs))
	if n == 0 {
		return nil
	}
	sum, squares := new(big.Int), new(big.Int)
	first, last, least, most := 0, 0, 0, 0
	buckets := map[int64]int64{}
	for i, v := range vs {
		x := optest.Whole(v)
		sum.Add(sum, x)
		squares.Add(squares, new(big.Int).Mul(x, x))
		if times[i] < times[first] || times[i] == times[first] && optest.Order(v, vs[first]) < 0 {
			first = i
		}
		if times[i] > times[last] || times[i] == times[last] && optest.Order(v, vs[last]) > 0 {
			last = i
		}
		if optest.Order(v, vs[least]) < 0 {
			least = i
		}
		if optest.Order(v, vs[most]) > 0 {
			most = i
		}
	}
	one := func(words ...int64) [][]int64 { return [][]int64{words} }
	switch f.Fn {
	case "count", "rate":
		return one(n)
	case "sum", "avg":
		return one(word(sum, 0), word(sum, 1), n)
	case "stddev", "variance":
		return one(word(sum, 0), word(sum, 1), n, word(squares, 0), word(squares, 1), word(squares, 2))
	case "min":
		return one(vs[least].I, n)
	case "max":
		return one(vs[most].I, n)
	case "first":
		return one(times[first], vs[first].I, n)
	case "last":
		return one(times[last], vs[last].I, n)
	}
	if f.Fn != "histogram" {
		for _, v := range vs {
			w := v.Type.Key(v.I)
			states = append(states, []int64{w, w, 1, 0})
		}
		return states
	}
	for _, v := range vs {
		buckets[agg.Bucket(f, v)]++
	}
	for b, n := range buckets {
		states = append(states, []int64{b, n})
	}
	slices.SortFunc(states, func(x, y []int64) int { return cmp.Compare(x[0], y[0]) })
	return states
}

// word is 64 bits of a number in two's complement, from bit 64·i on.
func word(x *big.Int, i uint) int64 {
	w := new(big.Int).Rsh(x, 64*i)
	w.And(w, new(big.Int).SetUint64(1<<64-1))
	return int64(w.Uint64())
}
