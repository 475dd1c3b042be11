package uprobe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"endoscope/probes"
	"endoscope/probes/codesite"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
)

// site identifies what several queries probe alike.
type site struct {
	file   process.FileID
	offset uint64
	kind   string
	scope  string
}

// sitesOf lists the functions that are probed, once for each site, with the
// sources that do and how often it was hit since the first of those began.
func sitesOf(active map[*source]*installation) []probes.Site {
	bySite := map[site]*probes.Site{}
	var per []uint64
	for s, in := range active {
		if len(in.links) == 0 { // behind a gate that is shut for long
			continue
		}
		for i, w := range s.resolution.wants {
			if w.Refused || w.Module.Written {
				continue
			}
			key := site{w.Module.Id, w.Site.Offset, kindOf(w, s.links), w.Scope.Key}
			at := bySite[key]
			if at == nil {
				described := s.resolution.siteOf(w, s.links, s.aggregation != nil)
				at = &described
				bySite[key] = at
			}
			at.Sources = append(at.Sources, s.shown())
			at.Hits = max(at.Hits, in.hits(uint32(i), &per))
		}
	}
	var out []probes.Site
	for _, s := range bySite {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b probes.Site) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

// shown is the source that the engine knows.
func (s *source) shown() probes.Source {
	if s.owner != nil {
		return s.owner
	}
	return s
}

// sites describes the wants, for EXPLAIN: entries, and exits where those are
// probed.
func (r *resolution) sites(links attach.Kind, aggregated bool) []probes.Site {
	out := make([]probes.Site, 0, len(r.wants))
	for _, w := range r.wants {
		if w.Refused {
			continue
		}
		entry := r.siteOf(w, links, aggregated)
		out = append(out, entry)
		for _, x := range w.Exits {
			exit := entry
			exit.Address, exit.Method, exit.Kind = x.Offset, x.Method, kindExit+suffix(links)
			exit.CostNs, exit.Estimated = r.costs.Site(w, x.Method, links, aggregated)
			// A cold path may lie anywhere.
			exit.Behind = 0
			if begin := entry.Address - entry.Behind; x.Offset > begin {
				exit.Behind = x.Offset - begin
			}
			out = append(out, exit)
		}
	}
	for i, l := range r.landmarks {
		if slices.ContainsFunc(r.landmarks[:i], func(o calls.Landmark) bool { return o.Module == l.Module && o.Site.Offset == l.Site.Offset }) {
			continue // of another scope
		}
		s := probes.Site{
			Provider: "uprobe", Function: l.Function, Module: l.Module.Name(),
			Address: l.Site.Offset, Behind: l.Behind, Method: l.Site.Method, Kind: kindLandmark + suffix(links),
		}
		s.CostNs, s.Estimated = r.costs.Price(calls.PriceCounted, l.Site.Method)
		out = append(out, s)
	}
	return append(out, inferredSites(r.inferred, r.wants)...)
}

// siteOf describes the entry of a want.
func (r *resolution) siteOf(w calls.Function, links attach.Kind, aggregated bool) probes.Site {
	s := probes.Site{
		Provider: "uprobe", Function: w.Label.Function, Module: w.Label.Module,
		Address: w.Site.Offset, Behind: w.Behind, Method: w.Site.Method, Kind: kindOf(w, links),
	}
	s.CostNs, s.Estimated = r.costs.Site(w, w.Site.Method, links, aggregated)
	return s
}

// kindOf is the probes.Site.Kind of a want.
func kindOf(w calls.Function, links attach.Kind) string {
	switch w.Returns {
	case calls.Trapped:
		return "entry+return (" + links.String() + ")"
	case calls.JavaReturn:
		return kindExit + suffix(links)
	case calls.AtExits:
		return fmt.Sprintf("%s (%d)%s", kindExits, len(w.Exits), suffix(links))
	}
	return kindEntry + suffix(links)
}

// suffix tells of links that are not the usual ones.
func suffix(links attach.Kind) string {
	if links == attach.Perf {
		return " (perf)"
	}
	return ""
}

// In probes.Site.Kind.
const (
	kindEntry = "entry"
	kindExits = "entry+exits" // with how many
	kindExit  = "exit"
	// kindLandmark is not of the functions that the query means.
	kindLandmark = "calls left without returning"
)

// steppedNotices name the functions that have no instruction that is cheap to
// probe, be it where they begin or where they return.
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
		if len(names) > maxNamed {
			shown, more = names[:maxNamed], fmt.Sprintf(" and %d more", len(names)-maxNamed)
		}
		out = append(out, fmt.Sprintf("a %s of %s%s costs about %s more: the kernel must single-step what is probed there", event, strings.Join(shown, ", "), more, c.SingleStep()))
	}
	name("call", func(w calls.Function) bool { return w.Site.Method == codesite.Stepped })
	name("return", func(w calls.Function) bool {
		return len(w.Exits) > 0 && !slices.ContainsFunc(w.Exits, func(s codesite.Site) bool { return s.Method != codesite.Stepped })
	})
	return out
}
