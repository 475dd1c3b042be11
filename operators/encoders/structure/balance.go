package structure

import (
	"endoscope/operators/encoders"
)

// balance is the effect of a string of calls and returns on the depth of the stack: the
// minimum depth reached and the final depth, both relative to the start.
type balance struct{ min, net int32 }

// then returns the balance of a string followed by another.
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
