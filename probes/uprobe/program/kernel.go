package program

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/recall"
	"endoscope/probes/rights"
	"endoscope/probes/ringbuf"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
)

// Kernel holds what all queries share: the ring, and the programs before they are
// specialised for a query.
type Kernel struct {
	spec   *ebpf.CollectionSpec
	calls  uint32 // maximum calls under way where exits are probed
	events *ebpf.Map
	Ring   *ringbuf.Buffer // of all queries; the kernel wakes the reader only if much is waiting
	Types  *btf.Cache      // types of the kernel
	ids    idPool
	WarmUp warmUp

	// unused holds maps that programs refer to but do not use.
	unused map[string]*ebpf.Map
	// boundaries of quantile buckets, nil until needed. Guarded by Provider.mu.
	boundaries *ebpf.Map
}

// Compiled is what a provider reads once: the programs, and the kernel's types for their
// relocation. Reading takes longer than loading the programs.
type Compiled struct {
	programs *ebpf.CollectionSpec
	types    *btf.Cache
}

func Read() (Compiled, error) {
	spec, err := bpf.LoadFunction()
	c := Compiled{spec, btf.NewCache()}
	_, _ = c.types.Kernel() // loading the programs reports the error
	return c, err
}

// New creates the ring. It attaches nothing.
func New(ringBytes, maxCalls int, preallocated bool, c Compiled) (*Kernel, error) {
	size := ringBytes
	if page := os.Getpagesize(); size < page || size&(size-1) != 0 {
		return nil, fmt.Errorf("uprobe: a ring of %d bytes is no power of two of at least a page", size)
	}
	spec := c.programs.Copy()
	if preallocated {
		preallocate(spec.Maps)
	}
	spec.Maps[bpf.FunctionMapEvents].MaxEntries = uint32(size)
	if err := spec.Variables[bpf.FunctionVarWakeBytes].Set(uint64(size / 4)); err != nil {
		return nil, err
	}
	events, err := ebpf.NewMap(spec.Maps[bpf.FunctionMapEvents])
	if err != nil {
		return nil, RefuseLoad(err)
	}
	r, err := ringbuf.Open(events.FD(), size)
	if err != nil {
		events.Close()
		return nil, err
	}
	k := &Kernel{spec: spec, calls: uint32(maxCalls), events: events, Ring: r, Types: c.types, ids: idPool{max: math.MaxUint16}, unused: map[string]*ebpf.Map{}}
	for _, name := range append(slices.Concat(unusedMaps(nil), spendingMaps, recallMaps, contextMaps), bpf.FunctionMapGates, bpf.FunctionMapArguments, bpf.FunctionMapScratch, bpf.FunctionMapMoments, bpf.FunctionMapSuspendedNames, bpf.FunctionMapFamily) {
		if spec.Maps[name].Type != ebpf.TaskStorage && name != bpf.FunctionMapSuspendedNames && name != bpf.FunctionMapFamily {
			spec.Maps[name].Key, spec.Maps[name].Value = nil, nil // sizes differ by query
		}
		if k.unused[name], err = ebpf.NewMap(spec.Maps[name]); err != nil {
			k.Close()
			return nil, RefuseLoad(err)
		}
	}
	k.WarmUp.possible = attach.FeatureMulti.Has()
	return k, nil
}

// Needs are the needs of streams of functions.
var Needs = rights.Needs{Since: "5.15"}

// RefuseLoad returns the error of programs that the kernel did not load because of err.
func RefuseLoad(err error) error { return Needs.Refused("a stream of functions", err) }

func (k *Kernel) Close() {
	k.WarmUp.Close()
	k.Ring.Close()
	k.events.Close()
	k.boundaries.Close()
	for _, m := range k.unused {
		m.Close()
	}
}

// Setup specialises the programs for one query.
type Setup struct {
	Options   uint32
	Links     attach.Kind
	Returns   map[calls.Returns]bool // how the functions' returns are observed
	Landmarks []calls.Landmark
	Test      codegen.Program
	Members   []bpf.FunctionTarget
	Functions int
	Rate      int64 // events per second; 0: unlimited
	Prompt    bool  // the reader is woken for each event
	Slots     calls.GoSlots
	// StackBytes is the maximum size of a stack copy; 0: the default.
	StackBytes int
	Offset     int64 // from the boot clock to the epoch
	// Aggregation is nil where events become rows.
	Aggregation *Aggregation
	// Prices are those of a call of each function, in ns, for a query with a budget; nil: it
	// has none.
	Prices []uint64
	Gates  probes.Gates
	// Record and Recall are as in probes.Options.
	Record, Recall *recall.Set
	// Contexts are what events are inside of: the programs write it if Following is not nil,
	// else read ContextWords words of it. nil: they do neither.
	Contexts     *Contexts
	Following    *calls.Following
	ContextWords int
	Cgroups      uint32 // number of levels of cgroups among members
	// Operands holds the locations of arguments by function. It is nil where all
	// arguments are passed by the calling convention.
	Operands []bpf.FunctionOperands
	// Reading is nil where no values are read.
	Reading *calls.Reading
	Growing bool // functions may be added while the query runs
	// Waits: values in memory that is not present are read by waiting for it.
	Waits bool
	// Python: the calls are reported by an interpreter of Python. OnlyReturns: only their
	// returns are.
	Python, OnlyReturns bool
	// Family is nil where children of the target's processes do not matter.
	Family *Family
}

// ProgramsOf lists the programs attached to functions, in the order of attachment.
// Returns come before entries, so that the return of a recorded entry is always
// observed. Where one instruction is entry and exit, the kernel first runs the program
// attached last (consumer_add in kernel/events/uprobes.c).
func ProgramsOf(links attach.Kind, how calls.Returns) []attachable {
	plain := links.AttachType()
	switch {
	case how == calls.Unseen:
		return []attachable{{Program: bpf.FunctionProgFunctionEntry, AttachType: plain}}
	case how == calls.ReportedEntry:
		return []attachable{{Program: bpf.FunctionProgReportedEntry, AttachType: plain}}
	case how == calls.ReportedReturn:
		return []attachable{{Program: bpf.FunctionProgReportedReturn, AttachType: plain}}
	case how == calls.AtExits:
		return []attachable{
			{Program: bpf.FunctionProgFrameExit, AttachType: plain, Exits: true},
			{Program: bpf.FunctionProgFrameEntry, AttachType: plain},
		}
	case links == attach.Session:
		return []attachable{{Program: bpf.FunctionProgFunctionSession, AttachType: attach.TypeSession}}
	}
	return []attachable{
		{Program: bpf.FunctionProgPairReturn, AttachType: plain, Flags: attach.MultiReturn},
		{Program: bpf.FunctionProgPairEntry, AttachType: plain},
	}
}

// ThreadEnd returns the program that ends a sequence with its thread, "" if none is
// needed.
func ThreadEnd(options uint32, how map[calls.Returns]bool) string {
	switch {
	case options&abi.Sequence == 0:
		return ""
	case how[calls.AtExits]:
		return bpf.FunctionProgFrameThreadEnd
	case how[calls.ReportedEntry]:
		return bpf.FunctionProgReportedThreadEnd
	}
	return bpf.FunctionProgThreadEnd
}

// attachable is a program and how it is attached. flags are those of a multi link, and
// have the same meaning for other attach types.
type attachable struct {
	Program           string
	AttachType, Flags uint32
	Exits             bool // at the functions' exits
}

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

func (k *Kernel) Load(s Setup, query uint16) (*Installation, error) {
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
	spec := k.copyOf(wanted)
	for name, p := range spec.Programs {
		attachType := wanted[name]
		if s.Waits && abi.TestsOf[name].Call {
			p.Flags |= unix.BPF_F_SLEEPABLE
		}
		if attachType == attach.TypePerf {
			p.AttachType = ebpf.AttachNone // the program is not bound to one kind of link
		}
		if abi.TestsOf[name].Entry {
			if err := codegen.Install(p, "test_entry", s.Test.Entry); err != nil {
				return nil, err
			}
		}
		if abi.TestsOf[name].Exit {
			if err := codegen.Install(p, "test_return", s.Test.Return); err != nil {
				return nil, err
			}
		}
	}
	if !s.Returns[calls.Trapped] {
		delete(spec.Maps, bpf.FunctionMapThreads)
	} else if s.Links != attach.Session {
		s.Options |= abi.Pair
	}
	if s.Returns[calls.Trapped] && !attach.FeatureFindVMA.Has() {
		s.Options |= abi.Before517
	}
	if s.Returns[calls.AtExits] {
		spec.Maps[bpf.FunctionMapOpenCalls].MaxEntries = k.calls
		if s.Options&(abi.UseDepth|abi.Sequence) != 0 {
			spec.Maps[bpf.FunctionMapGoroutines].MaxEntries = k.calls
		}
	} else {
		for _, name := range []string{bpf.FunctionMapOpenCalls, bpf.FunctionMapGoroutines, bpf.FunctionMapOwners, bpf.FunctionMapBeginning} {
			delete(spec.Maps, name)
		}
	}
	if slices.ContainsFunc(s.Landmarks, calls.Landmark.Switches) {
		spec.Maps[bpf.FunctionMapStacks].MaxEntries = min(k.calls, maxSuspendedStacks)
		if err := spec.Variables[bpf.FunctionVarCoroutines].Set(true); err != nil {
			return nil, err
		}
	} else {
		delete(spec.Maps, bpf.FunctionMapStacks)
	}
	if !s.Returns[calls.ReportedEntry] {
		for _, name := range []string{bpf.FunctionMapMethods, bpf.FunctionMapReportedThreads, bpf.FunctionMapMeasured} {
			delete(spec.Maps, name)
		}
	}
	if s.Python {
		if err := spec.Variables[bpf.FunctionVarPython].Set(true); err != nil {
			return nil, err
		}
		if err := spec.Variables[bpf.FunctionVarOnlyReturns].Set(s.OnlyReturns); err != nil {
			return nil, err
		}
	}
	spec.Maps[bpf.FunctionMapHits].MaxEntries = uint32(s.Functions)
	if s.Growing {
		spec.Maps[bpf.FunctionMapHits].MaxEntries += MaxExtension
	}
	spec.Maps[bpf.FunctionMapTargets].MaxEntries = uint32(max(1, len(s.Members)))
	replace := map[string]*ebpf.Map{bpf.FunctionMapEvents: k.events}
	if s.Options&abi.UseTexts == 0 {
		replace[bpf.FunctionMapScratch] = k.unused[bpf.FunctionMapScratch]
	}
	if !s.Returns[calls.Trapped] && !s.Returns[calls.ReportedEntry] && !s.Returns[calls.ReportedReturn] && s.Options&abi.SendFrame == 0 {
		replace[bpf.FunctionMapMoments] = k.unused[bpf.FunctionMapMoments]
	}
	if s.Options&abi.SendFrame == 0 {
		replace[bpf.FunctionMapSuspendedNames] = k.unused[bpf.FunctionMapSuspendedNames]
	}
	var wait *codegen.Waiting
	if s.Waits {
		wait = &codegen.Waiting{CopyText: k.kernelFunction("bpf_copy_from_user_str")}
		if err := spec.Variables[bpf.FunctionVarWaits].Set(true); err != nil {
			return nil, err
		}
	}
	if err := s.Family.specialise(k, spec, replace); err != nil {
		return nil, err
	}
	if s.Reading != nil {
		if err := s.Reading.Specialise(spec, s.Options, s.Returns, wait); err != nil {
			return nil, err
		}
	}
	if err := k.useGates(s.Gates, spec, &s.Options, replace); err != nil {
		return nil, err
	}
	if err := spec.Variables[bpf.FunctionVarOptions].Set(s.Options); err != nil {
		return nil, err
	}
	if err := spec.Variables[bpf.FunctionVarQuery].Set(query); err != nil {
		return nil, err
	}
	if s.Cgroups != 0 {
		if err := spec.Variables[bpf.FunctionVarCgroupLevels].Set(s.Cgroups); err != nil {
			return nil, err
		}
	}
	if s.Options&abi.SendStack != 0 && s.StackBytes > 0 {
		if err := spec.Variables[bpf.FunctionVarStackBytes].Set(uint32(s.StackBytes)); err != nil {
			return nil, err
		}
	}
	if err := s.Slots.Specialise(spec); err != nil {
		return nil, err
	}
	if pid := onlyPID(s.Members, s.Options); pid != 0 {
		if err := spec.Variables[bpf.FunctionVarOnlyPid].Set(pid); err != nil {
			return nil, err
		}
	}
	if err := limitRate(spec, s.Rate); err != nil {
		return nil, err
	}
	if s.Prompt {
		if err := spec.Variables[bpf.FunctionVarWakeBytes].Set(uint64(0)); err != nil {
			return nil, err
		}
	}
	if err := k.aggregate(s.Aggregation, spec, replace); err != nil {
		return nil, err
	}
	if err := k.priceHits(s.Prices, spec, replace); err != nil {
		return nil, err
	}
	if err := k.useRecall(s.Record, s.Recall, spec, replace); err != nil {
		return nil, err
	}
	if err := k.useContexts(&s, spec, replace); err != nil {
		return nil, err
	}
	if err := k.placeOperands(s.Operands, spec, replace); err != nil {
		return nil, err
	}
	boundPreallocated(spec.Maps)
	objects, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: replace, Cache: k.Types})
	if err != nil {
		return nil, err
	}
	for _, m := range s.Members {
		if err := objects.Maps[bpf.FunctionMapTargets].Put(&m, uint8(1)); err != nil {
			objects.Close()
			return nil, fmt.Errorf("noting the target: %w", err)
		}
	}
	for i := range s.Operands {
		if err := objects.Maps[bpf.FunctionMapArguments].Put(uint32(i), &s.Operands[i]); err != nil {
			objects.Close()
			return nil, fmt.Errorf("noting where arguments are: %w", err)
		}
	}
	in := &Installation{Query: query, Objects: objects, Sweeper: newSweeper(objects), growing: s.Growing, functions: s.Functions, Room: MaxExtension}
	if in.spending, err = openSpending(objects, s.Prices); err != nil {
		objects.Close()
		return nil, err
	}
	if s.Family != nil {
		in.family = &family{Family: *s.Family}
	}
	if s.Aggregation != nil {
		in.Aggregator = &Aggregator{Aggregation: s.Aggregation, installation: in, offset: s.Offset}
		if err := in.Aggregator.open(objects, spec.Variables); err != nil {
			objects.Close()
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

// idPool hands out numbers below max: first new ones, then the one released the longest
// ago, so that late events of a removed query are not attributed to another one.
type idPool struct {
	max, next uint32
	free      []uint32 // in the order of release
}

func (p *idPool) get() (uint32, bool) {
	if p.next < p.max {
		p.next++
		return p.next - 1, true
	}
	if len(p.free) == 0 {
		return 0, false
	}
	id := p.free[0]
	p.free = p.free[1:]
	return id, true
}

func (p *idPool) put(id uint32) { p.free = append(p.free, id) }
