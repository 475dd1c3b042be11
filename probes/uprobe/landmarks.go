package uprobe

import (
	"slices"

	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/symbols"
)

// landmark is a place in the run-time support of a language that is passed when
// calls are left without returning. What comes behind must not be taken for
// being enclosed by them, which matters to how calls nest alone.
type landmark struct {
	module  *module
	scope   *scope
	site    symbols.Site
	program string
	cookie  uint64
}

// goLandmarks are those of Go's runtime, by the function at whose entry they are.
var goLandmarks = []struct{ function, program string }{
	// A goroutine begins to end that is in the middle of calls: another will
	// have its g.
	{"runtime.Goexit", bpf.FunctionProgGoroutineEnd},
	// It is called by a function with deferred calls that returns, or to which
	// a panic that was recovered has led.
	{"runtime.deferreturn", bpf.FunctionProgFrameLanding},
}

// addLandmarks adds the landmarks of a module, if it has wants that need them.
func (r *resolver) addLandmarks(m *module, sym *symbols.Module, texts []*text) error {
	if !nests(r.spec) || !slices.ContainsFunc(r.wants, func(w want) bool {
		return w.module == m && w.returns == atExits && w.flags&goRegisters != 0
	}) {
		return nil
	}
	for _, l := range goLandmarks {
		for _, i := range sym.Find(l.function) { // not there if it is never called
			site, err := sym.EntrySiteFor(i, symbols.Need{Args: true})
			reason := ""
			if err == nil {
				addr, _ := sym.Entry(i)
				err = pairable(addr, site, nil)
			}
			if err == nil {
				reason = changed(texts, sym, i, want{site: site})
			} else {
				reason = err.Error()
			}
			if reason != "" {
				e := plan.Errorf(r.spec.Start, r.spec.Stop, "cannot tell how calls nest in %s: %s cannot be probed: %s", m.name(), l.function, reason)
				if r.spec.Stream != FunctionCall {
					e = e.WithHint("leave out the column depth")
				}
				return e
			}
			for _, s := range r.scopes(m, atExits) {
				r.landmarks = append(r.landmarks, landmark{m, s, site, l.program, goRegisters | spOffset(site)})
			}
		}
	}
	return nil
}
