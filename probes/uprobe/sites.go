package uprobe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"endoscope/probes"
	"endoscope/probes/symbols"
)

// site identifies what several queries probe alike.
type site struct {
	file   fileID
	offset uint64
	kind   string
	scope  string
}

// sitesOf lists the functions that are probed, once for each site, with how
// many queries do and how often it was hit since the first of those began.
func sitesOf(active map[*source]*installation) []probes.Site {
	bySite := map[site]*probes.Site{}
	var per []uint64
	for s, in := range active {
		for i, w := range s.resolution.wants {
			if w.refused {
				continue
			}
			key := site{w.module.id, w.site.Offset, kindOf(w, s.links), w.scope.key}
			at := bySite[key]
			if at == nil {
				described := siteOf(w, s.links)
				at = &described
				bySite[key] = at
			}
			at.Queries++
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

// sites describes the wants, for EXPLAIN: entries, and exits where those are
// probed.
func sites(ws []want, links linkKind) []probes.Site {
	var out []probes.Site
	for _, w := range ws {
		if w.refused {
			continue
		}
		entry := siteOf(w, links)
		out = append(out, entry)
		for _, x := range w.exits {
			exit := entry
			exit.Address, exit.Method, exit.Kind, exit.CostNs = x.Offset, x.Method, kindExit+suffix(links), costNs[kindExit][x.Method]
			// A cold path may lie anywhere.
			exit.Behind = 0
			if begin := entry.Address - entry.Behind; x.Offset > begin {
				exit.Behind = x.Offset - begin
			}
			out = append(out, exit)
		}
	}
	return out
}

// siteOf describes the entry of a want.
func siteOf(w want, links linkKind) probes.Site {
	s := probes.Site{
		Provider: "uprobe", Function: w.label.function, Module: w.label.module,
		Address: w.site.Offset, Behind: w.behind, Method: w.site.Method, Kind: kindOf(w, links),
	}
	price := kindEntry
	switch {
	case w.returns == trapped && links == linkSession:
		price = kindSession
	case w.returns == trapped:
		price = kindPair
	case w.returns == atExits:
		price = kindExits
	}
	s.CostNs = costNs[price][w.site.Method]
	return s
}

// kindOf is the probes.Site.Kind of a want.
func kindOf(w want, links linkKind) string {
	switch w.returns {
	case trapped:
		return "entry+return (" + links.String() + ")"
	case atExits:
		return fmt.Sprintf("%s (%d)%s", kindExits, len(w.exits), suffix(links))
	}
	return kindEntry + suffix(links)
}

// suffix tells of links that are not the usual ones.
func suffix(links linkKind) string {
	if links == linkPerf {
		return " (perf)"
	}
	return ""
}

// What is priced, and in probes.Site.Kind.
const (
	kindEntry   = "entry"
	kindSession = "entry+return, session"
	kindPair    = "entry+return, pair"
	kindExits   = "entry+exits" // with how many
	kindExit    = "exit"
)

// costNs estimates what a call costs the target, in ns; where exits are probed,
// its entry and its exit. The figures are rounded from measurements in a virtual
// machine with Linux 6.18, of simpler programs where ours were not measured
// (BenchmarkCall measures emulated sites alone). They order alternatives; they
// are no promise.
var costNs = map[string]map[string]float64{
	kindEntry:   {symbols.Emulated: 690, symbols.Nop: 302, symbols.Stepped: 18_000},
	kindSession: {symbols.Emulated: 950, symbols.Nop: 640, symbols.Stepped: 18_200},
	kindPair:    {symbols.Emulated: 1_100, symbols.Nop: 950, symbols.Stepped: 18_500},
	kindExits:   {symbols.Emulated: 550, symbols.Nop: 320, symbols.Stepped: 18_000},
	kindExit:    {symbols.Emulated: 500, symbols.Nop: 270, symbols.Stepped: 18_000},
}

// steppedNotices name the functions that have no instruction that is cheap to
// probe, be it where they begin or where they return.
func steppedNotices(ws []want) (out []string) {
	name := func(event string, dear func(want) bool) {
		var names []string
		seen := map[string]bool{}
		for _, w := range ws {
			if dear(w) && !seen[w.label.function] {
				seen[w.label.function] = true
				names = append(names, w.label.function)
			}
		}
		if len(names) == 0 {
			return
		}
		shown, more := names, ""
		if len(names) > maxNamed {
			shown, more = names[:maxNamed], fmt.Sprintf(" and %d more", len(names)-maxNamed)
		}
		out = append(out, fmt.Sprintf("a %s of %s%s costs about 18us more: the kernel must single-step what is probed there", event, strings.Join(shown, ", "), more))
	}
	name("call", func(w want) bool { return w.site.Method == symbols.Stepped })
	name("return", func(w want) bool {
		return len(w.exits) > 0 && !slices.ContainsFunc(w.exits, func(s symbols.Site) bool { return s.Method != symbols.Stepped })
	})
	return out
}
