package uprobe

import (
	"testing"

	"endoscope/probes"
	"endoscope/probes/codesite"
	"endoscope/probes/uprobe/attach"
)

// TestPriceOfCalls: a call that is not wanted costs the entry; awaiting its return
// and making a row of it come on top, and add up to the price of all.
func TestPriceOfCalls(t *testing.T) {
	var c costs // the estimates
	trap := want{site: codesite.Site{Method: codesite.Emulated}, returns: trapped}
	p := c.call(trap, attach.Session)
	if p.Open != 480 || p.Shut != 480 || p.Open+p.Return+p.Row != 850+rowNs {
		t.Errorf("by a trap: %+v", p)
	}
	start := want{site: codesite.Site{Method: codesite.Stepped}}
	if p := c.call(start, attach.Session); p.Open != 17_900 || p.Return != 0 || p.Row != 100+rowNs {
		t.Errorf("a stepped entry alone: %+v", p)
	}
	// Exits trap whether or not anybody awaits the return.
	exits := want{site: codesite.Site{Method: codesite.Emulated}, returns: atExits, exits: []codesite.Site{{Method: codesite.Emulated}}}
	if p := c.call(exits, attach.Session); p.Return != 0 || p.Shut != 2*480 || p.Open <= p.Shut {
		t.Errorf("by exits: %+v", p)
	}
}

// TestPriceOfManyFunctions: what is called often decides.
func TestPriceOfManyFunctions(t *testing.T) {
	wants := []want{{size: 1}, {size: 2}, {size: 3, refused: true}}
	each := func(w want) probes.Price { return probes.Price{Open: float64(w.size) * 100, Shut: 10} }
	var p pricing
	if got := p.mean(wants, each); got.Open != 150 || got.Shut != 10 {
		t.Errorf("nothing is known of calls, and the mean is %+v", got)
	}
	p.lately = []uint64{1, 99, 1000}
	if got := p.mean(wants, each); got.Open != 199 || got.Shut != 10 {
		t.Errorf("one in a hundred calls is cheap, and the mean is %+v", got)
	}
}
