package resolve

import (
	"cmp"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/codesite"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// returnsOf decides how the returns of function i of sym are observed, and at which
// exits, if at exits; reason says why they cannot be observed. Those of a function that begins
// or ends the context are observed at exits.
func (r *resolver) returnsOf(sym *elf.Module, i int, marked bool) (how calls.Returns, exits []codesite.Site, reason string) {
	if !r.returns {
		return calls.Unseen, nil, ""
	}
	if addr, _ := sym.Entry(i); addr == sym.Image().ELF.Entry {
		return calls.Unseen, nil, "the program begins there, and nothing calls it"
	}
	if r.returnsBy != plan.ExitReturns && !marked {
		var safe bool
		trap := codesite.In(sym).ReturnTrap
		if selection.OfMemory(r.spec) {
			trap = func(i int) (bool, string) { return allocatorTrap(sym, i) }
		}
		if safe, reason = trap(i); safe {
			reason = r.through
			safe = reason == ""
		}
		if safe {
			return calls.Trapped, nil, ""
		}
		if r.returnsBy == plan.TrapReturns {
			return calls.Unseen, nil, reason
		}
	}
	need := codesite.Need{Results: marked || calls.ReadsResults(r.spec.Out, r.spec.Results), Prices: r.costs.Sites()}
	need.Value = need.Results || calls.Reads(r.spec.Out, calls.ColRetval) || selection.OfMemory(r.spec)
	exits, err := codesite.In(sym).ExitSitesFor(i, need)
	if err != nil {
		return calls.Unseen, nil, both(reason, "it "+err.Error())
	}
	if selection.OfMemory(r.spec) {
		if exits, reason = r.allocatorExits(sym, i, exits); reason != "" {
			return calls.Unseen, nil, reason
		}
	}
	return calls.AtExits, exits, ""
}

// both joins the reasons against a trap and against exits, which may be the same.
func both(trap, exits string) string {
	if trap == "" || strings.HasSuffix(trap, exits) {
		return cmp.Or(trap, exits)
	}
	return trap + ", and " + exits
}

// mixed reports whether the query needs the nesting of calls while some returns are
// trapped and some are observed at exits: the two methods do not see each other's
// calls.
func (r *resolver) mixed() bool {
	how := map[calls.Returns]bool{}
	for _, w := range r.wants {
		how[w.Returns] = true
	}
	return how[calls.Trapped] && how[calls.AtExits] && calls.Nests(r.spec)
}
