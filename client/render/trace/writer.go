package trace

import (
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of the fields that a trace uses, of the messages in
// https://perfetto.dev/docs/reference/trace-packet-proto.
const (
	tracePacket = 1

	packetTime     = 8
	packetSequence = 10
	packetEvent    = 11
	packetInterned = 12
	packetFlags    = 13
	packetTrack    = 60

	internedNames     = 2
	internedArguments = 3
	internedID        = 1
	internedName      = 2

	eventArgument = 4
	eventType     = 9
	eventName     = 10 // interned
	eventTrack    = 11
	eventCount    = 30
	eventReal     = 44

	argumentName   = 1 // interned
	argumentBool   = 2
	argumentUint   = 3
	argumentInt    = 4
	argumentDouble = 5
	argumentText   = 6

	trackID      = 1
	trackName    = 2
	trackProcess = 3
	trackThread  = 4
	trackParent  = 5
	trackCounter = 8

	processID   = 1
	processName = 6

	threadProcess = 1
	threadID      = 2
	threadName    = 5

	counterUnit = 3
)

// Kind is the kind of an event.
type Kind uint64

// The kinds of events.
const (
	Begin   Kind = 1 // of a slice
	End     Kind = 2 // of the innermost slice of the track
	Instant Kind = 3
	counter Kind = 4
)

const (
	unitTime = 1 // ns

	stateCleared = 1 // flags: interned names begin
	stateNeeded  = 2
)

// mostInterned is the largest number of names that are written once: then they begin again.
const mostInterned = 1 << 16

// Writer encodes packets of a trace. Names are written once and referred to.
type Writer struct {
	Out      []byte // what has been encoded; the caller takes it away
	sequence uint32
	cleared  bool // names have begun
	names    interned
	argNames interned

	// Of the packet that has been begun.
	at, track   uint64
	kind        Kind
	name        uint64
	body, fresh []byte // its arguments, and names that are new
	part        []byte // scratch
}

// interned are names with numbers.
type interned struct {
	field protowire.Number
	ids   map[string]uint64
}

// NewWriter returns a writer of a sequence of packets, with a number of its own in the trace.
func NewWriter(sequence uint32) *Writer {
	return &Writer{sequence: sequence, names: interned{internedNames, map[string]uint64{}}, argNames: interned{internedArguments, map[string]uint64{}}}
}

// Track returns the identifier of a track of this sequence.
func (t *Writer) Track(n int) uint64 { return uint64(t.sequence)<<32 | uint64(n) }

// start begins an event without a name.
func (t *Writer) start(at, track uint64, kind Kind) {
	t.at, t.track, t.kind, t.name = at, track, kind, 0
	t.body, t.fresh = t.body[:0], t.fresh[:0]
	if len(t.names.ids)+len(t.argNames.ids) > mostInterned {
		clear(t.names.ids)
		clear(t.argNames.ids)
		t.cleared = false
	}
}

func (t *Writer) id(in *interned, name string) uint64 {
	id, ok := in.ids[name]
	if !ok {
		id = uint64(len(in.ids) + 1)
		in.ids[name] = id
		t.part = appendUint(t.part[:0], internedID, id)
		t.part = appendText(t.part, internedName, name)
		t.fresh = appendMessage(t.fresh, in.field, t.part)
	}
	return id
}

// Int, Bool, Double and Text add arguments to the event.
func (t *Writer) Int(name string, v int64) {
	t.argument(appendUint(t.argumentNamed(name), argumentInt, uint64(v)))
}

func (t *Writer) Uint(name string, v uint64) {
	t.argument(appendUint(t.argumentNamed(name), argumentUint, v))
}

func (t *Writer) Bool(name string, v bool) {
	t.argument(appendUint(t.argumentNamed(name), argumentBool, protowire.EncodeBool(v)))
}

func (t *Writer) Double(name string, v float64) {
	t.argument(appendDouble(t.argumentNamed(name), argumentDouble, v))
}

func (t *Writer) Text(name, v string) {
	t.argument(appendText(t.argumentNamed(name), argumentText, v))
}

// argumentNamed begins an argument.
func (t *Writer) argumentNamed(name string) []byte {
	id := t.id(&t.argNames, name)
	return appendUint(t.part[:0], argumentName, id)
}

func (t *Writer) argument(encoded []byte) {
	t.part = encoded
	t.body = appendMessage(t.body, eventArgument, encoded)
}

// End writes the packet of the event.
func (t *Writer) End() {
	p := appendUint(t.part[:0], eventType, uint64(t.kind))
	p = appendUint(p, eventTrack, t.track)
	if t.name != 0 {
		p = appendUint(p, eventName, t.name)
	}
	t.part = append(p, t.body...)
	t.packet(packetEvent, t.part)
}

// packet writes a packet with one message.
func (t *Writer) packet(field protowire.Number, message []byte) {
	flags := uint64(stateNeeded)
	if !t.cleared {
		flags, t.cleared = stateCleared|stateNeeded, true
	}
	size := sizeUint(packetSequence, uint64(t.sequence)) + sizeUint(packetFlags, flags) + sizeMessage(field, message)
	timed := field == packetEvent // a description holds at every time
	if timed {
		size += sizeUint(packetTime, t.at)
	}
	if len(t.fresh) > 0 {
		size += sizeMessage(packetInterned, t.fresh)
	}
	t.Out = protowire.AppendTag(t.Out, tracePacket, protowire.BytesType)
	t.Out = protowire.AppendVarint(t.Out, uint64(size))
	if timed {
		t.Out = appendUint(t.Out, packetTime, t.at)
	}
	t.Out = appendUint(t.Out, packetSequence, uint64(t.sequence))
	t.Out = appendUint(t.Out, packetFlags, flags)
	if len(t.fresh) > 0 {
		t.Out = appendMessage(t.Out, packetInterned, t.fresh)
		t.fresh = t.fresh[:0]
	}
	t.Out = appendMessage(t.Out, field, message)
}

// Event begins an event at a time in ns, with a name; "" has none. Arguments may follow, then
// End.
func (t *Writer) Event(at, track uint64, kind Kind, name string) {
	t.start(at, track, kind)
	if name != "" {
		t.name = t.id(&t.names, name)
	}
}

// Count writes the value of a counter.
func (t *Writer) Count(at, track uint64, v int64) {
	t.start(at, track, counter)
	t.body = appendUint(t.body, eventCount, uint64(v))
	t.End()
}

// Real writes the value of a counter that is no integer.
func (t *Writer) Real(at, track uint64, v float64) {
	t.start(at, track, counter)
	t.body = appendDouble(t.body, eventReal, v)
	t.End()
}

// Describe names a track; parent 0: it has none.
func (t *Writer) Describe(uuid, parent uint64, name string) {
	t.descriptor(uuid, parent, appendText(nil, trackName, name))
}

// Process describes the track of a process; name may be "".
func (t *Writer) Process(uuid uint64, pid int64, name string) {
	p := appendUint(nil, processID, uint64(pid))
	if name != "" {
		p = appendText(p, processName, name)
	}
	t.descriptor(uuid, 0, appendMessage(nil, trackProcess, p))
}

// Thread describes the track of a thread; name may be "".
func (t *Writer) Thread(uuid, parent uint64, pid, tid int64, name string) {
	if pid == 0 {
		pid = tid // a thread belongs to a process
	}
	p := appendUint(appendUint(nil, threadProcess, uint64(pid)), threadID, uint64(tid))
	if name != "" {
		p = appendText(p, threadName, name)
	}
	t.descriptor(uuid, parent, appendMessage(nil, trackThread, p))
}

// Counter describes the track of a counter, in ns or without a unit.
func (t *Writer) Counter(uuid, parent uint64, name string, duration bool) {
	var unit []byte
	if duration {
		unit = appendUint(nil, counterUnit, unitTime)
	}
	t.descriptor(uuid, parent, appendMessage(appendText(nil, trackName, name), trackCounter, unit))
}

// descriptor writes what a track is.
func (t *Writer) descriptor(uuid, parent uint64, what []byte) {
	p := appendUint(nil, trackID, uuid)
	if parent != 0 {
		p = appendUint(p, trackParent, parent)
	}
	t.fresh = t.fresh[:0]
	t.packet(packetTrack, append(p, what...))
}

func appendUint(dst []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

func appendDouble(dst []byte, field protowire.Number, f float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, field, protowire.Fixed64Type), math.Float64bits(f))
}

func appendText(dst []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), strings.ToValidUTF8(s, "\ufffd"))
}

func appendMessage(dst []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), m)
}

func sizeUint(field protowire.Number, v uint64) int {
	return protowire.SizeTag(field) + protowire.SizeVarint(v)
}

func sizeMessage(field protowire.Number, m []byte) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(len(m))
}
