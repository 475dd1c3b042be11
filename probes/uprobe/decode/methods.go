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

// methods is what a subscription knows of the methods that its programs tell.
type methods struct {
	sel      *selection.Selector
	module   string
	table    *ebpf.Map // by bpf.FunctionMethodKey
	unwanted map[uint32]bool
}

// Of a method in its table, and of a record that defines one.
const (
	unwantedMethod = 1 << 31
	definesMethod  = 1<<32 - 1
	MaxMethods     = 1 << 18 // METHODS of java.h
	sizeMethod     = int(unsafe.Sizeof(bpf.FunctionEventMethod{}))
)

// NewMethods is what is known of the methods that a machine of Java tells which runs
// an executable.
func NewMethods(sel *selection.Selector, exe string, in *program.Installation) *methods {
	return &methods{sel: sel, module: filepath.Base(exe), table: in.Objects.Maps[bpf.FunctionMapMethods], unwanted: map[uint32]bool{}}
}

// define notes what a method is called, and has the programs leave it alone
// unless it is selected.
func (s *Subscription) define(record []byte) {
	if len(record) < sizeMethod {
		return
	}
	e := (*bpf.FunctionEventMethod)(unsafe.Pointer(unsafe.SliceData(record)))
	if e.Id > MaxMethods {
		return // no program gives such a number
	}
	m := java.Method{
		Class:      strings.ReplaceAll(textIn(e.Class[:], uint32(e.Key.ClassLength)), "/", "."),
		Name:       textIn(e.Name[:], uint32(e.Key.NameLength)),
		Descriptor: textIn(e.Signature[:], e.SignatureLength),
	}
	name, wanted := s.Java.sel.Means(&m, s.Java.module)
	s.Name(e.Id, calls.Label{Function: name, Class: m.Class, Module: s.Java.module})
	if wanted {
		return
	}
	s.Java.unwanted[e.Id] = true
	// Another thread may have defined it at the same time: the number in the table
	// is what counts, which need not be this one.
	var id uint32
	if s.Java.table.Lookup(&e.Key, &id) == nil {
		_ = s.Java.table.Put(&e.Key, id|unwantedMethod)
	}
}

// tells reports whether the event is of a method that is selected, or of none.
func (m *methods) tells(e *event, labels int) bool {
	return e.kind == gapInitial || int(e.function) < labels && !m.unwanted[e.function]
}

// textIn is a text of so many bytes, or as much of it as there was room for.
func textIn(b []int8, length uint32) string {
	out := make([]byte, min(int(length), len(b)))
	for i := range out {
		out[i] = byte(b[i])
	}
	return string(bytes.ToValidUTF8(out, []byte("\uFFFD")))
}
