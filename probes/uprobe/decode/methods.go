package decode

import (
	"bytes"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"

	"endoscope/probes/bpf"
	"endoscope/probes/lang/java"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/selection"
)

// methods holds what a subscription knows about the Java methods that its programs
// report.
type methods struct {
	sel      *selection.Selector
	module   string
	table    *ebpf.Map // by bpf.FunctionMethodKey
	unwanted map[uint32]bool
}

// Flags and limits of a method in its table, and the size of a record that defines
// one.
const (
	unwantedMethod = 1 << 31
	definesMethod  = 1<<32 - 1
	MaxMethods     = 1 << 18 // METHODS of java.h
	sizeMethod     = int(unsafe.Sizeof(bpf.FunctionEventMethod{}))
)

// NewMethods returns the method table of the Java machines that run an executable.
func NewMethods(sel *selection.Selector, exe string, in *program.Installation) *methods {
	return &methods{sel: sel, module: filepath.Base(exe), table: in.Objects.Maps[bpf.FunctionMapMethods], unwanted: map[uint32]bool{}}
}

// define records a method's name, and makes the programs ignore the method unless it
// is selected.
func (s *Subscription) define(record []byte) {
	if len(record) < sizeMethod {
		return
	}
	e := (*bpf.FunctionEventMethod)(unsafe.Pointer(unsafe.SliceData(record)))
	if e.Id > MaxMethods {
		return // no program assigns such a number
	}
	m := java.Method{
		Class:      strings.ReplaceAll(textIn(e.Class[:], uint32(e.Key.ClassLength)), "/", "."),
		Name:       textIn(e.Name[:], uint32(e.Key.NameLength)),
		Descriptor: textIn(e.Signature[:], e.SignatureLength),
	}
	name, wanted := s.Java.sel.MatchMethod(&m, s.Java.module)
	s.Name(e.Id, calls.Label{Function: name, Class: m.Class, Module: s.Java.module})
	if wanted {
		return
	}
	s.Java.unwanted[e.Id] = true
	// Another thread may have defined the method at the same time. The number in the
	// table is the valid one; it may differ from this record's.
	var id uint32
	if s.Java.table.Lookup(&e.Key, &id) == nil {
		_ = s.Java.table.Put(&e.Key, id|unwantedMethod)
	}
}

// includes reports whether the event belongs to a selected method, or to no method.
func (m *methods) includes(e *event, labels int) bool {
	return e.kind == gapInitial || int(e.function) < labels && !m.unwanted[e.function]
}

// textIn returns a text of the given length, truncated to the size of its buffer.
func textIn(b []int8, length uint32) string {
	out := make([]byte, min(int(length), len(b)))
	for i := range out {
		out[i] = byte(b[i])
	}
	return string(bytes.ToValidUTF8(out, []byte("\uFFFD")))
}
