package resolve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/codesite"
	"endoscope/probes/elf"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// addLandmark adds a landmark at the entry of function i of a module, in all its
// scopes.
func (r *resolver) addLandmark(m *selection.Module, sym *elf.Module, i int, site codesite.Site, program string, cookie uint64) {
	_, begin := sym.Entry(i)
	for _, s := range r.scopes(m, calls.AtExits) {
		r.landmarks = append(r.landmarks, calls.Landmark{Module: m, Scope: s, Function: sym.Function(i).Name, Behind: site.Offset - begin, Site: site, Program: program, Cookie: cookie})
	}
}

type goLandmark struct{ function, program string }

// ordinaryEnd is where every goroutine ends: a context may be left open there.
var ordinaryEnd = goLandmark{"runtime.goexit1", bpf.FunctionProgGoroutineEnd}

// goLandmarks are the landmarks of Go's runtime, by the function that is probed at its
// entry.
var goLandmarks = []goLandmark{
	// A goroutine ends in the middle of calls: another one will reuse its g.
	{"runtime.Goexit", bpf.FunctionProgGoroutineEnd},
	// It is called by a returning function with deferred calls, or by the function in
	// which a panic was recovered.
	{"runtime.deferreturn", bpf.FunctionProgFrameLanding},
}

// addLandmarks adds the landmarks of Go's runtime in a module, if any of its functions
// needs them.
func (r *resolver) addLandmarks(m *selection.Module, sym *elf.Module, texts []*text) error {
	if !calls.Nests(r.spec) || !slices.ContainsFunc(r.wants, func(w calls.Function) bool {
		return w.Module == m && w.Returns == calls.AtExits && w.Flags&abi.GoRegisters != 0
	}) {
		return nil
	}
	landmarks := goLandmarks
	if c := r.spec.Follows; c != nil && c.End != nil {
		landmarks = append(slices.Clip(landmarks), ordinaryEnd)
	}
	for _, l := range landmarks {
		for _, i := range sym.Find(l.function) { // absent if it is never called
			site, err := landmarkSite(sym, i, texts)
			if err != nil {
				e := plan.Errorf(r.spec.Start, r.spec.Stop, "how calls nest in %s is unknown: %s cannot be probed: %v", m.Name(), l.function, err)
				if r.spec.Stream != catalog.FunctionCall {
					e = e.WithHint("leave out %s", strings.Join(calls.Nesting(r.spec), " and "))
				}
				return e
			}
			r.addLandmark(m, sym, i, site, l.program, abi.GoRegisters|calls.SpOffset(site))
		}
	}
	return nil
}

// addJumps adds the landmarks of C, C++ and Rust: the unwinder and longjmp, with the
// modules that contain them. Without a landmark, an abandoned call is detected when
// another call uses its frame. depth relies on that for longjmp: longjmp is rare, and
// its landmarks would add two probes to the many queries that read depth.
func (r *resolver) addJumps(set *selection.ModuleSet, running []process.Process) error {
	native := map[calls.Returns]bool{}
	for _, w := range r.wants {
		if w.Flags&abi.GoRegisters == 0 {
			native[w.Returns] = true
		}
	}
	if !native[calls.AtExits] && !(native[calls.Trapped] && r.spec.Stream == catalog.FunctionCall) || !calls.Nests(r.spec) && !selection.OfMemory(r.spec) {
		return nil
	}
	runtime := func(_, _, module string) (bool, error) {
		return selection.IsLibgcc(module) || selection.IsLibc(module), nil
	}
	libraries, err := selection.Find(r.spec.Target, running, &selection.Selector{InModule: runtime})
	if err != nil {
		return err
	}
	if err := libraries.AddLibraries(set, func(name string) bool { return selection.IsLibgcc(name) || selection.IsLibc(name) }); err != nil {
		libraries.Close()
		return err
	}
	modules := slices.Clone(set.List) // some of these may be linked statically
	for _, m := range libraries.List {
		if set.ByFile[m.ID] != nil {
			m.File.Close()
			continue
		}
		set.ByFile[m.ID] = m
		set.List = append(set.List, m)
		modules = append(modules, m)
	}
	for _, m := range modules {
		sym, err := r.cache.Open(m.File, m.Name())
		if err != nil {
			continue
		}
		err = r.addJumpsOf(m, sym, native[calls.Trapped])
		sym.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// longjmps are the C library's functions that continue where setjmp was called.
var longjmps = []string{"longjmp", "_longjmp", "siglongjmp", "__longjmp_chk"}

// addJumpsOf adds the landmarks of a module. traps says whether functions have return
// traps; traps are not set where exceptions unwind.
func (r *resolver) addJumpsOf(m *selection.Module, sym *elf.Module, traps bool) error {
	type mark struct {
		function int
		program  string
		cookie   uint64
	}
	var marks []mark
	if u, ok := codesite.In(sym).Unwinder(); ok && !traps {
		marks = append(marks, mark{u.SetIP, bpf.FunctionProgFrameUnwinding, u.CFA})
	}
	if r.spec.Stream == catalog.FunctionCall && (selection.IsLibc(m.Name()) || len(sym.Find("__libc_start_main")) > 0) {
		program := bpf.FunctionProgFrameJump
		if traps {
			program = bpf.FunctionProgCallJump
		}
		for _, name := range longjmps {
			for _, i := range sym.Find(name) {
				if !slices.ContainsFunc(marks, func(k mark) bool { return k.function == i }) {
					marks = append(marks, mark{i, program, 0})
				}
			}
		}
	}
	if len(marks) == 0 {
		return nil
	}
	texts, err := r.texts(m)
	defer closeTexts(texts)
	if err != nil {
		return err
	}
	for _, k := range marks {
		site, err := landmarkSite(sym, k.function, texts)
		if err != nil {
			r.remarks = append(r.remarks, fmt.Sprintf("calls that are left without returning are seen late: %s in %s cannot be probed: %v", sym.Function(k.function).Name, m.Name(), err))
			continue
		}
		r.addLandmark(m, sym, k.function, site, k.program, k.cookie)
	}
	return nil
}

// landmarkSite returns the site at which function i is probed at its entry.
func landmarkSite(sym *elf.Module, i int, texts []*text) (codesite.Site, error) {
	site, err := codesite.In(sym).EntrySiteFor(i, codesite.Need{Args: true})
	if err != nil {
		return site, err
	}
	addr, _ := sym.Entry(i)
	if err := calls.Pairable(addr, site, nil); err != nil {
		return site, err
	}
	if reason := changed(texts, sym, i, calls.Function{Site: site}); reason != "" {
		return site, errors.New(reason)
	}
	return site, nil
}
