package plan

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"

	"endoscope/planner/types"
)

// MaxFragment is how many bytes an encoded fragment may have: no more are sent, or
// read.
const MaxFragment = 1 << 20

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
	// Exchange says how the rows of several hosts become one input of Upper; Lower is
	// the leaf alone then. nil: there is one server.
	Exchange *Exchange
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
func (f *Fragment) Lowered() types.Schema { return f.Lower.Schema() }

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
// have no form outside the process, such as models, and for what DecodeFragment
// would refuse.
func (f *Fragment) Encode() ([]byte, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(f); err != nil {
		return nil, err
	}
	if b.Len() > MaxFragment {
		return nil, errFragmentSize
	}
	return b.Bytes(), nil
}

var errFragmentSize = fmt.Errorf("a fragment of a plan has more than %d bytes", MaxFragment)

// DecodeFragment reads a fragment. In what it returns the types of expressions are
// those of the columns, the functions and the outputs that there are (see check).
func DecodeFragment(b []byte) (*Fragment, error) {
	if len(b) > MaxFragment {
		return nil, errFragmentSize
	}
	f := &Fragment{}
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(f); err != nil {
		return nil, fmt.Errorf("the fragment of the plan that the server sent cannot be read: %w", err)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, nil
}

var errParam = errors.New("a parameter without a value leaves no process")

// GobEncode and GobDecode refuse: plans with such parameters are not executed.
func (p *Param) GobEncode() ([]byte, error) { return nil, errParam }
func (p *Param) GobDecode([]byte) error     { return errParam }
