package resolve

import (
	"fmt"
	"slices"
	"strings"

	"endoscope/probes"
	"endoscope/probes/codesite"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
)

// Sites describes the functions for EXPLAIN: entries, and exits where those are
// probed.
func (r *Resolution) Sites(links attach.Kind, aggregated bool) []probes.Site {
	out := make([]probes.Site, 0, len(r.Functions))
	for _, w := range r.Functions {
		if w.Refused {
			continue
		}
		entry := r.SiteOf(w, links, aggregated)
		out = append(out, entry)
		for _, x := range w.Exits {
			exit := entry
			exit.Address, exit.Method, exit.Kind = x.Offset, x.Method, KindExit+suffix(links)
			exit.CostNs, exit.Estimated = r.Costs.Site(w, x.Method, links, aggregated)
			// A cold path may lie anywhere.
			exit.Behind = 0
			if begin := entry.Address - entry.Behind; x.Offset > begin {
				exit.Behind = x.Offset - begin
			}
			out = append(out, exit)
		}
	}
	for i, l := range r.Landmarks {
		if slices.ContainsFunc(r.Landmarks[:i], func(o calls.Landmark) bool { return o.Module == l.Module && o.Site.Offset == l.Site.Offset }) {
			continue // the same site in another scope
		}
		s := probes.Site{
			Provider: "uprobe", Function: l.Function, Module: l.Module.Name(),
			Address: l.Site.Offset, Behind: l.Behind, Method: l.Site.Method, Kind: KindLandmark + suffix(links),
		}
		if l.Switches() {
			s.Kind = KindSwitch + suffix(links)
		}
		s.CostNs, s.Estimated = r.Costs.Price(calls.PriceCounted, l.Site.Method)
		out = append(out, s)
	}
	return append(out, inferredSites(r.Inferred, r.Functions)...)
}

// SiteOf describes the entry of a function.
func (r *Resolution) SiteOf(w calls.Function, links attach.Kind, aggregated bool) probes.Site {
	s := probes.Site{
		Provider: "uprobe", Function: w.Label.Function, Module: w.Label.Module,
		Address: w.Site.Offset, Behind: w.Behind, Method: w.Site.Method, Kind: KindOf(w, links),
	}
	s.CostNs, s.Estimated = r.Costs.Site(w, w.Site.Method, links, aggregated)
	return s
}

// KindOf returns the probes.Site.Kind of a function.
func KindOf(w calls.Function, links attach.Kind) string {
	if w.Counter {
		return kindCounter + suffix(links)
	}
	switch w.Returns {
	case calls.Trapped:
		return "entry+return (" + links.String() + ")"
	case calls.ReportedReturn:
		return KindExit + suffix(links)
	case calls.AtExits:
		return fmt.Sprintf("%s (%d)%s", KindExits, len(w.Exits), suffix(links))
	}
	return kindEntry + suffix(links)
}

// suffix names a kind of link other than the usual one.
func suffix(links attach.Kind) string {
	if links == attach.Perf {
		return " (perf)"
	}
	return ""
}

// Values of probes.Site.Kind.
const (
	kindEntry = "entry"
	// Nothing is reported at such a probe.
	kindCounter = "counter"
	KindExits   = "entry+exits" // followed by their number
	KindExit    = "exit"
	// KindLandmark is the kind of sites outside the functions that the query selects.
	KindLandmark = "calls left without returning"
	// KindSwitch is the kind of sites where a thread continues on another stack.
	KindSwitch = "switch to another stack"
)

// steppedNotices name the functions without an instruction that is cheap to probe, at
// their beginning or at their returns.
func steppedNotices(ws []calls.Function, c calls.Costs) (out []string) {
	name := func(event string, dear func(calls.Function) bool) {
		var names []string
		seen := map[string]bool{}
		for _, w := range ws {
			if dear(w) && !seen[w.Label.Function] {
				seen[w.Label.Function] = true
				names = append(names, w.Label.Function)
			}
		}
		if len(names) == 0 {
			return
		}
		shown, more := names, ""
		if len(names) > MaxNamed {
			shown, more = names[:MaxNamed], fmt.Sprintf(" and %d more", len(names)-MaxNamed)
		}
		out = append(out, fmt.Sprintf("a %s of %s%s costs about %s more: the kernel must single-step what is probed there", event, strings.Join(shown, ", "), more, c.SingleStep()))
	}
	name("call", func(w calls.Function) bool { return w.Site.Method == codesite.Stepped && !w.Counter })
	name("return", func(w calls.Function) bool {
		return len(w.Exits) > 0 && !slices.ContainsFunc(w.Exits, func(s codesite.Site) bool { return s.Method != codesite.Stepped })
	})
	return out
}

// inferredSites describes the functions without a probe, for EXPLAIN.
func inferredSites(list []calls.Inferred, ws []calls.Function) (out []probes.Site) {
	for _, f := range list {
		if f.Withdrawn {
			continue
		}
		var names []string
		for i, s := range f.Sum {
			if i == MaxNamed {
				break
			}
			name := ws[s.Want].Label.Function
			if s.Times > 1 {
				name = fmt.Sprintf("%d x %s", s.Times, name)
			}
			names = append(names, name)
		}
		from := strings.Join(names, " + ")
		if n := len(f.Sum); n > MaxNamed {
			from += fmt.Sprintf(" and %d more", n-MaxNamed)
		}
		out = append(out, probes.Site{
			Provider: "uprobe", Function: f.Label.Function, Module: f.Label.Module, Address: f.Entry,
			Kind: "no probe, inferred from " + from,
		})
	}
	return out
}
