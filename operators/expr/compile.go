package expr

import (
	"fmt"
	"strings"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Program is a compiled expression. It belongs to one goroutine.
type Program struct {
	root  node
	typ   types.Type
	in    []types.Type
	frame frame
	row   *batch.Batch // of EvalRow
}

// node is one step of a program. It computes its column for the rows r, of
// which the frame's columns have values; other entries of the result mean
// nothing. The result is valid until the next eval of the same node and must
// not be changed by others.
type node interface {
	eval(f *frame, r rows) (*batch.Column, error)
}

// frame is what one evaluation works on.
type frame struct {
	cols []batch.Column
	now  int64 // what now() is in this evaluation; 0: not asked for yet
}

// Compile turns a resolved expression into a program over batches with the
// given column types. An expression that can be seen to be wrong, such as one
// with an invalid regular expression, is refused with a *plan.Error.
func Compile(e plan.Expr, in []types.Type) (*Program, error) {
	c := compiler{in: in}
	root, err := c.expr(e)
	if err != nil {
		return nil, err
	}
	return &Program{root: root, typ: e.Type(), in: in}, nil
}

// Type is the type of the result.
func (p *Program) Type() types.Type { return p.typ }

// Eval computes the expression for the rows of b that count (b.Sel). The
// result has values at those physical rows; it belongs to the Program until
// the next Eval, except when it is one of b's own columns: a bare column
// reference is returned as is, without a copy. An error that the data cause
// (overflow) is a *plan.Error.
func (p *Program) Eval(b *batch.Batch) (*batch.Column, error) {
	if len(b.Cols) < len(p.in) {
		return nil, fmt.Errorf("expression over %d columns evaluated over %d", len(p.in), len(b.Cols))
	}
	p.frame = frame{cols: b.Cols}
	return p.root.eval(&p.frame, batchRows(b))
}

// EvalRow computes the expression for one row: a value for each column of the
// input. It is for thousands of rows, not for streams.
func (p *Program) EvalRow(row []types.Value) (types.Value, error) {
	if len(row) != len(p.in) {
		return types.Value{}, fmt.Errorf("expression over %d columns evaluated over %d", len(p.in), len(row))
	}
	if p.row == nil {
		p.row = batch.New(p.in)
	}
	for i := range p.row.Cols {
		c := &p.row.Cols[i]
		c.Reset()
		if c.Dict != nil && c.Dict.Len() > maxDict {
			c.Dict = batch.NewDict()
		}
	}
	p.row.N = 0
	p.row.AppendRow(row...)
	c, err := p.Eval(p.row)
	if err != nil {
		return types.Value{}, err
	}
	return c.Value(0), nil
}

// EvalRow compiles e over columns of the types of row and evaluates it once.
func EvalRow(e plan.Expr, row []types.Value) (types.Value, error) {
	in := make([]types.Type, len(row))
	for i, v := range row {
		in[i] = v.Type
	}
	p, err := Compile(e, in)
	if err != nil {
		return types.Value{}, err
	}
	return p.EvalRow(row)
}

// EvalConst computes an expression without columns.
func EvalConst(e plan.Expr) (types.Value, error) {
	p, err := Compile(e, nil)
	if err != nil {
		return types.Value{}, err
	}
	c, err := p.Eval(&batch.Batch{N: 1})
	if err != nil {
		return types.Value{}, err
	}
	return c.Value(0), nil
}

// compiler turns expressions into nodes.
type compiler struct {
	in []types.Type
	// perEntry is set while compiling what runs over the entries of a
	// dictionary: there is nothing left to cache by dictionary.
	perEntry bool
}

// expr compiles e: constants are folded, and what depends on one dictionary
// only goes into a table.
func (c *compiler) expr(e plan.Expr) (node, error) {
	if i, ok := c.tabular(e); ok {
		return c.newTable(e, i)
	}
	n, err := c.build(e)
	if err != nil {
		return nil, err
	}
	return fold(e, n), nil
}

// build compiles e without looking at it as a whole.
func (c *compiler) build(e plan.Expr) (node, error) {
	switch e := e.(type) {
	case *plan.Col:
		if e.Index < 0 || e.Index >= len(c.in) || c.in[e.Index] != e.T {
			return nil, fmt.Errorf("column %s (%d, %s) is not in the input", e.Name, e.Index, e.T)
		}
		return &colNode{e.Index}, nil
	case *plan.Const:
		return newConst(e.V), nil
	case *plan.Call:
		return c.call(e)
	case *plan.In:
		return c.inList(e)
	case *plan.Case:
		return c.caseWhen(e)
	case *plan.Cast:
		return c.cast(e)
	}
	return nil, fmt.Errorf("cannot compile %T", e)
}

func (c *compiler) exprs(es []plan.Expr) ([]node, error) {
	ns := make([]node, len(es))
	for i, e := range es {
		var err error
		if ns[i], err = c.expr(e); err != nil {
			return nil, err
		}
	}
	return ns, nil
}

// builder makes the node of a function from its arguments' nodes.
type builder func(e *plan.Call, args []node) (node, error)

// call compiles a function: its builder is found by name, the kernel that the
// builder chooses by the arguments' types. A strict function (all but those of
// laxCalls) of a NULL constant is NULL.
func (c *compiler) call(e *plan.Call) (node, error) {
	build, strict := strictCalls[e.Fn], true
	if build == nil {
		build, strict = laxCalls[e.Fn], false
	}
	if build == nil {
		return nil, refuse(e, "there is no function %s", e.Fn)
	}
	args, err := c.exprs(e.Args)
	if err != nil {
		return nil, err
	}
	if strict {
		for _, a := range args {
			if v, ok := constant(a); ok && v.IsNull {
				return newConst(types.NullOf(e.T)), nil
			}
		}
	}
	n, err := build(e, args)
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, noKernel(e)
	}
	return n, nil
}

func noKernel(e *plan.Call) error {
	kinds := make([]string, len(e.Args))
	for i, a := range e.Args {
		kinds[i] = a.Type().String()
	}
	return refuse(e, "%s is not defined for %s", e.Fn, strings.Join(kinds, ", "))
}

// fold replaces n, the node of e, by its value if e has no columns and always
// gives the same. What fails is left to fail when it runs, if it runs: CASE
// may guard it.
func fold(e plan.Expr, n node) node {
	if _, ok := n.(*constNode); ok || !fixed(e) {
		return n
	}
	col, err := n.eval(&frame{}, rows{n: 1})
	if err != nil {
		return n
	}
	return newConst(col.Value(0))
}

// fixed reports whether e has no columns and always gives the same.
func fixed(e plan.Expr) bool {
	is := true
	plan.Walk(e, func(e plan.Expr) {
		if _, ok := e.(*plan.Col); ok || volatile(e) {
			is = false
		}
	})
	return is
}

func volatile(e plan.Expr) bool {
	call, ok := e.(*plan.Call)
	if !ok {
		return false
	}
	s := plan.FindScalar(call.Fn)
	return s != nil && s.Volatile
}
