package plan

import "endoscope/planner/types"

// Fragment is the upper end of a plan, which a client may execute:
//
//	Base ─► Lower ─► [first stage] ─► Upper ─► result
//	rows of Base    Lowered   states
//
// Base is executed at the server. Lower consists of filters and projections, which
// keep no state between rows. The first stage of Upper's lowest aggregate, if it
// has one, can be merged from any number of pieces. So both may be executed at
// either site, and may move between any two rows. Upper is executed at the client.
type Fragment struct {
	Lower Node // over one Acquire that represents Base
	Upper Node // over one Acquire that represents Lower
	// Exchange describes how the rows of several hosts are combined into one input of
	// Upper; Lower is the leaf alone then. nil: there is one server.
	Exchange *Exchange
}

// FragmentStream is the stream of the Acquires of a Fragment.
const FragmentStream = "fragment"

// Source returns the Acquire at the end of a chain of operators.
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

// Lowered returns the schema of the rows between Lower and Upper.
func (f *Fragment) Lowered() types.Schema { return f.Lower.Schema() }

// Partial returns the first stage of Upper's lowest aggregate; nil if it has none
// that can be merged.
func (f *Fragment) Partial() *Partial { return Source(f.Upper).Partial }

// Merges reports whether the rows of several hosts can be merged into rows of the same columns
// before the root has them: states whose result does not depend on whose they are, nor on the
// hosts' clocks.
func (f *Fragment) Merges() bool {
	x, p := f.Exchange, f.Partial()
	if x == nil || p == nil || x.Kind != MergeStates || x.Again == PerSession || x.Again == PerChange || p.Estimated || len(x.Pick) != len(p.Out.Fields) {
		return false
	}
	for i, c := range x.Pick {
		if c != i || i > len(p.Keys) && p.Out.Fields[i].Name == "time" {
			return false
		}
	}
	return true
}

// Moves reports whether the fragment's work can move between server and client
// while the query runs. It cannot if Upper keeps rows in any form other than
// mergeable states: all of them must be at one site.
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

// Depth returns the number of operators of a chain, without its leaf.
func Depth(n Node) (d int) {
	for ; len(n.Inputs()) == 1; n = n.Inputs()[0] {
		d++
	}
	return d
}
