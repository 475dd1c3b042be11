package resolve

import (
	"endoscope/planner/plan"
	"endoscope/probes/codesite"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

const PageSize = 4096

// checkTextCopy rejects a query that would make the kernel copy more code than the
// session allows: each page with a probe becomes private to each process that has
// mapped it, and every fork and exec copies it again.
func checkTextCopy(spec *plan.Acquire, set *selection.ModuleSet, wants []calls.Function, landmarks []calls.Landmark) error {
	limit := spec.Settings.MaxTextCopy
	if limit <= 0 {
		return nil
	}
	sites := map[*selection.Module][]codesite.Site{}
	for _, w := range wants {
		if sites[w.Module] == nil {
			sites[w.Module] = make([]codesite.Site, 0, len(wants))
		}
		sites[w.Module] = append(append(sites[w.Module], w.Site), w.Exits...)
	}
	for _, g := range landmarks {
		sites[g.Module] = append(sites[g.Module], g.Site)
	}
	var bytes int64
	processes := 0
	for _, m := range set.List {
		// Scopes per process repeat a module's sites; pages count once.
		n := max(len(m.Mapped), 1)
		bytes += int64(codesite.TextPages(sites[m])) * PageSize * int64(n)
		processes = max(processes, n)
	}
	if bytes <= limit {
		return nil
	}
	return plan.Errorf(spec.Start, spec.Stop, "probing %d functions in %d processes would copy %d KiB of code, and at most %d KiB may be copied",
		len(wants), processes, bytes>>10, limit>>10).
		WithHint("choose functions by name, or raise the limit: SET max_text_copy = %dKiB", bytes>>10)
}
