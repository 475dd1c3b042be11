package variable

import "encoding/binary"

// step is a pointer on the way to a variable.
type step struct {
	pointer string // its name, as it was asked for
	offset  uint64 // from where it leads to
	length  uint64 // that a slice of Go must have, whose pointer it is; 0: it is none
}

// A slice of Go is a pointer, a length and a capacity.
const (
	sliceLength   = 8
	sliceCapacity = 16
	sliceSize     = 24
)

// state is what is known of a variable at a moment, as in variable.bpf.c.
type state uint8

const (
	present    state = iota
	absent           // a pointer on the way is null, or a slice too short
	unreadable       // a pointer on the way leads to where nothing can be read
	unknown          // not even the first pointer can be read, or the variable itself if there is none
)

// lead follows a pointer that lies at an address. A slice is asked for the length, or the
// capacity, that lies at an offset.
func (s step) lead(at, bound uint64, memory func(addr uint64, n int) []byte) (next uint64, is state) {
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

// read reads the variable. It has no value but where it is present.
func (o *observed) read(memory func(addr uint64, n int) []byte) (v value, is state) {
	at := o.addr
	for i, s := range o.follow {
		if at, is = s.lead(at, sliceLength, memory); is == unreadable && i == 0 {
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
