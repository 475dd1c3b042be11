package variable

import "encoding/binary"

// step is a pointer on the path to a variable.
type step struct {
	pointer string // its name as in the query
	offset  uint64 // added to the pointer
	length  uint64 // minimum length if the pointer belongs to a Go slice; 0: it does not
}

// A Go slice is a pointer, a length and a capacity.
const (
	sliceLength   = 8
	sliceCapacity = 16
	sliceSize     = 24
)

// state is the readability of a variable, as in variable.bpf.c.
type state uint8

const (
	present    state = iota
	absent           // a pointer on the path is null, or a slice is too short
	unreadable       // a pointer on the path leads to unreadable memory
	unknown          // the first pointer, or without pointers the variable, is unreadable
)

// dereference follows the pointer at an address. bound is the offset of the length, or
// capacity, of a slice.
func (s step) dereference(at, bound uint64, memory func(addr uint64, n int) []byte) (next uint64, is state) {
	n := 8
	if s.length > 0 {
		n = sliceSize
	}
	b := memory(at, n)
	if b == nil {
		return 0, unreadable
	}
	if next = binary.LittleEndian.Uint64(b); next == 0 || s.length > 0 && binary.LittleEndian.Uint64(b[bound:]) < s.length {
		return 0, absent
	}
	return next + s.offset, present
}

// read reads the variable. The value is set only if the state is present.
func (o *observed) read(memory func(addr uint64, n int) []byte) (v value, is state) {
	at := o.addr
	for i, s := range o.follow {
		if at, is = s.dereference(at, sliceLength, memory); is == unreadable && i == 0 {
			return v, unknown
		}
		if is != present {
			return v, is
		}
	}
	b := memory(at, o.form.size)
	switch {
	case b != nil:
		return o.form.read(b, memory), present
	case len(o.follow) == 0:
		return v, unknown
	}
	return v, unreadable
}
