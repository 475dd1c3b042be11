package variable

import (
	"bytes"
	"encoding/binary"
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
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/elf"
	"endoscope/probes/keeper"
	"endoscope/probes/process"
	"endoscope/probes/ringbuf"
	"endoscope/probes/rows"
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

// frameKey identifies an open call: a frame of a function.
type frameKey struct {
	tgid      uint32
	file      uint32
	function  int
	goroutine uint64
	cfa       uint64 // for Go, the distance from the end of the stack
}

// localFrame is the state of a call.
type localFrame struct {
	joined bool // already open when first seen
	values []localValue
	// Addresses of initialising lines that were executed, and of those whose
	// variables have been destroyed since.
	declared, ended map[uint64]bool
}

// localValue is the last value of a variable in a call.
type localValue struct {
	known  bool // it was read in this call
	absent bool
	number uint64
	text   string
}

// maxFrames limits the calls remembered. An open call that was evicted reports
// its values again, as does one that was open when the probes were attached.
const maxFrames = 1 << 16

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

// lost returns the number of records that found no room in the ring.
func (t *tracer) lost() (n uint64) {
	if m := t.maps[bpf.LocalMapMissed]; m != nil {
		_ = m.Lookup(uint32(0), &n) // the map has one element
	}
	return n
}

// Bits of what read_variables returns (package codegen).
const (
	localUnreadable = 1 << iota
	localCut
)

// read makes rows of a record: of the variables that the call has not reported
// before, or that have changed.
func (t *tracer) read(record []byte, subjects map[int]*subject, give func(observation)) (failed uint32, known bool) {
	if len(record) < int(unsafe.Sizeof(bpf.LocalLocal{})) {
		return 0, false
	}
	l := (*bpf.LocalLocal)(unsafe.Pointer(&record[0]))
	one := subjects[int(l.Tgid)]
	file, number := l.Cookie>>firstFileBit, l.Cookie&maxSiteNumber
	if one == nil || file >= uint64(len(t.numbered)) || number >= uint64(len(t.numbered[file].sites)) {
		return 0, false
	}
	f := t.numbered[file]
	s := &f.sites[number]
	key := frameKey{l.Tgid, uint32(file), s.index, l.Goroutine, l.Frame}
	if s.golang {
		key.cfa = l.Stack - l.Frame
	}
	if s.begins {
		delete(t.frames, key)
	}
	frame := t.frames[key]
	if frame == nil {
		if len(t.frames) >= maxFrames {
			clear(t.frames)
		}
		frame = &localFrame{joined: !s.begins, values: make([]localValue, len(f.columns))}
		t.frames[key] = frame
	}
	var ended []uint64
	texts := localTexts(record)
	for c, v := range s.values {
		if !isLive(v) || f.columns[c].bound || v.Declared != 0 && !frame.joined && !frame.declared[v.Declared] || frame.ended[v.Declared] {
			continue
		}
		if v.Ends {
			ended = append(ended, v.Declared)
		}
		column := f.columns[c]
		now := localValue{known: true}
		var text []byte
		if column.text {
			now.absent = l.Absent>>(firstLocalText+column.slot)&1 == 1 || texts[column.slot] == nil
			text = texts[column.slot]
		} else {
			now.absent = l.Absent>>column.slot&1 == 1
			now.number = l.Numbers[column.slot]
		}
		if beyond := f.isBeyond(c, v, l); beyond {
			now.absent, now.number, text = true, 0, nil
		} else if now.absent {
			failed |= l.Failed & localUnreadable
		} else if len(text) == maxText {
			failed |= l.Failed & localCut
		}
		if before := &frame.values[c]; before.known && before.absent == now.absent && before.number == now.number && before.text == string(text) {
			continue
		}
		now.text = string(text)
		frame.values[c] = now
		o := observation{time: int64(l.Time), subject: one, name: t.names[column.name], module: f.base, tid: int(l.Tid),
			threadName: unix.ByteSliceToString(unsafe.Slice((*byte)(unsafe.Pointer(&l.Comm)), len(l.Comm))), function: s.function, line: s.line}
		switch {
		case now.absent:
		case column.text:
			o.value = value{text: now.text, isText: true}
		default:
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], now.number)
			o.value = localForm(v).read(b[:], nil)
		}
		give(o)
	}
	if s.declares {
		if frame.declared == nil {
			frame.declared = map[uint64]bool{}
		}
		frame.declared[s.Addr] = true
		delete(frame.ended, s.Addr)
	}
	for _, declared := range ended {
		if frame.ended == nil {
			frame.ended = map[uint64]bool{}
		}
		frame.ended[declared] = true
	}
	return failed, true
}

// isBeyond reports whether an element is beyond the length of its slice.
func (f *tracedFile) isBeyond(column int, v *signature.Live, l *bpf.LocalLocal) bool {
	if v.Length == nil {
		return false
	}
	for _, c := range f.columns {
		if c.bound && c.name == f.columns[column].name {
			return l.Absent>>c.slot&1 == 1 || int64(l.Numbers[c.slot]) < v.Needs
		}
	}
	return false
}

// localTexts returns the texts of a record, by slot; nil: none.
func localTexts(record []byte) (out [maxLocalTexts][]byte) {
	at := int(unsafe.Sizeof(bpf.LocalLocal{}))
	var t bpf.LocalLocalTexts
	bytes := at + int(unsafe.Offsetof(t.Bytes))
	if len(record) < at+int(unsafe.Sizeof(t)) {
		return out
	}
	lengths := (*bpf.LocalLocalTexts)(unsafe.Pointer(&record[at])).Length
	// They are in reading order, which is the order of slots.
	for i, n := range lengths {
		if n == 0xffff || bytes+int(n) > len(record) {
			continue
		}
		out[i] = record[bytes : bytes+int(n) : bytes+int(n)]
		bytes += int(n)
	}
	return out
}

// tracedPart is a file of a process whose functions have the variables.
type tracedPart struct {
	file    *tracedFile
	mapping process.Mapping
	bias    uint64
}

// drain makes rows of the records in the ring.
func (t *tracer) drain(subjects map[int]*subject, rows *rows.Writer[observation], sink probes.Sink) {
	if t.ring == nil {
		return
	}
	var missed, failed, cut uint64
	give := func(record []byte) {
		why, known := t.read(record, subjects, rows.Put)
		switch {
		case !known:
			missed++
		case why&localUnreadable != 0:
			failed++
		}
		if why&localCut != 0 {
			cut++
		}
	}
	t.ring.DrainAll(give)
	rows.Flush()
	for _, c := range []struct {
		cause string
		n     uint64
	}{{orphaned, missed}, {unread, failed}} {
		if c.n > 0 {
			sink.Lost(c.cause, c.n)
		}
	}
	if cut > 0 {
		sink.Count(cutTexts, cut)
	}
	if n := t.lost(); n > t.lostReported {
		sink.Lost(ringFull, n-t.lostReported)
		t.lostReported = n
	}
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
