package planpb

import (
	"google.golang.org/protobuf/encoding/protowire"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

var nodes []variant[plan.Node]

func init() {
	nodes = []variant[plan.Node]{
		variantOf[*plan.Acquire, plan.Acquire, plan.Node](source),
		variantOf[*plan.Filter, plan.Filter, plan.Node](filter),
		variantOf[*plan.Project, plan.Project, plan.Node](project),
		variantOf[*plan.Window, plan.Window, plan.Node](window),
		variantOf[*plan.Aggregate, plan.Aggregate, plan.Node](aggregate),
		variantOf[*plan.Distinct, plan.Distinct, plan.Node](distinct),
		variantOf[*plan.Sort, plan.Sort, plan.Node](sort),
		variantOf[*plan.Limit, plan.Limit, plan.Node](limit),
	}
}

func node(c *coder, n protowire.Number, v *plan.Node) {
	if c.reads || *v != nil {
		c.message(n, func(in *coder) { oneOf(in, v, nodes) })
	}
}

// source codes the leaf, which consists only of its columns: it represents rows
// from elsewhere.
func source(c *coder, n *plan.Acquire) {
	if !c.reads && (n.Stream != plan.FragmentStream || n.Filter != nil) {
		c.fail(errForm)
	}
	n.Stream = plan.FragmentStream
	schema(c, 1, &n.Out)
	if c.reads && c.has(2) {
		n.Partial = &plan.Partial{}
	}
	if n.Partial != nil {
		c.message(2, func(in *coder) { partial(in, n.Partial) })
	}
}

func partial(c *coder, p *plan.Partial) {
	list(c, 1, &p.Keys, expr)
	list(c, 2, &p.Aggs, agg)
	number(c, 3, &p.Pane)
	schema(c, 4, &p.Out)
	c.bool(5, &p.Estimated)
	c.bool(6, &p.ByPlace)
}

func filter(c *coder, n *plan.Filter) {
	node(c, 1, &n.Input)
	optional(c, 2, &n.Cond)
}

func project(c *coder, n *plan.Project) {
	node(c, 1, &n.Input)
	list(c, 2, &n.Exprs, expr)
	schema(c, 3, &n.Out)
}

func window(c *coder, n *plan.Window) {
	node(c, 1, &n.Input)
	enum(c, 2, &n.Spec.Kind)
	number(c, 3, &n.Spec.Size)
	number(c, 4, &n.Spec.Slide)
	number(c, 5, &n.Spec.Gap)
	list(c, 6, &n.Spec.PartitionBy, expr)
	number(c, 7, &n.Spec.Time)
	c.bool(8, &n.Hold)
	schema(c, 9, &n.Out)
}

func aggregate(c *coder, n *plan.Aggregate) {
	if n.States {
		c.fail(errForm)
	}
	node(c, 1, &n.Input)
	list(c, 2, &n.Keys, expr)
	list(c, 3, &n.Aggs, agg)
	c.bool(4, &n.Windowed)
	number(c, 5, &n.WindowEnd)
	emit(c, 6, &n.Emit)
	schema(c, 7, &n.Out)
	c.float(8, &n.Confidence)
	list(c, 9, &n.Derived, expr)
}

func distinct(c *coder, n *plan.Distinct) {
	node(c, 1, &n.Input)
	c.bool(2, &n.PerFlush)
}

func sort(c *coder, n *plan.Sort) {
	node(c, 1, &n.Input)
	list(c, 2, &n.Keys, func(c *coder, k *plan.SortKey) {
		optional(c, 1, &k.X)
		c.bool(2, &k.Desc)
	})
	number(c, 3, &n.Limit)
	emit(c, 4, &n.Emit)
}

func limit(c *coder, n *plan.Limit) {
	node(c, 1, &n.Input)
	number(c, 2, &n.N)
	c.bool(3, &n.PerFlush)
	number(c, 4, &n.Skip)
}

func emit(c *coder, n protowire.Number, e *plan.Emit) {
	c.message(n, func(c *coder) {
		enum(c, 1, &e.Mode)
		number(c, 2, &e.Every)
	})
}

func schema(c *coder, n protowire.Number, s *types.Schema) {
	c.message(n, func(c *coder) {
		list(c, 1, &s.Fields, func(c *coder, f *types.Field) {
			c.text(1, &f.Name)
			c.text(2, &f.Qualifier)
			kind(c, 3, &f.Type)
			enum(c, 4, &f.Bound)
		})
		number(c, 2, &s.Time)
	})
}

func agg(c *coder, a *plan.Agg) {
	c.text(1, &a.Fn)
	c.bool(2, &a.Star)
	c.bool(3, &a.Distinct)
	list(c, 4, &a.Args, expr)
	list(c, 5, &a.Params, value)
	c.texts(6, &a.ArgNames)
	number(c, 7, &a.Implied)
	list(c, 8, &a.Options, func(c *coder, o *plan.NamedValue) {
		c.text(1, &o.Name)
		c.message(2, func(c *coder) { value(c, &o.V) })
		c.text(3, &o.Text)
		c.bool(4, &o.ByPosition)
		c.bool(5, &o.Implied)
	})
	optional(c, 9, &a.Filter)
	kind(c, 10, &a.T)
}
