package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/codesite"
	"endoscope/probes/elf"
	"endoscope/probes/lang/java"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// Resolution is the result of Resolve.
type Resolution struct {
	Running []process.Process
	Modules *selection.ModuleSet
	// Selector chose the modules.
	Selector  *selection.Selector
	Functions []calls.Function
	// Inferred functions have no probes; their counts follow from those of Functions.
	Inferred  []calls.Inferred
	Landmarks []calls.Landmark
	Members   []bpf.FunctionTarget // processes, for the functions whose programs check the process
	Only      uint32               // the flags of the properties that identify Members
	Cgroups   uint32               // levels of the viewer's cgroups
	Costs     calls.Costs
	Notices   []string
	Slots     calls.GoSlots
	// Python: the functions are Python's, reported by their interpreters. OnlyReturns: only
	// returns are reported, each of which is an event.
	Python, OnlyReturns bool
}

// Probes returns the number of probed places.
func (r *Resolution) Probes() (n int) {
	for _, w := range r.Functions {
		n += w.Probes()
	}
	return n + len(r.Landmarks)
}

// ReturnKinds returns the ways in which the functions' returns are observed.
func (r *Resolution) ReturnKinds() map[calls.Returns]bool {
	how := map[calls.Returns]bool{}
	for _, w := range r.Functions {
		how[w.Returns] = true
	}
	return how
}

// Knows reports whether p is one of the processes found, and not a later process with
// the same pid.
func (r *Resolution) Knows(p process.Process) bool {
	return slices.ContainsFunc(r.Running, func(q process.Process) bool {
		return q.PID == p.PID && q.StartTime == p.StartTime
	})
}

// Finder finds the modules whose functions a selection can match.
type Finder func(plan.Target, []process.Process, *selection.Selector) (*selection.ModuleSet, error)

// Resolve determines what spec refers to on this machine. It attaches nothing. placed returns
// the file offsets of a file's places that other queries probe.
func Resolve(spec *plan.Acquire, compile selection.Matcher, cache *elf.Cache, values []*calls.Value, links attach.Kind, returns bool, by plan.ReturnProbes, prices func() calls.Costs, find Finder, placed func(process.FileID) []uint64) (*Resolution, error) {
	if spec.Target.IsZero() {
		return nil, plan.Errorf(spec.Start, spec.Stop, "%s needs a process", spec.Stream).
			WithHint("add WHERE pid = N, process = 'name' or exe = '/path', or run USE 'name' before")
	}
	by, err := restrictReturns(spec, links, by)
	if err != nil {
		return nil, err
	}
	running, err := process.Resolve(spec.Target)
	if err != nil {
		return nil, err
	}
	if len(spec.Target.Files) > 0 && calls.Nests(spec) {
		return nil, plan.Errorf(spec.Start, spec.Stop, "how calls nest is not known where all processes are observed").
			WithHint("leave out depth and self_time, or add WHERE process = 'name'")
	}
	sel, err := selection.New(spec.Select, compile)
	if err != nil {
		return nil, err
	}
	if selection.OfMemory(spec) {
		sel.Memory = spec.Stream
		if sel.InModule == nil {
			sel.InModule = func(string, string, string) (bool, error) { return true, nil }
		}
	}
	modules, refuse := sel, selection.RefusePaths
	if sel.Python {
		modules, refuse = interpreters(), selection.RefuseBareFiles
	}
	if err := refuse(spec); err != nil {
		return nil, err
	}
	set, err := find(spec.Target, running, modules)
	if err != nil {
		return nil, err
	}
	if selection.OfMemory(spec) {
		if err := set.AddStarting(spec.Target, running); err != nil {
			set.Close()
			return nil, err
		}
	}
	list, only := selection.Members(spec.Target, running)
	who, cgroups := visibility(spec.Target.Viewer)
	if len(who) > 0 {
		only |= abi.Guarded
	}
	marks, err := calls.MarksOf(cmp.Or(spec.Follows, spec.Context), compile)
	if err != nil {
		set.Close()
		return nil, err
	}
	harmed := newTrapCheck(attach.KernelAtLeast)
	r := &resolver{returnsHarmed: harmed, marks: marks, values: values, spec: spec, sel: sel, links: links, prices: prices, returns: returns, returnsBy: by, members: keyOf(spec.Target, list), cache: cache, placed: placed}
	if len(set.List) == 0 && !sel.Python {
		return nil, &NoModules{r.noModules(running), sel, running}
	}
	reported, err := r.reported(set, running)
	if err == nil && !reported {
		err = r.resolve(set, cache)
	}
	var coroutines switchingModules
	if err == nil && !reported && r.followsCoroutines() {
		coroutines = r.findSwitches(set, running)
	}
	if err == nil && (r.mixed() || r.exitsForCoroutines(coroutines)) {
		r = &resolver{returnsHarmed: harmed, marks: marks, values: values, spec: spec, sel: sel, links: links, prices: prices, returns: returns, returnsBy: plan.ExitReturns, members: r.members, cache: cache, placed: placed}
		err = r.resolve(set, cache)
	}
	if err != nil {
		if none, ok := err.(*NoFunction); ok && len(Machines(running, false)) > 0 && sel.InModule == nil && !sel.Marked {
			none.Why = none.Why.WithHint(java.Hint)
		}
		coroutines.close(set)
		set.Close()
		return nil, err
	}
	if err := r.addSwitches(set, coroutines); err != nil {
		set.Close()
		return nil, err
	}
	if err := r.addJumps(set, running); err != nil {
		set.Close()
		return nil, err
	}
	if err := checkTextCopy(spec, set, r.wants, r.landmarks); err != nil {
		set.Close()
		return nil, err
	}
	if len(spec.Target.Files) > 0 {
		r.remarks = append(r.remarks, inAll(set))
	}
	return &Resolution{Running: running, Modules: set, Selector: sel, Functions: r.wants, Inferred: r.inferred, Landmarks: r.landmarks, Members: append(list, who...), Only: only, Cgroups: cgroups, Costs: r.costs, Notices: r.notices(), Slots: r.slots,
		Python: sel.Python, OnlyReturns: sel.Python && spec.Stream == catalog.FunctionEnd}, nil
}

// keyOf returns the key of a target's processes, of which list holds those that the programs
// compare with.
func keyOf(t plan.Target, list []bpf.FunctionTarget) string {
	key := selection.KeyOf(list)
	if t.Follow {
		key = fmt.Sprint("children of ", t.PIDs, " ", key)
	}
	return key
}

// resolver is the state of one call of Resolve.
type resolver struct {
	spec       *plan.Acquire
	values     []*calls.Value   // by column; nil: no value
	signatures calls.Signatures // of the current module
	sel        *selection.Selector
	links      attach.Kind
	prices     func() calls.Costs // called only if there is something to probe
	costs      calls.Costs
	reads      codesite.Need // of all functions, but for Return; set by decide, as the next two
	paired     bool          // an entry and its exits must be found by the frame of the call
	methods    bool          // columns of methods are read
	returns    bool          // whether returns are observed,
	returnsBy  plan.ReturnProbes
	members    string // key of the target's processes
	// marks are the functions that begin and end the context that is followed, or read. Their
	// probes are the same in both acquisitions, which follows and reads at them in turn.
	marks *calls.Marks

	cache   *elf.Cache
	through string // of the current module: the process or program named by unwound and hardened
	// returnsHarmed returns, from a process's status, why traps would harm the
	// process; nil: traps harm no process.
	returnsHarmed func(status string) string

	unwindingProcesses map[int]bool    // results of hasUnwinder
	unwindingPrograms  map[string]bool // results of willUnwind

	wants     []calls.Function
	inferred  []calls.Inferred
	landmarks []calls.Landmark
	selected  int
	skipped   []Skipped
	remarks   []string
	slots     calls.GoSlots
	noReturn  int              // of skipped: only the return cannot be observed
	found     map[string]bool  // of sel.Names: some module has it
	unplaced  map[string]error // why places were not found, by name
	// placed returns the file offsets of places that are probed.
	placed  func(process.FileID) []uint64
	looked  []string // names of the modules searched
	nearest func(name string) []string
	// markedNames are the names of the marked places in the modules searched.
	markedNames []string
}

func (r *resolver) resolve(set *selection.ModuleSet, cache *elf.Cache) error {
	r.found, r.unplaced = map[string]bool{}, map[string]error{}
	var opened []*elf.Module
	defer func() {
		for _, m := range opened {
			m.Close()
		}
	}()
	for _, m := range set.List {
		if r.sel.Marked {
			if err := r.marked(m); err != nil {
				return err
			}
			if !r.sel.HasFunctions(m) {
				r.looked = append(r.looked, m.Name())
				continue
			}
		}
		sym, err := cache.Open(m.File, m.Name())
		if err != nil {
			return selection.RefuseTarget(r.spec.Target, "cannot monitor functions of %v", err)
		}
		opened = append(opened, sym)
		r.looked = append(r.looked, m.Name())
		if err := r.module(m, sym); err != nil {
			return err
		}
		if err := r.places(m, sym); err != nil {
			return err
		}
	}
	if err := r.unplacedError(); err != nil {
		return err
	}
	if r.selected == 0 {
		return &NoFunction{r.noMatch(opened, set)}
	}
	if len(r.wants) == 0 {
		return r.noneLeft()
	}
	for _, m := range opened {
		if notice := m.Notice(); notice != "" {
			r.remarks = append(r.remarks, notice)
		}
	}
	r.nearest = func(name string) []string { return r.nearestOf(opened, name) }
	r.missing()
	return nil
}

// module adds the functions of one module.
func (r *resolver) module(m *selection.Module, sym *elf.Module) error {
	chosen, err := r.sel.Choose(sym, m.Name())
	if err != nil {
		return err
	}
	for _, c := range r.sel.Names {
		if len(sym.Find(c.V.S)) > 0 {
			r.found[c.V.S] = true
		}
	}
	if len(chosen) == 0 {
		return nil
	}
	r.costs = r.prices()
	texts, err := r.texts(m)
	defer closeTexts(texts)
	if err != nil {
		return err
	}
	r.selected += len(chosen)
	if r.returns && r.returnsBy != plan.ExitReturns {
		r.through = r.hardened(m)
		if !selection.OfMemory(r.spec) {
			r.through = cmp.Or(r.unwound(m), r.through)
		}
	}
	r.signatures = calls.OpenSignatures(sym, r.values, len(chosen))
	if len(chosen) > decideBlock {
		defer sym.Hold()()
	}
	inferring := infers(r.spec) && !r.returns
	var proving sync.WaitGroup
	defer proving.Wait()
	if inferring && mayInfer(sym, chosen) {
		proving.Go(codesite.In(sym).ProveCallSources) // most of it runs on one processor
	}
	if slices.ContainsFunc(chosen, func(c selection.Choice) bool { return c.Lang == elf.Go }) {
		r.slots.Note(sym.GoSlot())
	}
	decided := r.decide(sym, chosen)
	usable := make([]bool, len(chosen))
	for k, d := range decided {
		reason := d.skipped
		if reason == "" {
			reason = changed(texts, sym, chosen[k].Index, d.want)
		} else if d.noReturn {
			r.noReturn++
		}
		if usable[k] = reason == ""; !usable[k] {
			r.skip(chosen[k].Name, reason)
		}
	}
	sums := make([][]sum, len(chosen))
	if inferring {
		sums = infer(sym, texts, chosen, usable)
	}
	r.add(m, decided, usable, sums)
	return r.addLandmarks(m, sym, texts)
}

// texts opens the code of a module in the processes that have mapped it. The caller
// must close the result, even on error.
func (r *resolver) texts(m *selection.Module) ([]*text, error) {
	var texts []*text
	for _, pl := range m.Mapped {
		t, err := openText(pl, m.File)
		if err == nil {
			t.placed = r.placed(m.ID)
		}
		if err != nil {
			if selection.Left(r.spec.Target, pl.Process) {
				continue
			}
			return texts, selection.RefuseTarget(r.spec.Target, "the code of process %d cannot be read: %v", pl.Process.PID, err)
		}
		texts = append(texts, t)
	}
	return texts, nil
}

func closeTexts(texts []*text) {
	for _, t := range texts {
		t.close()
	}
}

// add adds functions of a module in all their scopes: those with a sum as inferred,
// the others to be probed.
func (r *resolver) add(m *selection.Module, decided []decision, usable []bool, sums [][]sum) {
	scopes := map[calls.Returns][]*selection.Scope{}
	r.wants = slices.Grow(r.wants, len(decided))
	first := make([]int, len(decided)) // index of each function's first entry in r.wants
	for k, d := range decided {
		first[k] = len(r.wants)
		if !usable[k] || sums[k] != nil {
			continue
		}
		w := d.want
		w.Module, w.Label.Module = m, m.Name()
		if scopes[w.Returns] == nil {
			scopes[w.Returns] = r.scopes(m, w.Returns)
		}
		for _, s := range scopes[w.Returns] {
			w.Scope = s
			w.Label.Exe = s.Exe
			r.wants = append(r.wants, w)
		}
	}
	for k, d := range decided {
		if sums[k] == nil {
			continue
		}
		f := calls.Inferred{Module: m, Label: d.want.Label, Entry: d.want.Site.Offset - d.want.Behind}
		f.Label.Module = m.Name()
		for n, s := range scopes[d.want.Returns] {
			f.Label.Exe, f.Sum = s.Exe, nil
			for _, t := range sums[k] {
				f.Sum = append(f.Sum, calls.Summand{Want: first[t.selected] + n, Times: t.times})
			}
			r.inferred = append(r.inferred, f)
		}
	}
}

// scopes returns the scopes in which a module's functions are probed: one for each
// process of a target of pids, unless returns are trapped (see PIDScope) or children are
// followed, else one that includes processes started later.
func (r *resolver) scopes(m *selection.Module, how calls.Returns) []*selection.Scope {
	t := r.spec.Target
	if len(t.Files) > 0 {
		return []*selection.Scope{{Key: "all"}}
	}
	if len(t.Containers) > 0 {
		// Programs do not know containers: the query has a condition on their column.
		s := &selection.Scope{Key: "all"}
		if m.Exe && !m.Linked {
			s.Exe = m.Path
		}
		return []*selection.Scope{s}
	}
	onlyPIDs := t.Viewer.Private() || !t.Grows()
	if onlyPIDs && !t.Follow && how != calls.Trapped && r.links.ScopesProcess() {
		return pidScopes(m)
	}
	s := &selection.Scope{Flags: abi.OnlyTargets, Key: r.members}
	switch {
	case onlyPIDs:
		s.Exe = selection.OwnExe(m.Mapped)
	case m.Exe:
		if !m.Linked { // else its name is that by which a process executes it
			s.Exe = m.Path
		}
		if len(t.PIDs) == 0 && len(t.Processes) == 0 && !t.Follow {
			// Every process that executes the file's own functions has it as its
			// executable.
			s.Flags, s.Key = 0, "all"
		}
	}
	return []*selection.Scope{s}
}

// pidScopes returns a scope for each process that has mapped m, or will do so.
func pidScopes(m *selection.Module) (out []*selection.Scope) {
	for _, pl := range m.Mapped {
		out = append(out, selection.PidScope(pl))
	}
	for _, p := range m.Expected {
		out = append(out, &selection.Scope{PID: p.PID, Key: fmt.Sprintf("pid %d", p.PID)})
	}
	return out
}

func (r *resolver) skip(name, reason string) {
	r.skipped = append(r.skipped, Skipped{name, reason})
}

// at returns the position of the selection in the statement: that of the name if the
// selection lists it, else that of the stream.
func (r *resolver) at(name string) (start, stop int) {
	for _, c := range r.sel.Names {
		if (name == "" || c.V.S == name) && c.Stop > c.Start {
			return c.Start, c.Stop
		}
	}
	return r.spec.Start, r.spec.Stop
}

func (r *resolver) notices() []string {
	var out []string
	if len(r.skipped) > 0 {
		out = append(out, NotMonitored(r.skipped))
	}
	out = append(out, r.remarks...)
	return append(out, steppedNotices(r.wants, r.costs)...)
}

// CountFunctions returns the number of probed functions, each counted once over all
// processes.
func (r *Resolution) CountFunctions() int {
	seen := map[functionAt]bool{}
	for _, w := range r.Functions {
		seen[functionAt{w.Module, w.Site.Offset - w.Behind}] = true
	}
	return len(seen)
}

// functionAt identifies a function by its file and its position there.
type functionAt struct {
	module *selection.Module
	entry  uint64
}
