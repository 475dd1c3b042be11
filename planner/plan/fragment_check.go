package plan

import (
	"errors"
	"slices"

	"endoscope/planner/types"
)

var errFragment = errors.New("the fragment of the plan that the server sent does not fit together")

// maxFragmentDepth limits the nesting of operators and expressions of a fragment.
const maxFragmentDepth = 4096

// Check returns an error for a fragment whose parts are inconsistent: operators
// and kernels rely on the types in a plan and do not check columns again.
func (f *Fragment) Check() error {
	if f.Lower == nil || f.Upper == nil {
		return errFragment
	}
	for _, root := range []Node{f.Lower, f.Upper} {
		if err := checkChain(root, 0); err != nil {
			return err
		}
	}
	if !sameTypes(f.Lowered(), Source(f.Upper).Out) {
		return errFragment
	}
	return f.Exchange.check(f)
}

// check returns an error for an invalid exchange; nil is valid. Whether its
// columns are those of the rows is checked when rows arrive.
func (x *Exchange) check(f *Fragment) error {
	if x == nil {
		return nil
	}
	if x.Kind > MergeStates || x.Again > PerChange || x.Limit < 0 || x.Gap < 0 || (x.Kind == MergeStates) != (f.Partial() != nil) ||
		x.Kind != MergeStates && (x.Again == PerSession || x.Again == PerChange) {
		return errFragment
	}
	return nil
}

func sameTypes(a, b types.Schema) bool {
	return a.Time == b.Time && slices.Equal(a.Types(), b.Types())
}

// checkChain checks the nodes of a fragment from the leaf up.
func checkChain(n Node, depth int) error {
	if depth > maxFragmentDepth {
		return errFragment
	}
	switch n := n.(type) {
	case *Acquire:
		if n.Stream != FragmentStream || n.Filter != nil || !timed(n.Out) {
			return errFragment
		}
		return checkPartial(n.Partial, n.Out)
	case *Filter, *Project, *Window, *Aggregate, *Distinct, *Sort, *Limit:
	default:
		return errFragment
	}
	ins := n.Inputs()
	if len(ins) != 1 || ins[0] == nil {
		return errFragment
	}
	if err := checkChain(ins[0], depth+1); err != nil {
		return err
	}
	in, out := ins[0].Schema(), n.Schema()
	if !timed(out) {
		return errFragment
	}
	switch n := n.(type) {
	case *Filter:
		return checkCondition(n.Cond, in)
	case *Project:
		if err := checkExprs(n.Exprs, in); err != nil {
			return err
		}
		return checkTypes(typesOf(n.Exprs), out)
	case *Window:
		return checkWindow(n, in)
	case *Aggregate:
		return checkAggregate(n, in)
	case *Sort:
		for _, k := range n.Keys {
			if err := checkExpr(k.X, in, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// timed reports whether the time column of s is one of its columns, or it has none.
func timed(s types.Schema) bool { return s.Time >= -1 && s.Time < len(s.Fields) }

func typesOf(es []Expr) (ts []types.Type) {
	for _, e := range es {
		ts = append(ts, e.Type())
	}
	return ts
}

func checkTypes(ts []types.Type, out types.Schema) error {
	if !slices.Equal(ts, out.Types()) {
		return errFragment
	}
	return nil
}

func checkWindow(n *Window, in types.Schema) error {
	s := n.Spec
	if s.Time < 0 || s.Time >= len(in.Fields) || len(n.Out.Fields) != len(in.Fields)+2 ||
		s.Kind > Session || s.Kind != Session && s.Size <= 0 || s.Kind == Hop && s.Slide <= 0 {
		return errFragment
	}
	at := in.Fields[s.Time].Type
	if at.Physical() != types.PhysInt {
		return errFragment
	}
	if err := checkExprs(s.PartitionBy, in); err != nil {
		return err
	}
	return checkTypes(append(in.Types(), at, at), n.Out)
}

func checkAggregate(n *Aggregate, in types.Schema) error {
	if err := checkExprs(n.Keys, in); err != nil {
		return err
	}
	if err := checkAggs(n.Aggs, in); err != nil {
		return err
	}
	if n.Windowed && (n.WindowEnd < 0 || n.WindowEnd >= len(n.Keys) || n.Keys[n.WindowEnd].Type().Physical() != types.PhysInt) {
		return errFragment
	}
	if !(n.Confidence >= 0 && n.Confidence < 1) {
		return errFragment
	}
	kinds := typesOf(n.Keys)
	for i := range n.Aggs {
		for part := range n.Width() {
			kinds = append(kinds, EstimateType(part, n.Aggs[i].T))
		}
	}
	var results types.Schema
	for i := range n.Aggs {
		results.Fields = append(results.Fields, types.Field{Type: n.Aggs[i].T})
	}
	for _, x := range n.Derived {
		if n.Confidence == 0 || !Derives(x, n.Aggs) {
			return errFragment
		}
		for part := range n.Width() {
			kinds = append(kinds, EstimateType(part, x.Type()))
		}
	}
	if err := checkExprs(n.Derived, results); err != nil {
		return err
	}
	return checkTypes(kinds, n.Out)
}

// checkPartial checks a first stage; nil is valid.
func checkPartial(p *Partial, in types.Schema) error {
	if p == nil {
		return nil
	}
	if p.Estimated && (len(p.Keys) < HiddenKeys || len(p.Aggs) < HiddenAggs) {
		return errFragment
	}
	keys, aggs := p.Visible()
	if err := checkExprs(keys, in); err != nil {
		return err
	}
	if err := checkAggs(aggs, in); err != nil {
		return err
	}
	made, ok := NewPartial(keys, aggs, p.Pane)
	if !ok || p.Pane < 0 {
		return errFragment
	}
	if p.Estimated {
		made = NewEstimatedPartial(made, p.ByPlace)
		if !slices.Equal(typesOf(p.Keys), typesOf(made.Keys)) {
			return errFragment
		}
	}
	return checkTypes(made.Out.Types(), p.Out)
}

func checkAggs(aggs []Agg, in types.Schema) error {
	for i := range aggs {
		a := &aggs[i]
		f := FindAgg(a.Fn)
		if f == nil || a.Star && len(a.Args) > 0 {
			return errFragment
		}
		if err := checkExprs(a.Args, in); err != nil {
			return err
		}
		if f.Encoder == nil && !a.Star && (len(a.Args) == 0 || len(a.Args) > 1+len(f.More)) {
			return errFragment
		}
		if a.Filter != nil {
			if err := checkCondition(a.Filter, in); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkCondition(e Expr, in types.Schema) error {
	if err := checkExpr(e, in, 0); err != nil {
		return err
	}
	if e.Type() != types.Boolean {
		return errFragment
	}
	return nil
}

func checkExprs(es []Expr, in types.Schema) error {
	for _, e := range es {
		if err := checkExpr(e, in, 0); err != nil {
			return err
		}
	}
	return nil
}

// checkExpr returns an error for columns that do not exist, and for functions with
// too few or too many arguments. Whether a function accepts the types of its
// arguments is checked when the expression is compiled.
func checkExpr(e Expr, in types.Schema, depth int) error {
	if e == nil || depth > maxFragmentDepth {
		return errFragment
	}
	switch e := e.(type) {
	case *Col:
		if e.Index < 0 || e.Index >= len(in.Fields) || in.Fields[e.Index].Type != e.T {
			return errFragment
		}
	case *Call:
		if f := FindScalar(e.Fn); f == nil || !slices.ContainsFunc(f.Sigs, func(s Sig) bool { return s.takes(len(e.Args)) }) {
			return errFragment
		}
	case *In:
		if e.X == nil || slices.ContainsFunc(e.List, func(c Const) bool { return !c.V.IsNull && c.V.Type != e.X.Type() }) {
			return errFragment
		}
	case *Case:
		if len(e.Whens) == 0 {
			return errFragment
		}
	}
	for _, c := range e.Children() {
		if err := checkExpr(c, in, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// takes reports whether the signature accepts n arguments.
func (s *Sig) takes(n int) bool {
	return n >= len(s.Args)-s.Optional && (n <= len(s.Args) || s.Variadic)
}
