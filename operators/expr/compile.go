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
}

// node is one step of a program. It computes its column for the rows r, for which the
// frame's columns have values; other entries of the result are undefined. The result is
// valid until the next eval of the same node and must not be changed by others.
type node interface {
	eval(f *frame, r rows) (*batch.Column, error)
}

// frame is the input of one evaluation.
type frame struct {
	cols []batch.Column
	now  int64 // the value of now() in this evaluation; 0: not read yet
}

// Compile compiles a resolved expression to a program over batches with the given column
// types. It returns a *plan.Error for an expression that is invalid by itself, such as one
// with an invalid regular expression.
func Compile(e plan.Expr, in []types.Type) (*Program, error) {
	c := compiler{in: in}
	root, err := c.expr(e)
	if err != nil {
		return nil, err
	}
	return &Program{root: root, typ: e.Type(), in: in}, nil
}

// Type returns the type of the result.
func (p *Program) Type() types.Type { return p.typ }

// Eval computes the expression for the selected rows of b (b.Sel). The result has values at
// those physical rows and belongs to the Program until the next Eval. A bare column
// reference returns b's own column without a copy. An error caused by the data (overflow)
// is a *plan.Error.
func (p *Program) Eval(b *batch.Batch) (*batch.Column, error) {
	if len(b.Cols) < len(p.in) {
		return nil, fmt.Errorf("expression over %d columns evaluated over %d", len(p.in), len(b.Cols))
	}
	p.frame = frame{cols: b.Cols}
	return p.root.eval(&p.frame, batchRows(b))
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
	// perEntry is set while compiling for the entries of a dictionary, where no further
	// caching by dictionary is possible.
	perEntry bool
}

// expr compiles e. Constants are folded, and an expression of a single dictionary-coded
// column becomes a table.
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

// build compiles e without folding e itself.
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

// builder creates the node of a function from the nodes of its arguments.
type builder func(e *plan.Call, args []node) (node, error)

// call compiles a function: its builder is found by name and chooses the kernel by the
// arguments' types. A strict function (all except laxCalls) of a NULL constant is NULL.
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

// fold replaces n, the node of e, by its value if e has no columns and is deterministic. If
// the evaluation fails, e is left to fail at run time, because a CASE may guard it.
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

// fixed reports whether e has no columns and is deterministic.
func fixed(e plan.Expr) bool {
	is := !plan.Volatile(e)
	plan.Walk(e, func(e plan.Expr) {
		if _, ok := e.(*plan.Col); ok {
			is = false
		}
	})
	return is
}
