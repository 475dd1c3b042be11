package program

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
)

// maxSuspendedStacks limits the stacks of coroutines whose calls are remembered while they do
// not run. Their memory is allocated at once.
const maxSuspendedStacks = 1 << 15

// Install loads a query's programs. It attaches nothing.
func (k *Kernel) Install(s Setup) (*Installation, error) {
	id, ok := k.ids.get()
	if !ok {
		return nil, errors.New("uprobe: too many queries")
	}
	in, err := k.Load(s, uint16(id))
	var refused *ebpf.VerifierError
	if s.Waits && errors.As(err, &refused) {
		s.Waits = false // a kernel that checks sleepable programs otherwise
		in, err = k.Load(s, uint16(id))
	}
	if err != nil {
		k.ids.put(id)
		return nil, RefuseLoad(err)
	}
	return in, nil
}

// Load loads a query's programs, for the query of that number. It attaches nothing.
func (k *Kernel) Load(s Setup, query uint16) (*Installation, error) {
	wanted := s.programs()
	spec := k.copyOf(wanted)
	if err := s.placeTests(spec.Programs, wanted); err != nil {
		return nil, err
	}
	replace := map[string]*ebpf.Map{bpf.FunctionMapEvents: k.events}
	s.sizeMaps(spec.Maps, k.calls)
	s.useReturns()
	k.leaveUnused(&s, replace)
	if err := k.specialise(&s, spec, replace); err != nil {
		return nil, err
	}
	if err := s.setVariables(spec.Variables, query); err != nil {
		return nil, err
	}
	boundPreallocated(spec.Maps)
	objects, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: replace, Cache: k.Types})
	if err != nil {
		return nil, err
	}
	in, err := s.installation(query, objects, spec.Variables)
	if err != nil {
		objects.Close()
	}
	return in, err
}

// programs returns the attach types of the programs of a query, by their names.
func (s *Setup) programs() map[string]uint32 {
	wanted := map[string]uint32{}
	for how := range s.Returns {
		for _, a := range ProgramsOf(s.Links, how) {
			wanted[a.Program] = a.AttachType
		}
	}
	if s.Growing {
		for _, name := range landmarkPrograms(s.Returns, s.Options) {
			wanted[name] = s.Links.AttachType()
		}
	}
	for _, l := range s.Landmarks {
		wanted[l.Program] = s.Links.AttachType()
	}
	if name := ThreadEnd(s.Options, s.Returns); name != "" {
		wanted[name] = 0 // this one is no uprobe
	}
	if s.Family != nil {
		wanted[bpf.FunctionProgProcessBegan], wanted[bpf.FunctionProgProcessEnded] = 0, 0
	}
	return wanted
}

// placeTests compiles the query's condition into its programs.
func (s *Setup) placeTests(programs map[string]*ebpf.ProgramSpec, wanted map[string]uint32) error {
	for name, p := range programs {
		attachType := wanted[name]
		if s.Waits && abi.TestsOf[name].Call {
			p.Flags |= unix.BPF_F_SLEEPABLE
		}
		if attachType == attach.TypePerf {
			p.AttachType = ebpf.AttachNone // the program is not bound to one kind of link
		}
		if abi.TestsOf[name].Entry {
			if err := codegen.Install(p, "test_entry", s.Test.Entry); err != nil {
				return err
			}
		}
		if abi.TestsOf[name].Exit {
			if err := codegen.Install(p, "test_return", s.Test.Return); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeMaps sizes the maps by what the query observes. Maps of other ways of observing returns are
// left out. openCalls is the maximum number of calls under way where exits are probed.
func (s *Setup) sizeMaps(maps map[string]*ebpf.MapSpec, openCalls uint32) {
	if !s.Returns[calls.Trapped] {
		delete(maps, bpf.FunctionMapThreads)
	}
	if s.Returns[calls.AtExits] {
		maps[bpf.FunctionMapOpenCalls].MaxEntries = openCalls
		if s.Options&(abi.UseDepth|abi.Sequence) != 0 {
			maps[bpf.FunctionMapGoroutines].MaxEntries = openCalls
		}
	} else {
		for _, name := range []string{bpf.FunctionMapOpenCalls, bpf.FunctionMapGoroutines, bpf.FunctionMapOwners, bpf.FunctionMapBeginning} {
			delete(maps, name)
		}
	}
	if s.switchesStacks() {
		maps[bpf.FunctionMapStacks].MaxEntries = min(openCalls, maxSuspendedStacks)
	} else {
		delete(maps, bpf.FunctionMapStacks)
	}
	if !s.Returns[calls.ReportedEntry] {
		for _, name := range []string{bpf.FunctionMapMethods, bpf.FunctionMapReportedThreads, bpf.FunctionMapMeasured} {
			delete(maps, name)
		}
	}
	maps[bpf.FunctionMapHits].MaxEntries = uint32(s.Functions)
	if s.Growing {
		maps[bpf.FunctionMapHits].MaxEntries += MaxExtension
	}
	maps[bpf.FunctionMapTargets].MaxEntries = uint32(max(1, len(s.Members)))
}

// switchesStacks reports whether the target has code that switches stacks (coroutines.h).
func (s *Setup) switchesStacks() bool {
	return slices.ContainsFunc(s.Landmarks, calls.Landmark.Switches)
}

// useReturns sets the options for returns that the kernel observes by itself.
func (s *Setup) useReturns() {
	if !s.Returns[calls.Trapped] {
		return
	}
	if s.Links != attach.Session {
		s.Options |= abi.Pair
	}
	if !attach.FeatureFindVMA.Has() {
		s.Options |= abi.Before517
	}
}

// leaveUnused replaces large maps that the query does not use.
func (k *Kernel) leaveUnused(s *Setup, replace map[string]*ebpf.Map) {
	if s.Options&abi.UseTexts == 0 {
		replace[bpf.FunctionMapScratch] = k.unused[bpf.FunctionMapScratch]
	}
	if s.Options&abi.SendFrame != 0 {
		return
	}
	replace[bpf.FunctionMapSuspendedNames] = k.unused[bpf.FunctionMapSuspendedNames]
	if !s.Returns[calls.Trapped] && !s.Returns[calls.ReportedEntry] && !s.Returns[calls.ReportedReturn] {
		replace[bpf.FunctionMapMoments] = k.unused[bpf.FunctionMapMoments]
	}
}

// specialise prepares the programs and maps for each part of the setup. It may add options.
func (k *Kernel) specialise(s *Setup, spec *ebpf.CollectionSpec, replace map[string]*ebpf.Map) error {
	if err := s.Family.specialise(k, spec, replace); err != nil {
		return err
	}
	if s.Reading != nil {
		var wait *codegen.Waiting
		if s.Waits {
			wait = &codegen.Waiting{CopyText: k.kernelFunction("bpf_copy_from_user_str")}
		}
		if err := s.Reading.Specialise(spec, s.Options, s.Returns, wait); err != nil {
			return err
		}
	}
	if err := k.useGates(s.Gates, spec, &s.Options, replace); err != nil {
		return err
	}
	if err := s.Slots.Specialise(spec); err != nil {
		return err
	}
	if err := limitRate(spec, s.Rate); err != nil {
		return err
	}
	if err := k.aggregate(s.Aggregation, spec, replace); err != nil {
		return err
	}
	if err := k.priceHits(s.Prices, spec, replace); err != nil {
		return err
	}
	if err := k.useRecall(s.Record, s.Recall, spec, replace); err != nil {
		return err
	}
	if err := k.useContexts(s, spec, replace); err != nil {
		return err
	}
	return k.placeOperands(s.Operands, spec, replace)
}

// setVariables sets the constants of the programs.
func (s *Setup) setVariables(variables map[string]*ebpf.VariableSpec, query uint16) error {
	values := map[string]any{bpf.FunctionVarOptions: s.Options, bpf.FunctionVarQuery: query}
	if s.switchesStacks() {
		values[bpf.FunctionVarCoroutines] = true
	}
	if s.Python {
		values[bpf.FunctionVarPython], values[bpf.FunctionVarOnlyReturns] = true, s.OnlyReturns
	}
	if s.Waits {
		values[bpf.FunctionVarWaits] = true
	}
	if s.Cgroups != 0 {
		values[bpf.FunctionVarCgroupLevels] = s.Cgroups
	}
	if s.Options&abi.SendStack != 0 && s.StackBytes > 0 {
		values[bpf.FunctionVarStackBytes] = uint32(s.StackBytes)
	}
	if pid := onlyPID(s.Members, s.Options); pid != 0 {
		values[bpf.FunctionVarOnlyPid] = pid
	}
	if s.Prompt {
		values[bpf.FunctionVarWakeBytes] = uint64(0)
	}
	for name, value := range values {
		if err := variables[name].Set(value); err != nil {
			return err
		}
	}
	return nil
}

// installation returns the loaded programs, whose maps have the target and the places of arguments.
// The caller closes objects after an error.
func (s *Setup) installation(query uint16, objects *ebpf.Collection, variables map[string]*ebpf.VariableSpec) (*Installation, error) {
	for _, m := range s.Members {
		if err := objects.Maps[bpf.FunctionMapTargets].Put(&m, uint8(1)); err != nil {
			return nil, fmt.Errorf("noting the target: %w", err)
		}
	}
	for i := range s.Operands {
		if err := objects.Maps[bpf.FunctionMapArguments].Put(uint32(i), &s.Operands[i]); err != nil {
			return nil, fmt.Errorf("noting where arguments are: %w", err)
		}
	}
	in := &Installation{Query: query, Objects: objects, Sweeper: newSweeper(objects), growing: s.Growing, functions: s.Functions, Room: MaxExtension}
	var err error
	if in.spending, err = openSpending(objects, s.Prices); err != nil {
		return nil, err
	}
	if s.Family != nil {
		in.family = &family{Family: *s.Family}
	}
	if s.Aggregation != nil {
		in.Aggregator = &Aggregator{Aggregation: s.Aggregation, installation: in, offset: s.Offset}
		if err := in.Aggregator.open(objects, variables); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// copyOf returns the maps, variables, and those programs whose names are keys of wanted.
func (k *Kernel) copyOf(wanted map[string]uint32) *ebpf.CollectionSpec {
	some := *k.spec
	some.Types = nil // loading does not look at them, and their copy would take as long as all else here
	some.Programs = make(map[string]*ebpf.ProgramSpec, len(wanted))
	for name := range wanted {
		if p := k.spec.Programs[name]; p != nil {
			some.Programs[name] = p
		}
	}
	return some.Copy()
}

// kernelFunction returns the BTF type of a function of the kernel; 0 if it has none.
func (k *Kernel) kernelFunction(name string) btf.TypeID {
	types, err := k.Types.Kernel()
	if err != nil {
		return 0
	}
	var f *btf.Func
	if types.TypeByName(name, &f) != nil {
		return 0
	}
	id, err := types.TypeID(f)
	if err != nil {
		return 0
	}
	return id
}

// placeOperands sizes the map of argument locations, if the programs use it.
func (k *Kernel) placeOperands(list []bpf.FunctionOperands, spec *ebpf.CollectionSpec, replace map[string]*ebpf.Map) error {
	if list == nil {
		replace[bpf.FunctionMapArguments] = k.unused[bpf.FunctionMapArguments]
		return nil
	}
	spec.Maps[bpf.FunctionMapArguments].MaxEntries = uint32(len(list))
	return spec.Variables[bpf.FunctionVarPlaced].Set(true)
}

// onlyPID returns the process that is the only target; 0 if there may be others.
func onlyPID(members []bpf.FunctionTarget, options uint32) (pid uint32) {
	if options&(abi.OnlyComms|abi.OnlyExes) != 0 {
		return 0
	}
	for _, m := range members {
		switch {
		case m.Kind != abi.TargetPID: // restricts which processes may be observed
		case pid != 0:
			return 0
		default:
			pid = uint32(m.Id[0])
		}
	}
	return pid
}

// aggregate prepares a query's programs for its aggregation, if it has one, and adds the
// maps that it shares with other queries.
func (k *Kernel) aggregate(a *Aggregation, spec *ebpf.CollectionSpec, replace map[string]*ebpf.Map) error {
	for _, name := range unusedMaps(a) {
		replace[name] = k.unused[name]
	}
	if a == nil {
		return nil
	}
	if err := a.specialise(spec); err != nil {
		return err
	}
	if !usesBoundaries(spec) {
		return nil
	}
	if k.boundaries == nil {
		m, err := newBoundaries()
		if err != nil {
			return err
		}
		k.boundaries = m
	}
	spec.Maps[boundariesMap] = boundariesSpec(int(k.boundaries.ValueSize()) / 8)
	replace[boundariesMap] = k.boundaries
	return nil
}
