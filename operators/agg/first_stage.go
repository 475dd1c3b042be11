package agg

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// FirstStage executes the first stage of an aggregate over rows, for sites that
// have only rows: its output goes to a [Leaf].Partial elsewhere. Emit returns what
// was folded and then drops it, so that each row is in exactly one state.
type FirstStage struct {
	p    *plan.Partial
	a    *Aggregate
	time int  // column of event time, by which panes are formed; -1 if there are no panes
	some bool // rows were folded since the last output

	merged *mergedStates // where it folds states, not rows
}

// NewFirstStage returns p's first stage over rows of a schema.
func NewFirstStage(p *plan.Partial, in types.Schema) (*FirstStage, error) {
	return NewFirstStageAt(0, p, in)
}

// NewFirstStageAt returns p's first stage at an origin. Sequences and entities of
// different origins are different, even if they have the same names; without
// other origins it is 0.
func NewFirstStageAt(origin uint64, p *plan.Partial, in types.Schema) (*FirstStage, error) {
	s := &FirstStage{p: p, time: -1}
	node := &plan.Aggregate{Input: &plan.Acquire{Stream: plan.FragmentStream, Out: in}, Aggs: p.Aggs}
	if p.Pane > 0 {
		s.time = in.Time
		node.Keys = append(node.Keys, paneOf(in, int64(p.Pane)))
	}
	node.Keys = append(node.Keys, p.Keys...)
	for _, k := range node.Keys {
		node.Out.Fields = append(node.Out.Fields, types.Field{Name: k.String(), Type: k.Type()})
	}
	for i := range p.Aggs {
		node.Out.Fields = append(node.Out.Fields, types.Field{Name: p.Aggs[i].String(), Type: p.Aggs[i].T})
	}
	node.Out.Time = -1
	var err error
	if s.a, err = New(node, nowhere{}, &operators.Options{}); err != nil {
		return nil, err
	}
	s.a.stage, s.a.origin = true, origin
	s.a.all, err = s.a.newSet()
	return s, err
}

// paneOf returns an expression for the beginning of a row's pane: the largest
// multiple of pane that is not greater than the row's time.
func paneOf(in types.Schema, pane int64) plan.Expr {
	t := plan.Expr(&plan.Col{Index: in.Time, Name: in.Fields[in.Time].Name, T: in.Fields[in.Time].Type})
	if t.Type() != types.Bigint {
		t = &plan.Cast{X: t, T: types.Bigint}
	}
	call := func(fn string, a, b plan.Expr) plan.Expr {
		return &plan.Call{Fn: fn, Args: []plan.Expr{a, b}, T: types.Bigint}
	}
	size := &plan.Const{V: types.Int(pane)}
	// % has the sign of the dividend.
	above := call("%", call("+", call("%", t, size), size), size)
	return call("-", t, above)
}

// Accepts reports whether the first stage can fold the rows of b: it cannot if
// windows are required and rows have no time.
func (s *FirstStage) Accepts(b *batch.Batch) bool {
	return s.time < 0 || len(b.Cols[s.time].Nulls) == 0 || !b.Cols[s.time].Nulls.Any()
}

// Push folds rows.
func (s *FirstStage) Push(ctx context.Context, b *batch.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	if err := s.a.eval(b); err != nil {
		return err
	}
	s.some = true
	return s.a.fold(ctx, s.a.all, b, batch.RowsOf(b))
}

// Groups returns the number of groups that have states.
func (s *FirstStage) Groups() int { return s.a.all.table.Len() }

// Held estimates the bytes of the states that grow with their values.
func (s *FirstStage) Held() int64 { return s.a.held }

// Emit calls push with the partial rows of all rows folded since the last call,
// and drops them. Groups are in the order of first appearance. push releases the
// batches.
func (s *FirstStage) Emit(push func(*batch.Batch) error) error {
	if !s.some {
		return nil
	}
	defer s.Forget()
	groups := s.a.all
	for from := 0; from < groups.table.Len(); from += batch.MaxRows {
		n := min(groups.table.Len()-from, batch.MaxRows)
		for i := range n {
			s.a.ids[i] = uint32(from + i)
		}
		if err := push(s.states(s.a.ids[:n], -1, nil)); err != nil {
			return err
		}
	}
	for i, acc := range groups.accs {
		counts, ok := counterOf(acc)
		if !ok {
			continue
		}
		entries := counts.counted()
		for from := 0; from < len(entries); from += batch.MaxRows {
			part := entries[from:min(from+batch.MaxRows, len(entries))]
			for k, e := range part {
				s.a.ids[k] = e.group
			}
			if err := push(s.states(s.a.ids[:len(part)], i, part)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Forget drops all states.
func (s *FirstStage) Forget() {
	s.a.all.reset()
	s.a.all.grow()
	s.a.held, s.some = 0, false
	for _, k := range s.a.keys {
		if k.Space != nil {
			k.Space.Reset()
		}
	}
}

// states returns partial rows of groups: all states except those of counters or,
// if only is a counter, its entries.
func (s *FirstStage) states(groups []uint32, only int, entries []pair) *batch.Batch {
	b := batch.New(s.p.Out.Types())
	b.N = len(groups)
	keys := b.Cols[1 : 1+len(s.p.Keys)]
	k := 0
	if s.p.Pane > 0 {
		s.a.all.table.Output(0, groups, &b.Cols[0])
		k = 1
	} else if s.merged != nil {
		s.merged.appendTimes(&b.Cols[0], groups)
	} else {
		appendSame(&b.Cols[0], 0, len(groups))
	}
	for i := range keys {
		if keys[i].Type.Physical() == types.PhysCode {
			keys[i].Dict = batch.NewDict()
		}
		s.a.all.table.Output(k+i, groups, &keys[i])
	}
	appendStateColumns(s.p, s.a.all.accs, s.merged, groups, b.Cols[1+len(keys):], only, entries)
	return b
}

// appendStateColumns appends the states of groups: all but those of counters, or the
// entries of counter number only. m is not nil if the states were merged.
func appendStateColumns(p *plan.Partial, accs []fold.Accumulator, m *mergedStates, groups []uint32, cols []batch.Column, only int, entries []pair) {
	for i, acc := range accs {
		fields, _ := plan.StateFields(&p.Aggs[i])
		state := cols[:len(fields)]
		cols = cols[len(fields):]
		st, whole := acc.(fold.Stater)
		switch {
		case only == i:
			for _, e := range entries {
				state[0].Int, state[1].Int = append(state[0].Int, int64(e.word)), append(state[1].Int, e.count)
			}
		case only < 0 && whole:
			st.States(groups, state)
			if m != nil {
				m.setCounts(i, groups, state)
			}
		default: // nothing was folded in
			for c := range state {
				appendNothing(&state[c], len(groups))
			}
		}
	}
}

// appendNothing appends n undefined values.
func appendNothing(c *batch.Column, n int) {
	if c.Type.Physical() == types.PhysInt {
		appendSame(c, 0, n)
		return
	}
	for i := range n {
		c.Append(i, types.NullOf(c.Type))
	}
}

// counter is an accumulator that is not a Stater: its state is the number of
// occurrences of words.
type counter interface{ counted() []pair }

func (p *pairs) counted() []pair { return p.entries }

// counterOf returns acc as a counter; false if it is a Stater, whose states are
// complete.
func counterOf(acc fold.Accumulator) (counter, bool) {
	if _, whole := acc.(fold.Stater); whole {
		return nil, false
	}
	c, ok := acc.(counter)
	return c, ok
}

// nowhere discards its input.
type nowhere struct{}

func (nowhere) Push(context.Context, int, *batch.Batch) (operators.Status, error) {
	return operators.More, nil
}

func (nowhere) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	return operators.More, nil
}

func (nowhere) Close(context.Context, int) error { return nil }
