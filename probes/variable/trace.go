package variable

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/codesite"
	"endoscope/probes/elf"
	"endoscope/probes/keeper"
	"endoscope/probes/process"
	"endoscope/probes/ringbuf"
)

// tracer is the kernel side of local variables: for each file a program that
// reads them where lines begin, and one ring for the records.
type tracer struct {
	names, functions []string
	cache            *elf.Cache
	maps             map[string]*ebpf.Map // shared by all programs
	ring             *ringbuf.Ring
	files            map[layoutKey]*tracedFile
	numbered         []*tracedFile         // by the file number in cookies
	links            map[int][]keeper.Held // by process
	lostReported     uint64                // lost records already reported to the sink
	frames           map[frameKey]*localFrame
}

// tracedFile is the local variables of a file, and the program that reads them.
type tracedFile struct {
	*locals
	base    string // its name
	err     error  // why it cannot be traced
	number  int
	program *ebpf.Collection // nil: not loaded
}

// newTracer returns a tracer; the ring is created later.
func newTracer(names, functions []string, cache *elf.Cache) *tracer {
	return &tracer{names: names, functions: functions, cache: cache, files: map[layoutKey]*tracedFile{},
		links: map[int][]keeper.Held{}, frames: map[frameKey]*localFrame{}}
}

// file returns the variables of a file, cached.
func (t *tracer) file(f *os.File, base string) (*tracedFile, error) {
	key, err := keyOf(f, nil)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", base, err)
	}
	known := t.files[key]
	if known == nil {
		known = &tracedFile{base: base, number: len(t.numbered)}
		known.locals, known.err = findLocals(f, base, t.names, t.functions, t.cache)
		t.files[key] = known
		t.numbered = append(t.numbered, known)
	}
	return known, known.err
}

// open creates the shared maps, once.
func (t *tracer) open() error {
	if t.ring != nil {
		return nil
	}
	spec, err := bpf.LoadLocal()
	if err != nil {
		return err
	}
	t.maps = map[string]*ebpf.Map{}
	for _, name := range []string{bpf.LocalMapLocals, bpf.LocalMapMissed} {
		if t.maps[name], err = ebpf.NewMap(spec.Maps[name]); err != nil {
			return needs.Refused(Stream, err)
		}
	}
	t.ring, err = ringbuf.Map(t.maps[bpf.LocalMapLocals].FD(), ringBytes)
	return err
}

// localPlaces returns the places of fields in a record of local.bpf.c.
func localPlaces() codegen.Places {
	var l bpf.LocalLocal
	p := codegen.Places{Absent: int16(unsafe.Offsetof(l.Absent)), TextBit: firstLocalText, Cookie: int16(unsafe.Offsetof(l.Cookie)), Functions: maxSiteNumber,
		Header: int16(unsafe.Offsetof(bpf.LocalLocalTexts{}.Bytes))}
	for i := range maxLocalNumbers {
		p.Numbers = append(p.Numbers, int16(int(unsafe.Offsetof(l.Numbers))+8*i))
	}
	p.Numbers = append(p.Numbers, int16(unsafe.Offsetof(l.Frame)), int16(unsafe.Offsetof(l.Goroutine)), int16(unsafe.Offsetof(l.Stack)))
	return p
}

// A cookie has the number of a site in its low bits, and that of the file
// above.
const (
	maxSiteNumber = 1<<16 - 1
	firstFileBit  = 32
)

// A Go function has its goroutine (struct g of the runtime) in r14; its stack
// ends at stack.hi. The distance of a frame from there stays the same when the
// stack is copied.
const (
	regR14  = 8 // in struct pt_regs
	stackHi = 8
)

// load loads the program of a file.
func (t *tracer) load(f *tracedFile) error {
	if f.program != nil {
		return nil
	}
	if err := t.open(); err != nil {
		return err
	}
	r := codegen.Reader{Columns: []codegen.ReadColumn{{Slot: frameSlot}, {Slot: frameSlot + 1}, {Slot: frameSlot + 2}}}
	texts := false
	for _, c := range f.columns {
		r.Columns = append(r.Columns, codegen.ReadColumn{Text: c.text, Slot: c.slot})
		texts = texts || c.text
	}
	for i := range f.sites {
		s := &f.sites[i]
		goroutine, stack := &codegen.Integer{Known: true}, &codegen.Integer{Known: true}
		if s.golang {
			goroutine, stack = &codegen.Integer{Register: regR14}, &codegen.Integer{Register: regR14, Memory: true, Offset: stackHi}
		}
		values := []codegen.Value{{Number: &s.frame}, {Number: goroutine}, {Number: stack}}
		for c := range f.columns {
			var v codegen.Value
			if c < len(s.values) && s.values[c] != nil {
				v = s.values[c].Value.Value
			}
			values = append(values, v)
		}
		r.Values = append(r.Values, values)
	}
	body, err := r.Compile(localPlaces(), nil)
	if err != nil {
		return err
	}
	spec, err := bpf.LoadLocal()
	if err != nil {
		return err
	}
	if err := spec.Variables[bpf.LocalVarWithTexts].Set(texts); err != nil {
		return err
	}
	if err := codegen.Install(spec.Programs[bpf.LocalProgLine], "read_variables", body); err != nil {
		return err
	}
	f.program, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: t.maps})
	if err != nil {
		return needs.Refused(Stream, err)
	}
	return nil
}

// add attaches probes at the lines in a process, in all files that have some.
func (t *tracer) add(one *subject) (err error) {
	defer func() {
		if err != nil {
			t.remove(one.process.PID)
		}
	}()
	for _, part := range one.traced {
		if err := t.load(part.file); err != nil {
			return err
		}
		if err := t.attach(one, part); err != nil {
			return err
		}
	}
	return nil
}

func (t *tracer) attach(one *subject, part tracedPart) error {
	f, err := process.OpenModule(one.process.PID, part.mapping)
	if err != nil {
		return err
	}
	defer f.Close()
	var at, cookies []uint64
	for i, s := range part.file.sites {
		addr := s.Addr + part.bias
		got := one.memory(addr, len(s.Bytes))
		if got == nil {
			return fmt.Errorf("the code of %s cannot be read", s.function)
		}
		codesite.Unprobe(got, s.Bytes, 0) // it may be probed already, by us or another tool
		if !bytes.Equal(got, s.Bytes) {
			return fmt.Errorf("the process has changed the code of %s", s.function)
		}
		at = append(at, s.Offset)
		cookies = append(cookies, uint64(i)|uint64(part.file.number)<<firstFileBit)
	}
	if !restrictsProcesses() {
		return plan.Errorf(-1, -1, "variables of functions need Linux 6.10: earlier kernels cannot restrict probes to all threads of one process")
	}
	l, err := keeper.Create(&keeper.Link{
		Program: part.file.program.Programs[bpf.LocalProgLine].FD(), File: int(f.Fd()), AttachType: keeper.TypeMulti,
		Offsets: at, Cookies: cookies, PID: one.process.PID,
	})
	if err != nil {
		return fmt.Errorf("probing %s: %w", filepath.Base(part.mapping.Path), err)
	}
	t.links[one.process.PID] = append(t.links[one.process.PID], l)
	return nil
}

// restrictsProcesses reports whether a link can be restricted to a process
// (Linux 6.10; from 6.6 it can be restricted to a thread only).
func restrictsProcesses() bool {
	var u unix.Utsname
	var major, minor int
	if unix.Uname(&u) != nil {
		return false
	}
	n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return n == 2 && (major > 6 || major == 6 && minor >= 10)
}

// remove detaches the probes of a process.
func (t *tracer) remove(pid int) {
	for _, l := range t.links[pid] {
		l.Close()
	}
	delete(t.links, pid)
}

// forget drops the state of a process whose last values are delivered.
func (t *tracer) forget(pid int) {
	for key := range t.frames {
		if key.tgid == uint32(pid) {
			delete(t.frames, key)
		}
	}
}

func (t *tracer) close() {
	for pid := range t.links {
		t.remove(pid)
	}
	for _, f := range t.numbered {
		if f.program != nil {
			f.program.Close()
		}
	}
	if t.ring != nil {
		t.ring.Unmap()
	}
	for _, m := range t.maps {
		m.Close()
	}
}

// tracedPart is a file of a process whose functions have the variables.
type tracedPart struct {
	file    *tracedFile
	mapping process.Mapping
	bias    uint64
}

// notices returns notices about the variables.
func (t *tracer) notices() (out []string) {
	for _, f := range t.numbered {
		if f.locals != nil {
			out = append(out, f.locals.notices...)
		}
	}
	return out
}

// sites returns the lines at which variables are read.
func (t *tracer) sites() []probes.Site {
	var out []probes.Site
	for _, f := range t.numbered {
		if f.locals == nil {
			continue
		}
		for _, s := range f.sites {
			kind := fmt.Sprintf("line %d", s.line)
			if !slices.ContainsFunc(s.values, isLive) {
				kind = "entry"
			}
			out = append(out, probes.Site{Provider: "variable", Function: s.function, Module: f.base, Address: s.Offset, Behind: s.behind, Method: s.Method, Kind: kind, CostNs: codesite.DefaultPrices.For(s.Method), Estimated: true})
		}
	}
	return out
}
