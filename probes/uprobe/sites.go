package uprobe

import (
	"cmp"
	"slices"

	"endoscope/probes"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/resolve"
)

// site identifies a probe that several queries have in common.
type site struct {
	file   process.FileID
	offset uint64
	kind   string
	scope  string
}

// sitesOf lists the probed functions, once for each site, with the sources that probe it
// and its hits since the first of them began.
func sitesOf(active map[*source]*program.Installation) []probes.Site {
	bySite := map[site]*probes.Site{}
	var per []uint64
	for s, in := range active {
		if len(in.Links) == 0 { // behind a gate that is shut for long
			continue
		}
		for i, w := range s.resolution.Functions {
			if w.Refused || w.Module.Written || !s.part.has(i) {
				continue
			}
			key := site{w.Module.ID, w.Site.Offset, resolve.KindOf(w, s.links), w.Scope.Key}
			at := bySite[key]
			if at == nil {
				described := s.resolution.SiteOf(w, s.links, s.aggregation != nil)
				at = &described
				bySite[key] = at
			}
			at.Sources = append(at.Sources, s.shown())
			at.Hits = max(at.Hits, in.Hits(uint32(i), &per))
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

// shown returns the source known to the engine.
func (s *source) shown() probes.Source {
	if s.owner != nil {
		return s.owner
	}
	return s
}
