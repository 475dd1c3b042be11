package expr

import (
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// translation caches the codes in an output's dictionary for the codes of another
// dictionary, for columns built from several inputs.
type translation struct {
	from, to *batch.Dict
	codes    []uint32 // by code of from: code of to plus 1; 0: not looked up yet
}

// code returns the code in d of row i of c, which is not NULL.
func (t *translation) code(d *batch.Dict, c *batch.Column, i int) uint32 {
	if c.Dict == nil {
		return d.Code(text(c, i))
	}
	if t.from != c.Dict || t.to != d {
		t.from, t.to = c.Dict, d
		clear(t.codes)
	}
	t.codes = grown(t.codes, len(c.Values))
	code := c.Code[i]
	if t.codes[code] == 0 {
		t.codes[code] = d.Code(c.Values[code]) + 1
	}
	return t.codes[code] - 1
}

// copyRow sets row i from the same row of a column of the same type.
func (o *output) copyRow(c *batch.Column, i int, t *translation) {
	if isNull(c, i) {
		o.setNull(i)
		return
	}
	switch o.col.Type.Physical() {
	case types.PhysBool:
		o.col.Bool[i] = c.Bool[i]
	case types.PhysInt:
		o.col.Int[i] = c.Int[i]
	case types.PhysFloat:
		o.col.Float[i] = c.Float[i]
	case types.PhysCode:
		o.col.Code[i] = t.code(o.col.Dict, c, i)
	case types.PhysAny:
		o.col.Any[i] = c.Any[i]
	}
}

// copyRows sets the rows r from a column of the same type.
func (o *output) copyRows(c *batch.Column, r rows, t *translation) {
	if !c.Nulls.Any() {
		switch o.col.Type.Physical() {
		case types.PhysBool:
			copyVector(o.col.Bool, c.Bool, r)
			return
		case types.PhysInt:
			copyVector(o.col.Int, c.Int, r)
			return
		case types.PhysFloat:
			copyVector(o.col.Float, c.Float, r)
			return
		}
	}
	for k := range r.len() {
		o.copyRow(c, r.at(k), t)
	}
}

// caseNode is CASE. Each condition is evaluated only for rows that no earlier condition
// matched, and each branch only for the rows its condition matched, so a condition can
// guard its branch against errors.
type caseNode struct {
	conds []predicate
	thens []node
	other node // nil: NULL
	out   output

	from       []translation // of each branch
	taken      []uint16
	marked     marks
	rest, swap []uint16
}

func (c *compiler) caseWhen(e *plan.Case) (node, error) {
	n := &caseNode{out: newOutput(e.T), from: make([]translation, len(e.Whens)+1)}
	for _, w := range e.Whens {
		cond, err := c.expr(w.Cond)
		if err != nil {
			return nil, err
		}
		then, err := c.expr(w.Then)
		if err != nil {
			return nil, err
		}
		n.conds, n.thens = append(n.conds, asPredicate(cond)), append(n.thens, then)
	}
	if e.Else != nil {
		var err error
		if n.other, err = c.expr(e.Else); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (n *caseNode) eval(f *frame, r rows) (_ *batch.Column, err error) {
	n.out.begin(r.n)
	rest := r
	for k, cond := range n.conds {
		if n.taken, err = cond.choose(f, rest, true, n.taken[:0]); err != nil {
			return nil, err
		}
		if len(n.taken) == 0 {
			continue
		}
		if err := n.branch(f, n.thens[k], &n.from[k], r.subset(n.taken)); err != nil {
			return nil, err
		}
		n.marked.only(n.taken, r.n)
		n.swap = chooseBool(n.marked, false, rest, n.swap[:0])
		n.rest, n.swap = n.swap, n.rest
		if len(n.rest) == 0 {
			return n.out.end(), nil
		}
		rest = r.subset(n.rest)
	}
	if err := n.branch(f, n.other, &n.from[len(n.conds)], rest); err != nil {
		return nil, err
	}
	return n.out.end(), nil
}

func (n *caseNode) branch(f *frame, then node, t *translation, r rows) error {
	if then == nil {
		for k := range r.len() {
			n.out.setNull(r.at(k))
		}
		return nil
	}
	c, err := then.eval(f, r)
	if err != nil {
		return err
	}
	n.out.copyRows(c, r, t)
	return nil
}

// coalesceNode evaluates each argument only for the rows at which all earlier arguments
// were NULL.
type coalesceNode struct {
	args       []node
	out        output
	from       []translation
	rest, swap []uint16
}

func coalesce(e *plan.Call, args []node) (node, error) {
	return &coalesceNode{args: args, out: newOutput(e.T), from: make([]translation, len(args))}, nil
}

func (n *coalesceNode) eval(f *frame, r rows) (*batch.Column, error) {
	n.out.begin(r.n)
	rest := r
	for k, a := range n.args {
		c, err := a.eval(f, rest)
		if err != nil {
			return nil, err
		}
		n.swap = n.swap[:0]
		for j := range rest.len() {
			i := rest.at(j)
			if isNull(c, i) {
				n.swap = append(n.swap, uint16(i))
				continue
			}
			n.out.copyRow(c, i, &n.from[k])
		}
		n.rest, n.swap = n.swap, n.rest
		if len(n.rest) == 0 {
			return n.out.end(), nil
		}
		rest = r.subset(n.rest)
	}
	for k := range rest.len() {
		n.out.setNull(rest.at(k))
	}
	return n.out.end(), nil
}

// pickNode is LEAST or GREATEST: per row, the first argument in an order, ignoring NULLs.
type pickNode struct {
	args  []node
	cols  []*batch.Column
	order orderFunc
	sign  int // sign of order(best, other) if other is better: 1 LEAST, -1 GREATEST
	out   output
	from  []translation
}

func least(e *plan.Call, args []node) (node, error)    { return pick(e, args, 1) }
func greatest(e *plan.Call, args []node) (node, error) { return pick(e, args, -1) }

func pick(e *plan.Call, args []node, sign int) (node, error) {
	order := orderOf(e.T)
	if order == nil {
		return nil, nil
	}
	return &pickNode{args: args, cols: make([]*batch.Column, len(args)), order: order, sign: sign,
		out: newOutput(e.T), from: make([]translation, len(args))}, nil
}

func (n *pickNode) eval(f *frame, r rows) (*batch.Column, error) {
	for k, a := range n.args {
		var err error
		if n.cols[k], err = a.eval(f, r); err != nil {
			return nil, err
		}
	}
	n.out.begin(r.n)
	for j := range r.len() {
		i := r.at(j)
		best := -1
		for k, c := range n.cols {
			if !isNull(c, i) && (best < 0 || n.order(n.cols[best], c, i)*n.sign > 0) {
				best = k
			}
		}
		if best < 0 {
			n.out.setNull(i)
			continue
		}
		n.out.copyRow(n.cols[best], i, &n.from[best])
	}
	return n.out.end(), nil
}

// nullifNode is NULLIF.
type nullifNode struct {
	x, y  node
	order orderFunc
	out   output
	from  translation
}

func nullif(e *plan.Call, args []node) (node, error) {
	order := orderOf(e.T)
	if order == nil {
		return nil, nil
	}
	return &nullifNode{x: args[0], y: args[1], order: order, out: newOutput(e.T)}, nil
}

func (n *nullifNode) eval(f *frame, r rows) (*batch.Column, error) {
	x, err := n.x.eval(f, r)
	if err != nil {
		return nil, err
	}
	y, err := n.y.eval(f, r)
	if err != nil {
		return nil, err
	}
	n.out.begin(r.n)
	for k := range r.len() {
		i := r.at(k)
		if !isNull(x, i) && !isNull(y, i) && n.order(x, y, i) == 0 {
			n.out.setNull(i)
			continue
		}
		n.out.copyRow(x, i, &n.from)
	}
	return n.out.end(), nil
}
