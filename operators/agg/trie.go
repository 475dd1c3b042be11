package agg

import (
	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/operators/handlers"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func init() {
	define(func(_ *plan.Agg, _ types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		return &trie{}, nil
	}, "trie")
}

// trie is TRIE(stack, state, syscall): the tree of the stacks, an ENCODING. State
// and system call may be omitted; a thread without a state counts as running.
type trie struct {
	groups []*handlers.Profile
	frames handlers.Reader
}

func (a *trie) Grow(n int) { a.groups = rowstore.Extended(a.groups, n) }

func (a *trie) Reset() {
	clear(a.groups)
	a.groups = a.groups[:0]
}

// Bytes implements valueHolder.
func (a *trie) Bytes() (n int64) {
	for _, g := range a.groups {
		if g != nil {
			n += g.Bytes()
		}
	}
	return n
}

func (a *trie) Update(in *fold.Input) {
	for _, r := range in.Rows {
		stack, ok := in.Arg.Any[r].([]types.Value)
		if !ok {
			continue
		}
		g := a.groups[in.Groups[r]]
		if g == nil {
			g = handlers.NewProfile()
			a.groups[in.Groups[r]] = g
		}
		var words [2]string // state and system call
		for i, c := range in.More {
			if !c.Nulls.Get(int(r)) {
				words[i] = c.Values[c.Code[r]]
			}
		}
		g.Add(a.frames.Frames(stack), handlers.StateOf(words[0], words[1]))
	}
}

// The state of TRIE is its profile.
const trieVersion = 1

func (a *trie) States(groups []uint32, out []batch.Column) {
	states.AppendAll(groups, out, trieVersion, func(g uint32) int64 {
		if a.groups[g] == nil {
			return 0
		}
		return int64(a.groups[g].Samples())
	}, func(g uint32, to []byte) []byte { return a.groups[g].AppendBinary(to) })
}

func (a *trie) Merge(in *fold.Input, state []batch.Column) error {
	return states.Merge(in, state, trieVersion, func(g uint32, b []byte) bool {
		p, err := handlers.ReadProfile(b)
		if err != nil {
			return false
		}
		if a.groups[g] == nil {
			a.groups[g] = p
		} else {
			a.groups[g].AddProfile(p)
		}
		return true
	})
}

func (a *trie) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		p := a.groups[g]
		if p == nil {
			out.Nulls.Set(i)
			out.Any = append(out.Any, nil)
			continue
		}
		out.Any = append(out.Any, p.Clone())
	}
	return nil
}
