package expr

import (
	"fmt"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Filter is a compiled condition. It belongs to one goroutine.
type Filter struct {
	cond  predicate
	in    []types.Type
	frame frame
}

// predicate is a BOOLEAN node that can select rows by truth value without building a column
// of truth values.
type predicate interface {
	node
	// choose appends to dst the rows of r for which the predicate equals want, ascending.
	// Rows with the opposite value or NULL are left out.
	choose(f *frame, r rows, want bool, dst []uint16) ([]uint16, error)
}

// CompileFilter compiles a BOOLEAN expression that selects rows.
func CompileFilter(e plan.Expr, in []types.Type) (*Filter, error) {
	if t := e.Type(); t != types.Boolean && t != types.Null {
		return nil, refuse(e, "a condition must be BOOLEAN, %s is %s", e, t)
	}
	c := compiler{in: in}
	n, err := c.expr(e)
	if err != nil {
		return nil, err
	}
	return &Filter{cond: asPredicate(n), in: in}, nil
}

// Select appends to dst the selected physical rows of b for which the condition is true:
// not false and not NULL. The result is never nil, so that it can be the selection of a
// view; dst must not share memory with b.Sel. Errors are those of [Program.Eval].
func (fl *Filter) Select(b *batch.Batch, dst []uint16) ([]uint16, error) {
	if len(b.Cols) < len(fl.in) {
		return nil, fmt.Errorf("condition over %d columns evaluated over %d", len(fl.in), len(b.Cols))
	}
	if dst == nil {
		dst = make([]uint16, 0, b.Len())
	}
	fl.frame = frame{cols: b.Cols}
	return fl.cond.choose(&fl.frame, batchRows(b), true, dst)
}

// asPredicate converts any BOOLEAN node to a predicate.
func asPredicate(n node) predicate {
	if p, ok := n.(predicate); ok {
		return p
	}
	return truth{n}
}

// truth is a predicate that reads a column of truth values.
type truth struct{ node }

func (t truth) choose(f *frame, r rows, want bool, dst []uint16) ([]uint16, error) {
	c, err := t.eval(f, r)
	if err != nil {
		return nil, err
	}
	if c.Type.Physical() != types.PhysBool { // the literal NULL
		return dst, nil
	}
	from := len(dst)
	return dropNulls(chooseBool(c.Bool, want, r, dst), from, c.Nulls), nil
}

func chooseBool(x []bool, want bool, r rows, dst []uint16) []uint16 {
	k := len(dst)
	dst = room(dst, r.len())
	if r.sel == nil {
		for i, v := range x[:r.n] {
			dst[k] = uint16(i)
			if v == want {
				k++
			}
		}
		return dst[:k]
	}
	for _, i := range r.sel {
		dst[k] = i
		if x[i] == want {
			k++
		}
	}
	return dst[:k]
}

// scatter builds a column of truth values from the rows chosen: true there, false at the
// other rows, NULL where an argument is.
func (o *output) scatter(r rows, chosen []uint16, args ...*batch.Column) *batch.Column {
	o.begin(r.n)
	clear(o.col.Bool)
	for _, i := range chosen {
		o.col.Bool[i] = true
	}
	o.inheritNulls(r, args...)
	return o.end()
}
