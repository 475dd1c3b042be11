package variable

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"

	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/rows"
)

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

// Bits of what read_variables returns (package codegen).
const (
	localUnreadable = 1 << iota
	localCut
)

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

// lost returns the number of records that found no room in the ring.
func (t *tracer) lost() (n uint64) {
	if m := t.maps[bpf.LocalMapMissed]; m != nil {
		_ = m.Lookup(uint32(0), &n) // the map has one element
	}
	return n
}
