package uprobe

import (
	"cmp"
	"slices"

	"endoscope/probes"
)

// site identifies what several queries probe alike.
type site struct {
	file    fileID
	offset  uint64
	returns bool
	scope   string
}

// sitesOf lists the functions that are probed, once for each site, with how
// many queries do and how often it was hit since the first of those began.
func sitesOf(active map[*source]*installation, returnKind string) []probes.Site {
	bySite := map[site]*probes.Site{}
	var per []uint64
	for s, in := range active {
		for i, w := range s.resolution.wants {
			key := site{w.module.id, w.site.Offset, w.returns, w.scope.key}
			at := bySite[key]
			if at == nil {
				described := siteOf(w, returnKind)
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
