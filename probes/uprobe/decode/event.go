package decode

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"endoscope/probes/bpf"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
)

// event is one record of the ring, in place: valid until the reader advances.
type event struct {
	*bpf.FunctionEvent
	function      uint32
	kind          byte // of a function_call event: the initial of its name, else 0
	start, retval uint64
	duration      uint64 // of a call, to its return
	goroutine     uint64 // of a function_call event, if requested; 0: none
	process       []byte // without trailing zeros; nil if not requested
	thread        []byte
	args          *[abi.MaxArgs]uint64 // nil if not requested
	ip            uint64               // of the entry's probe, if receivers are requested,
	tables        [2]uint64            // and the words that the first arguments point to
	cost          *[3]uint64           // nil if not requested
	self          uint64               // if requested
	address, size uint64               // of the memory block
	frame         uint64               // if requested
	caller, image uint64               // the return address and its program, if the caller is requested
	copied        *bpf.FunctionCopied  // nil if the stack is not requested,
	taken         []bpf.FunctionTaken  // the return addresses that return traps replaced,
	stack         []byte               // and the stack
	texts         texts                // nil if not requested
	contextWords  int                  // how many words tell the context; set for all events of a query
	context       []byte               // these words

	// The subscription sets these.
	subscription *Subscription
	label        codes    // of the function
	named        uint32   // dictionary code of the event's name
	object       received // on which the function is called
}

// Sizes of the layouts of events (function.bpf.c).
const (
	sizeEntry  = int(unsafe.Sizeof(bpf.FunctionEvent{}))
	sizeReturn = int(unsafe.Sizeof(bpf.FunctionEventReturn{}))
	sizeNames  = int(unsafe.Sizeof(bpf.FunctionEventNames{}))
	sizeArgs   = int(unsafe.Sizeof(bpf.FunctionEventArgs{}))
	sizeFull   = int(unsafe.Sizeof(bpf.FunctionEventFull{}))
	sizeObject = int(unsafe.Sizeof(bpf.FunctionEventReceiver{}))
	sizeCost   = int(unsafe.Sizeof(bpf.FunctionEventCost{}))
	sizeCopied = int(unsafe.Sizeof(bpf.FunctionCopied{}))
	sizeTaken  = int(unsafe.Sizeof(bpf.FunctionTaken{}))
)

// Decode finds the parts of a record of a query with these options. The kernel wrote
// the record, so its layout is trusted as far as its length allows. Decode returns
// false if the record is too short for the query. All records of the same options set
// the same fields of e and leave the others unchanged.
func Decode(b []byte, options uint32, e *event) bool {
	need := sizeEntry
	switch layout := options & (abi.SendArgs | abi.SendNames | abi.SendReceiver | abi.SendCost | abi.SendStack | abi.SendTexts); {
	case layout&abi.SendTexts != 0 && layout&(abi.SendNames|abi.SendReceiver|abi.SendCost|abi.SendStack) == 0:
		need = sizeArgs
	case layout&(abi.SendCost|abi.SendStack|abi.SendTexts) != 0:
		need = sizeCost
	case layout&abi.SendReceiver != 0:
		need = sizeObject
	case layout == abi.SendArgs|abi.SendNames:
		need = sizeFull
	case layout == abi.SendArgs:
		need = sizeArgs
	case layout == abi.SendNames:
		need = sizeNames
	default:
		if options&(abi.AtReturn|abi.SendGoroutine) != 0 {
			need = sizeReturn
		}
	}
	if len(b) < need+e.behind(options) {
		return false
	}
	if !e.more(b[need:], options) {
		return false
	}
	e.FunctionEvent = (*bpf.FunctionEvent)(unsafe.Pointer(unsafe.SliceData(b)))
	e.function = e.Function & (abi.MaxFunctions - 1)
	if options&abi.Sequence != 0 {
		e.kind = byte(e.Function >> 24)
	}
	if need == sizeEntry {
		return true
	}
	if options&(abi.SendTexts|abi.SendStack) == abi.SendTexts {
		e.texts = b[need+e.behind(options):]
	}
	r := (*bpf.FunctionEventReturn)(unsafe.Pointer(unsafe.SliceData(b)))
	e.start, e.retval, e.duration = r.Start, r.Retval, e.Time-r.Start
	if options&abi.Sequence != 0 {
		e.goroutine = r.Retval
	}
	switch need {
	case sizeObject:
		o := (*bpf.FunctionEventReceiver)(unsafe.Pointer(unsafe.SliceData(b)))
		e.process, e.thread, e.args = comm(&o.F.Process), comm(&o.F.Thread), &o.F.Args
		e.ip, e.tables = o.Ip, o.Table
	case sizeCost:
		c := (*bpf.FunctionEventCost)(unsafe.Pointer(unsafe.SliceData(b)))
		o := &c.O
		e.process, e.thread, e.args = comm(&o.F.Process), comm(&o.F.Thread), &o.F.Args
		e.ip, e.tables, e.cost = o.Ip, o.Table, &c.Cost
	case sizeFull:
		f := (*bpf.FunctionEventFull)(unsafe.Pointer(unsafe.SliceData(b)))
		e.process, e.thread, e.args = comm(&f.Process), comm(&f.Thread), &f.Args
	case sizeNames:
		f := (*bpf.FunctionEventNames)(unsafe.Pointer(unsafe.SliceData(b)))
		e.process, e.thread = comm(&f.Process), comm(&f.Thread)
	case sizeArgs:
		e.args = &(*bpf.FunctionEventArgs)(unsafe.Pointer(unsafe.SliceData(b))).Args
	}
	return true
}

// behind returns the minimum number of bytes that follow an event's layout.
func (e *event) behind(options uint32) (n int) {
	n = 8 * e.contextWords
	if options&abi.SendSelf != 0 {
		n += 8
	}
	if options&abi.SendCaller != 0 {
		n += 16
	}
	if options&(abi.Allocates|abi.Frees) != 0 {
		n += 16
	}
	if options&abi.SendFrame != 0 {
		n += 8
	}
	if options&abi.SendStack != 0 {
		n += sizeCopied
	}
	return n
}

// more reads the data that follows an event's layout (fill_more, send_copied). It
// returns false if the record is too short.
func (e *event) more(b []byte, options uint32) bool {
	if options&abi.SendSelf != 0 {
		e.self, b = binary.LittleEndian.Uint64(b), b[8:]
	}
	if options&abi.SendCaller != 0 {
		e.caller, e.image, b = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), b[16:]
	}
	if options&(abi.Allocates|abi.Frees) != 0 {
		e.address, e.size, b = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), b[16:]
	}
	if options&abi.SendFrame != 0 {
		e.frame, b = binary.LittleEndian.Uint64(b), b[8:]
	}
	if n := 8 * e.contextWords; n > 0 {
		e.context, b = b[:n], b[n:]
	}
	if options&abi.SendStack != 0 {
		e.copied = (*bpf.FunctionCopied)(unsafe.Pointer(unsafe.SliceData(b)))
		behind := b[sizeCopied:]
		taken, texts := uint64(e.copied.Returns)*uint64(sizeTaken), uint64(e.copied.Texts)
		if rest := uint64(len(behind)); taken+texts > rest || e.copied.Bytes > rest-taken-texts {
			return false
		}
		e.taken = unsafe.Slice((*bpf.FunctionTaken)(unsafe.Pointer(unsafe.SliceData(behind))), e.copied.Returns)
		if options&abi.SendTexts != 0 {
			e.texts = behind[taken : taken+texts]
		}
		e.stack = behind[taken+texts:][:e.copied.Bytes]
	}
	return true
}

// comm returns a name as the kernel stores it, without its terminator.
func comm(c *[16]int8) []byte {
	b := (*[16]byte)(unsafe.Pointer(c))[:]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// texts holds the texts of an event, in place.
type texts []byte

// Text returns the text in a slot; false means NULL.
func (t texts) Text(slot int) ([]byte, bool) {
	if len(t) < calls.TextsHeader {
		return nil, false
	}
	at := calls.TextsHeader
	for i := range slot {
		if n := t.length(i); n != calls.NoText {
			at += n
		}
	}
	n := t.length(slot)
	if n == calls.NoText || at+n > len(t) {
		return nil, false
	}
	return t[at : at+n], true
}

func (t texts) length(slot int) int { return int(binary.LittleEndian.Uint16(t[2+2*slot:])) }
