package structure

import (
	"endoscope/operators/encoders"
)

// balance is what a string of calls and returns does to the depth of the
// stack: how deep it comes at least, at any point, and where it ends, both
// relative to where it began.
type balance struct{ min, net int32 }

// then is the balance of a string and another behind it.
func (b balance) then(c balance) balance {
	return balance{min(b.min, b.net+c.min), b.net + c.net}
}

func (g *sequitur) balanceOf(v uint32) balance {
	switch {
	case isRule(v):
		return g.rules[v&^ruleBit].balance
	case v == encoders.Return:
		return balance{-1, -1}
	}
	return balance{0, 1}
}
