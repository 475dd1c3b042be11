package uprobe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/process"
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

// addLandmarks adds the landmarks of Go's runtime in a module, if it has wants
// that need them.
func (r *resolver) addLandmarks(m *module, sym *symbols.Module, texts []*text) error {
	if !nests(r.spec) || !slices.ContainsFunc(r.wants, func(w want) bool {
		return w.module == m && w.returns == atExits && w.flags&goRegisters != 0
	}) {
		return nil
	}
	for _, l := range goLandmarks {
		for _, i := range sym.Find(l.function) { // not there if it is never called
			site, err := landmarkSite(sym, i, texts)
			if err != nil {
				e := plan.Errorf(r.spec.Start, r.spec.Stop, "cannot tell how calls nest in %s: %s cannot be probed: %v", m.name(), l.function, err)
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

// addUnwinders adds to the modules those with the unwinder of C++ and Rust,
// and its landmarks. Without it such calls are seen to be left by others in
// their frames.
func (r *resolver) addUnwinders(set *moduleSet, running []process.Process) error {
	if !nests(r.spec) || !slices.ContainsFunc(r.wants, func(w want) bool { return w.returns == atExits && w.flags&goRegisters == 0 }) {
		return nil
	}
	in := func(_, _, module string) (bool, error) { return strings.HasPrefix(module, "libgcc_s.so"), nil }
	libraries, err := findModules(r.spec.Target, running, &selector{inModule: in})
	if err != nil {
		return err
	}
	modules := slices.Clone(set.list) // which are linked with it statically
	for _, m := range libraries.list {
		if set.byFile[m.id] != nil {
			m.file.Close()
			continue
		}
		set.byFile[m.id] = m
		set.list = append(set.list, m)
		modules = append(modules, m)
	}
	for _, m := range modules {
		sym, err := r.cache.Open(m.file, m.name())
		if err != nil {
			continue
		}
		err = r.addUnwinder(m, sym)
		sym.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) addUnwinder(m *module, sym *symbols.Module) error {
	u, ok := sym.Unwinder()
	if !ok {
		return nil
	}
	texts, err := r.texts(m)
	defer closeTexts(texts)
	if err != nil {
		return err
	}
	site, err := landmarkSite(sym, u.SetIP, texts)
	if err != nil {
		r.remarks = append(r.remarks, fmt.Sprintf("calls that exceptions leave are seen late: the unwinder in %s cannot be probed: %v", m.name(), err))
		return nil
	}
	for _, s := range r.scopes(m, atExits) {
		r.landmarks = append(r.landmarks, landmark{m, s, site, bpf.FunctionProgFrameUnwinding, u.CFA})
	}
	return nil
}

// landmarkSite is where function i is probed, at its entry.
func landmarkSite(sym *symbols.Module, i int, texts []*text) (symbols.Site, error) {
	site, err := sym.EntrySiteFor(i, symbols.Need{Args: true})
	if err != nil {
		return site, err
	}
	addr, _ := sym.Entry(i)
	if err := pairable(addr, site, nil); err != nil {
		return site, err
	}
	if reason := changed(texts, sym, i, want{site: site}); reason != "" {
		return site, errors.New(reason)
	}
	return site, nil
}
