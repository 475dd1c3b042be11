package planpb

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

var (
	errParam = errors.New("a parameter without a value cannot be sent")
	errHost  = errors.New("the name of a host cannot be sent")
	errValue = errors.New("a constant of this type cannot be sent")
)

// variant is one of several messages that a field may contain.
type variant[T any] struct {
	is   func(T) bool
	code func(*coder, *T)
}

// oneOf writes the message of v's type, or reads the one that there is. Variants are in
// the order of their fields, from 1 on.
func oneOf[T any](c *coder, v *T, variants []variant[T]) {
	for i, m := range variants {
		n := protowire.Number(i + 1)
		if c.reads && !c.has(n) || !c.reads && !m.is(*v) {
			continue
		}
		c.message(n, func(in *coder) { m.code(in, v) })
		return
	}
	if !c.reads {
		c.fail(errForm)
	}
}

// variantOf returns a variant for a type that implements an interface.
func variantOf[P interface{ *S }, S, T any](code func(*coder, P)) variant[T] {
	return variant[T]{
		is: func(v T) bool { _, ok := any(v).(P); return ok },
		code: func(c *coder, v *T) {
			var p P
			if c.reads {
				p = new(S)
				*v = any(p).(T)
			} else {
				p = any(*v).(P)
			}
			code(c, p)
		},
	}
}

var exprs []variant[plan.Expr]

func init() {
	exprs = []variant[plan.Expr]{
		variantOf[*plan.Col, plan.Col, plan.Expr](column),
		variantOf[*plan.Const, plan.Const, plan.Expr](constant),
		variantOf[*plan.Call, plan.Call, plan.Expr](call),
		variantOf[*plan.In, plan.In, plan.Expr](in),
		variantOf[*plan.Case, plan.Case, plan.Expr](cases),
		variantOf[*plan.Cast, plan.Cast, plan.Expr](cast),
	}
}

func expr(c *coder, e *plan.Expr) {
	if _, ok := (*e).(*plan.Host); ok {
		c.fail(errHost)
		return
	}
	oneOf(c, e, exprs)
}

// optional writes or reads an expression that may be nil.
func optional(c *coder, n protowire.Number, e *plan.Expr) {
	if c.reads || *e != nil {
		c.message(n, func(in *coder) { expr(in, e) })
	}
}

// kind writes or reads a type.
func kind(c *coder, n protowire.Number, t *types.Type) {
	if enum(c, n, t); *t > types.Encoding {
		c.fail(errForm)
	}
}

func column(c *coder, e *plan.Col) {
	number(c, 1, &e.Index)
	c.text(2, &e.Name)
	kind(c, 3, &e.T)
}

func constant(c *coder, e *plan.Const) {
	if e.Param != nil {
		c.fail(errParam)
		return
	}
	c.message(1, func(in *coder) { value(in, &e.V) })
	number(c, 2, &e.Start)
	number(c, 3, &e.Stop)
}

func call(c *coder, e *plan.Call) {
	c.text(1, &e.Fn)
	list(c, 2, &e.Args, expr)
	kind(c, 3, &e.T)
}

func in(c *coder, e *plan.In) {
	optional(c, 1, &e.X)
	list(c, 2, &e.List, constant)
}

func cases(c *coder, e *plan.Case) {
	list(c, 1, &e.Whens, func(c *coder, w *plan.When) {
		optional(c, 1, &w.Cond)
		optional(c, 2, &w.Then)
	})
	optional(c, 2, &e.Else)
	kind(c, 3, &e.T)
}

func cast(c *coder, e *plan.Cast) {
	optional(c, 1, &e.X)
	kind(c, 2, &e.T)
}

func value(c *coder, v *types.Value) {
	kind(c, 1, &v.Type)
	c.bool(2, &v.IsNull)
	c.int64(3, &v.I)
	c.float(4, &v.F)
	c.text(5, &v.S)
	if !c.reads && v.A == nil {
		return
	}
	all, ok := v.A.([]types.Value)
	if !c.reads && !ok {
		c.fail(errValue)
		return
	}
	if list(c, 6, &all, value); c.reads && v.Type == types.List {
		v.A = all
	}
	if c.reads && v.Type == types.Encoding && !v.IsNull {
		c.fail(errValue)
	}
}
