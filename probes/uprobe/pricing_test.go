package uprobe

import (
	"testing"

	"endoscope/probes"
	"endoscope/probes/codesite"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
)

// TestPriceOfCalls: a rejected call costs the entry; awaiting its return and making a
// row of it are added, and the sum is the price of the whole.
func TestPriceOfCalls(t *testing.T) {
	var c calls.Costs // the estimates
	trap := calls.Function{Site: codesite.Site{Method: codesite.Emulated}, Returns: calls.Trapped}
	p := c.Call(trap, attach.Session)
	if p.Open != 480 || p.Shut != 480 || p.Open+p.Return+p.Row != 850+calls.RowNs {
		t.Errorf("by a trap: %+v", p)
	}
	start := calls.Function{Site: codesite.Site{Method: codesite.Stepped}}
	if p := c.Call(start, attach.Session); p.Open != 17_900 || p.Return != 0 || p.Row != 100+calls.RowNs {
		t.Errorf("a stepped entry alone: %+v", p)
	}
	// Exits trap whether or not the return is awaited.
	exits := calls.Function{Site: codesite.Site{Method: codesite.Emulated}, Returns: calls.AtExits, Exits: []codesite.Site{{Method: codesite.Emulated}}}
	if p := c.Call(exits, attach.Session); p.Return != 0 || p.Shut != 2*480 || p.Open <= p.Shut {
		t.Errorf("by exits: %+v", p)
	}
}

// TestPriceOfManyFunctions: functions called often dominate the mean.
func TestPriceOfManyFunctions(t *testing.T) {
	wants := []calls.Function{{Size: 1}, {Size: 2}, {Size: 3, Refused: true}}
	each := []probes.Price{{Open: 100, Shut: 10}, {Open: 200, Shut: 10}, {Open: 300, Shut: 10}}
	var p pricing
	if got := p.mean(wants, each); got.Open != 150 || got.Shut != 10 {
		t.Errorf("nothing is known of calls, and the mean is %+v", got)
	}
	p.lately = []uint64{1, 99, 1000}
	if got := p.mean(wants, each); got.Open != 199 || got.Shut != 10 {
		t.Errorf("one in a hundred calls is cheap, and the mean is %+v", got)
	}
}
