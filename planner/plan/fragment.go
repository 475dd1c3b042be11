package plan

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
)

// Fragment is the upper end of a plan, which a client may execute:
//
//	Base ─► Lower ─► [first stage] ─► Upper ─► result
//	rows of Base    Lowered   states
//
// Base is executed at the server. Lower, filters and projections, knows nothing of
// the rows before, and the first stage of Upper's lowest aggregate, if it has one,
// is merged from any number of pieces: these may be executed at either site, and
// move between any two rows. Upper is executed at the client.
type Fragment struct {
	Lower Node // over one Acquire that stands for Base
	Upper Node // over one Acquire that stands for Lower
}

// FragmentStream is the stream of the Acquires of a Fragment.
const FragmentStream = "fragment"

// Source is the Acquire at the end of a chain of operators.
func Source(n Node) *Acquire {
	for {
		switch in := n.Inputs(); len(in) {
		case 0:
			a, _ := n.(*Acquire)
			return a
		case 1:
			n = in[0]
		default:
			return nil
		}
	}
}

// Lowered are the columns of the rows between Lower and Upper.
func (f *Fragment) Lowered() Schema { return f.Lower.Schema() }

// Partial is the first stage of Upper's lowest aggregate; nil if it has none that
// can be merged.
func (f *Fragment) Partial() *Partial { return Source(f.Upper).Partial }

// Moves reports whether what the fragment spares the network or the server can move
// while the query runs: it does not where Upper remembers rows in another way than
// in states that can be merged, for then all of them have to be at one site.
func (f *Fragment) Moves() bool {
	if f.Partial() != nil {
		return true
	}
	for n := f.Upper; ; n = n.Inputs()[0] {
		switch n.(type) {
		case *Filter, *Project, *Limit:
		case *Acquire:
			return Depth(f.Lower) > 0
		default:
			return false
		}
	}
}

// Depth is how many operators a chain has, without its leaf.
func Depth(n Node) (d int) {
	for ; len(n.Inputs()) == 1; n = n.Inputs()[0] {
		d++
	}
	return d
}

func init() {
	for _, v := range []any{&Acquire{}, &Filter{}, &Project{}, &Window{}, &Aggregate{}, &Distinct{}, &Sort{}, &Limit{},
		&Col{}, &Const{}, &Call{}, &In{}, &Case{}, &Cast{}} {
		gob.Register(v)
	}
}

// Encode is the fragment for the way to the client. It fails for constants that
// have no form outside the process, such as models.
func (f *Fragment) Encode() ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(f); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

var errFragment = errors.New("the fragment of the plan that the server sent does not fit together")

// DecodeFragment reads a fragment. What it returns refers only to columns that
// there are, with the types that these have.
func DecodeFragment(b []byte) (*Fragment, error) {
	f := &Fragment{}
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(f); err != nil {
		return nil, fmt.Errorf("the fragment of the plan that the server sent cannot be read: %w", err)
	}
	if f.Lower == nil || f.Upper == nil {
		return nil, errFragment
	}
	for _, root := range []Node{f.Lower, f.Upper} {
		if err := checkChain(root); err != nil {
			return nil, err
		}
	}
	if a, b := f.Lowered(), Source(f.Upper).Out; len(a.Fields) != len(b.Fields) || !sameTypes(a, b) {
		return nil, errFragment
	}
	return f, nil
}

func sameTypes(a, b Schema) bool {
	for i := range a.Fields {
		if a.Fields[i].Type != b.Fields[i].Type {
			return false
		}
	}
	return a.Time == b.Time
}

// checkChain checks the nodes of a fragment from the leaf up.
func checkChain(n Node) error {
	switch n := n.(type) {
	case *Acquire:
		if n.Stream != FragmentStream || n.Filter != nil || n.Out.Time < -1 || n.Out.Time >= len(n.Out.Fields) {
			return errFragment
		}
		if p := n.Partial; p != nil {
			if err := checkAggs(p.Aggs, n.Out); err != nil {
				return err
			}
			return checkExprs(p.Keys, n.Out)
		}
		return nil
	case *Filter, *Project, *Window, *Aggregate, *Distinct, *Sort, *Limit:
	default:
		return errFragment
	}
	ins := n.Inputs()
	if len(ins) != 1 || ins[0] == nil {
		return errFragment
	}
	if err := checkChain(ins[0]); err != nil {
		return err
	}
	in, out := ins[0].Schema(), n.Schema()
	if out.Time < -1 || out.Time >= len(out.Fields) {
		return errFragment
	}
	switch n := n.(type) {
	case *Filter:
		return checkExprs([]Expr{n.Cond}, in)
	case *Project:
		if len(n.Exprs) != len(out.Fields) {
			return errFragment
		}
		return checkExprs(n.Exprs, in)
	case *Window:
		if n.Spec.Time < 0 || n.Spec.Time >= len(in.Fields) || len(out.Fields) != len(in.Fields)+2 ||
			n.Spec.Kind != Session && n.Spec.Size <= 0 || n.Spec.Kind == Hop && n.Spec.Slide <= 0 {
			return errFragment
		}
		return checkExprs(n.Spec.PartitionBy, in)
	case *Aggregate:
		if len(out.Fields) != len(n.Keys)+len(n.Aggs) || n.Windowed && (n.WindowEnd < 0 || n.WindowEnd >= len(n.Keys)) {
			return errFragment
		}
		if err := checkExprs(n.Keys, in); err != nil {
			return err
		}
		return checkAggs(n.Aggs, in)
	case *Sort:
		for _, k := range n.Keys {
			if err := checkExprs([]Expr{k.X}, in); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkAggs(aggs []Agg, in Schema) error {
	for _, a := range aggs {
		if FindAgg(a.Fn) == nil {
			return errFragment
		}
		if err := checkExprs(a.Args, in); err != nil {
			return err
		}
		if a.Filter == nil {
			continue
		}
		if err := checkExprs([]Expr{a.Filter}, in); err != nil {
			return err
		}
	}
	return nil
}

// checkExprs reports columns that there are not. What functions take is checked
// when they are compiled.
func checkExprs(es []Expr, in Schema) error {
	ok := true
	for _, e := range es {
		if e == nil {
			return errFragment
		}
		Walk(e, func(x Expr) {
			if c, is := x.(*Col); is {
				ok = ok && c.Index >= 0 && c.Index < len(in.Fields) && in.Fields[c.Index].Type == c.T
			}
		})
	}
	if !ok {
		return errFragment
	}
	return nil
}

var errParam = errors.New("a parameter without a value leaves no process")

// GobEncode and GobDecode refuse: plans with such parameters are not executed.
func (p *Param) GobEncode() ([]byte, error) { return nil, errParam }
func (p *Param) GobDecode([]byte) error     { return errParam }
