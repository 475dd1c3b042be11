package plan

import "endoscope/planner/types"

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
