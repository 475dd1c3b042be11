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

// methods holds what a subscription knows about the methods of Java, or functions of
// Python, that its programs report.
type methods struct {
	sel      *selection.Selector
	module   string // of methods of Java; those of Python have their own
	python   bool
	table    *ebpf.Map // by bpf.FunctionMethodKey
	unwanted map[uint32]bool
}

// Flags and limits of a method in its table, and the size of a record that defines
// one.
const (
	unwantedMethod = 1 << 31
	definesMethod  = 1<<32 - 1
	MaxMethods     = 1 << 18 // METHODS of reported.h
	sizeMethod     = int(unsafe.Sizeof(bpf.FunctionEventMethod{}))
)

// NewMethods returns the method table of the machines that run an executable.
func NewMethods(sel *selection.Selector, exe string, python bool, in *program.Installation) *methods {
	return &methods{sel: sel, module: filepath.Base(exe), python: python, table: in.Objects.Maps[bpf.FunctionMapMethods], unwanted: map[uint32]bool{}}
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
	label, wanted := s.Reported.named(e)
	s.Name(e.Id, label)
	if wanted {
		return
	}
	s.Reported.unwanted[e.Id] = true
	// Another thread may have defined the method at the same time. The number in the
	// table is the valid one; it may differ from this record's.
	var id uint32
	if s.Reported.table.Lookup(&e.Key, &id) == nil {
		_ = s.Reported.table.Put(&e.Key, id|unwantedMethod)
	}
}

// named returns the names of a method, and whether it is selected.
func (m *methods) named(e *bpf.FunctionEventMethod) (calls.Label, bool) {
	class, name := textIn(e.Class[:], uint32(e.Key.ClassLength)), textIn(e.Name[:], uint32(e.Key.NameLength))
	if m.python {
		wanted, err := m.sel.Match(name, "", class)
		return calls.Label{Function: name, Module: class}, wanted && err == nil
	}
	method := java.Method{Class: strings.ReplaceAll(class, "/", "."), Name: name, Descriptor: textIn(e.Signature[:], e.SignatureLength)}
	name, wanted := m.sel.MatchMethod(&method, m.module)
	return calls.Label{Function: name, Class: method.Class, Module: m.module}, wanted
}

// tooMany is the cause of calls lost because their method got no number.
func (m *methods) tooMany() string {
	if m != nil && m.python {
		return "too many functions of Python"
	}
	return "too many methods of Java"
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
