package operators

import (
	"endoscope/operators/batch"
	"endoscope/operators/handlers"
	"endoscope/planner/types"
)

// trie is TRIE(stack, state, syscall): what stacks add up to, an ENCODING. State
// and system call may be left out; a thread without a state runs.
type trie struct {
	groups []*handlers.Profile
	frames handlers.Reader
}

func (a *trie) grow(n int) { a.groups = extended(a.groups, n) }

func (a *trie) reset() {
	clear(a.groups)
	a.groups = a.groups[:0]
}

// bytes implements valueHolder.
func (a *trie) bytes() (n int64) {
	for _, g := range a.groups {
		if g != nil {
			n += g.Bytes()
		}
	}
	return n
}

func (a *trie) update(in *folding) {
	for _, r := range in.rows {
		stack, ok := in.arg.Any[r].([]types.Value)
		if !ok {
			continue
		}
		g := a.groups[in.groups[r]]
		if g == nil {
			g = handlers.NewProfile()
			a.groups[in.groups[r]] = g
		}
		var words [2]string // state and system call
		for i, c := range in.more {
			if !c.Nulls.Get(int(r)) {
				words[i] = c.Values[c.Code[r]]
			}
		}
		g.Add(a.frames.Frames(stack), handlers.StateOf(words[0], words[1]))
	}
}

// The state of TRIE is its profile.
const trieVersion = 1

func (a *trie) states(groups []uint32, out []batch.Column) {
	opaqueStates(groups, out, trieVersion, func(g uint32) int64 {
		if a.groups[g] == nil {
			return 0
		}
		return int64(a.groups[g].Samples())
	}, func(g uint32, to []byte) []byte { return a.groups[g].AppendBinary(to) })
}

func (a *trie) merge(in *folding, state []batch.Column) error {
	return mergeOpaque(in, state, trieVersion, func(g uint32, b []byte) bool {
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

func (a *trie) output(groups []uint32, out *batch.Column, _ instant) error {
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
