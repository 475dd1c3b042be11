package stack

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"endoscope/probes/dwarf/debuginfo"
	"endoscope/probes/elf"
	"endoscope/probes/lang/golang"
	"endoscope/probes/lang/interpreter"
	"endoscope/probes/process"
	"endoscope/probes/stack/pacing"
	"endoscope/probes/unwind"
)

// module is a file with code, or code of no file, in the sampled processes. Results
// per instruction are cached for all of them.
type module struct {
	name    string
	symbols *elf.Module // nil: its code is unknown
	source  *debuginfo.Source
	sourced bool // source was looked for
	// sourceErr is why source is nil.
	sourceErr error
	library   bool // it belongs to the system, by its path
	places    map[uint64]*place
	names     map[uint64]string // of stubs and variables, by address in the file

	language    *interpreter.Language // whose interpreter it is, by its name; nil: none
	golang      runtimeLayout[golang.Layout]
	interpreter runtimeLayout[interpreter.Layout]
}

// place is the cached result for an instruction.
type place struct {
	frame   uint32   // number in the interner
	inlined []uint32 // frames of the calls inlined into that function, innermost first
	rule    unwind.Rule
	plain   bool // the rule has no expression
	ruled   bool // there is a rule
}

// maxPlaces bounds the instructions cached per module.
const maxPlaces = 1 << 20

// modules finds the modules of mappings; each file has one module.
type modules struct {
	cache          *elf.Cache
	frames         *interner
	byFile         map[fileKey]*module
	vdso           *module
	chosen         map[string]bool // by name: whether the user declares it a system module
	mappingsBefore MappingsBefore
	whole          bool              // calls inlined into functions of C, C++ and Rust are not looked for
	missing        map[string]uint64 // what debug information lacks, by notice: instructions
	once           time.Duration     // CPU time of reading files and analysing instructions
}

type fileKey struct {
	dev, inode uint64
	path       string
}

func newModules(cache *elf.Cache, frames *interner, chosen map[string]bool) *modules {
	return &modules{cache: cache, frames: frames, byFile: map[fileKey]*module{}, chosen: chosen}
}

func (ms *modules) close() {
	for _, m := range ms.byFile {
		m.close()
	}
	if ms.vdso != nil {
		ms.vdso.close()
	}
}

func (m *module) close() {
	if m.symbols != nil {
		m.symbols.Close()
	}
}

// moduleAt returns the module that m is a mapping of. An unreadable file has a module
// without symbols.
func (ms *modules) moduleAt(pid int, m process.Mapping, main bool) *module {
	if m.Path == "[vdso]" {
		if ms.vdso == nil {
			ms.vdso = ms.open(openVDSO, "[vdso]", true)
		}
		return ms.vdso
	}
	key := fileKey{m.Dev, m.Inode, m.Path}
	if have := ms.byFile[key]; have != nil {
		return have
	}
	defer ms.timed()()
	var made *module
	if m.Inode == 0 {
		made = &module{name: anonymous(m.Path), places: map[uint64]*place{}}
	} else {
		made = ms.open(func() (*os.File, error) { return openModule(pid, m) }, filepath.Base(m.Path),
			!main && inSystemFolder(m.Path) || main && isRuntime(m.Path) || languageOf(m.Path) != nil)
		made.language = languageOf(m.Path)
	}
	ms.byFile[key] = made
	return made
}

// openModule opens a file that a process has mapped, or had mapped when it ended.
func openModule(pid int, m process.Mapping) (*os.File, error) {
	f, err := process.OpenModule(pid, m)
	if err != nil {
		return process.OpenLeft(pid, m)
	}
	return f, nil
}

// anonymous returns the name of code that belongs to no file.
func anonymous(path string) string {
	if path == "" {
		return "[anonymous]"
	}
	return path
}

func (ms *modules) open(file func() (*os.File, error), name string, library bool) *module {
	if system, ok := ms.chosen[name]; ok {
		library = system
	}
	m := &module{name: name, library: library, places: map[uint64]*place{}}
	f, err := file()
	if err != nil {
		return m
	}
	defer f.Close()
	if s, err := ms.cache.Open(f, name); err == nil {
		m.symbols = s
	}
	return m
}

// openVDSO returns the code that the kernel maps into every process, as a file.
func openVDSO() (*os.File, error) {
	maps, err := process.Text(os.Getpid())
	if err != nil {
		return nil, err
	}
	for _, m := range maps {
		if m.Path != "[vdso]" {
			continue
		}
		fd, err := unix.MemfdCreate("vdso", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, err
		}
		f := os.NewFile(uintptr(fd), "[vdso]")
		// It stays mapped for the lifetime of this process.
		start := unsafe.Add(unsafe.Pointer(nil), m.Start)
		if _, err := f.Write(unsafe.Slice((*byte)(start), m.End-m.Start)); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
	return nil, fmt.Errorf("there is no [vdso]")
}

// at returns the cached result for the instruction at a file offset.
func (ms *modules) at(m *module, offset uint64) *place {
	if p := m.places[offset]; p != nil {
		return p
	}
	if len(m.places) > maxPlaces {
		clear(m.places)
	}
	defer ms.timed()()
	p := ms.look(m, offset)
	m.places[offset] = p
	return p
}

// timed adds the CPU time until the returned function is called to what is done once.
func (ms *modules) timed() func() {
	watch := pacing.StartWatch()
	return func() { ms.once += watch.Stop() }
}

// takeOnce returns the CPU time of what was done once since the last call.
func (ms *modules) takeOnce() time.Duration {
	d := ms.once
	ms.once = 0
	return d
}

// look analyses an instruction.
func (ms *modules) look(m *module, offset uint64) *place {
	f := frame{function: unknown, module: m.name, system: m.library}
	p := &place{}
	addr, ok := uint64(0), false
	if m.symbols != nil {
		addr, ok = m.symbols.AddrOf(offset)
	}
	if !ok {
		p.frame = ms.frames.number(f)
		return p
	}
	p.rule, p.ruled = m.symbols.UnwindRule(addr)
	p.plain = p.rule.CFAExpr == nil
	for _, s := range p.rule.Saved {
		p.plain = p.plain && s.How == unwind.AtOffset
	}
	i, found := m.symbols.FunctionAt(addr)
	if !found {
		if start, _, ok := m.symbols.Piece(addr); ok {
			i, found = m.symbols.WholeOf(start)
		}
	}
	switch {
	case p.ruled && p.rule.Signal:
		f.function, f.system = signalFrame, true
	case found:
		fn := m.symbols.Function(i)
		if fn.Mangled == "__start_context" { // glibc's, where coroutines begin: its table does not say so
			p.rule, p.ruled = unwind.Rule{Outermost: true}, true
		}
		f.function, f.system, f.sync = fn.Name, m.library || isSystemFunction(fn), syncOfFunction(fn)
		inlined, at := m.symbols.Calls(addr, ms.sourceOf(m, fn), ms.frames.lines)
		for _, in := range inlined {
			p.inlined = append(p.inlined, ms.frames.number(frame{function: in.Name, module: m.name, system: m.library || isSystemFunction(in.Function), sync: syncOfFunction(in.Function),
				file: in.File, line: in.Line, inlined: true}))
		}
		if f.file, f.line = at.File, at.Line; ms.frames.lines && !m.library && at.Line == 0 && (m.source == nil || m.source.Err() != nil) {
			ms.miss("places without file and line: " + m.name + " " + m.why())
		}
	case m.symbols.IsStub(addr):
		f.function, f.system = stub, true
	default:
		if start, first, ok := m.symbols.Piece(addr); first {
			f.function, f.system = "_start", true
		} else if ok {
			f.function = fmt.Sprintf("%s%x", unnamed, start)
		}
	}
	p.frame = ms.frames.number(f)
	return p
}

// sourceOf returns the source positions of the module of a function; nil: it has none, or the
// function is one of Go, which needs none.
func (ms *modules) sourceOf(m *module, f elf.Function) *debuginfo.Source {
	if !m.sourced && f.Lang != elf.Go && !ms.whole {
		m.sourced = true
		most := uint64(maxForInlined)
		if ms.frames.lines {
			most = debuginfo.MaxUnpacked
		}
		m.source, m.sourceErr = m.symbols.SourceWithin(most)
		if m.sourceErr != nil && m.sourceErr != elf.ErrNoDebugInfo {
			ms.miss("module whose inlined calls are not shown: " + m.name + " " + m.sourceErr.Error())
		}
	}
	return m.source
}

// maxForInlined limits the compressed debug information that is unpacked for inlined calls only:
// that takes a second. Such that is not compressed is mapped, and read as far as it is needed.
const maxForInlined = 256 << 20

// why says why a module has no lines.
func (m *module) why() string {
	err := m.sourceErr
	if m.source != nil {
		err = m.source.Err()
	}
	if err == nil {
		err = elf.ErrNoDebugInfo
	}
	return err.Error()
}

// maxMissing limits the notices about debug information.
const maxMissing = 16

// miss counts an instruction for which debug information lacks something.
func (ms *modules) miss(notice string) {
	if ms.missing == nil {
		ms.missing = map[string]uint64{}
	}
	if _, known := ms.missing[notice]; known || len(ms.missing) < maxMissing {
		ms.missing[notice]++
	}
}

// takeMissing returns what was counted since the last call.
func (ms *modules) takeMissing() map[string]uint64 {
	out := ms.missing
	ms.missing = nil
	return out
}

// Names for code without a named function.
const (
	unknown = "[unknown]"
	stub    = "[plt]"
	// unnamed begins the name of a function without symbol, before its address.
	unnamed = "sub_"
	// signalFrame is the code to which the kernel makes a signal handler return.
	signalFrame = "[signal]"
)

// runtimeLayout is where a language's runtime, if a module contains one, keeps its data.
type runtimeLayout[T any] struct {
	layout *T // nil: there is no runtime, or an unknown one
	read   bool
}

// findRuntime finds the module of a process that contains a runtime whose layout is
// known, and the offset of its code from the addresses in its file. The layout is nil if
// there is none. candidate tells which modules are examined.
func findRuntime[T any](sp *space, of func(*module) *runtimeLayout[T], candidate func(*module) bool, read func(f io.ReaderAt, path string) (*T, error)) (layout *T, bias uint64) {
	for _, r := range sp.regions {
		if r.module == nil || r.module.symbols == nil || !candidate(r.module) {
			continue
		}
		addr, ok := r.module.symbols.AddrOf(r.offset)
		if !ok {
			continue
		}
		l := of(r.module)
		if !l.read {
			l.read = true
			l.layout = readRuntime(sp.process.PID, r.start, read)
		}
		if l.layout != nil {
			return l.layout, r.start - addr
		}
	}
	return nil, 0
}

// readRuntime reads the layout from the file that a process has mapped at start.
func readRuntime[T any](pid int, start uint64, read func(f io.ReaderAt, path string) (*T, error)) *T {
	text, _ := process.Text(pid) // none if it has ended
	for _, m := range text {
		if m.Start != start {
			continue
		}
		f, err := process.OpenModule(pid, m)
		if err != nil {
			return nil
		}
		defer f.Close()
		layout, _ := read(f, m.Path) // nil where it cannot be read
		return layout
	}
	return nil
}
