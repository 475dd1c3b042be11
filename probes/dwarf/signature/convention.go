package signature

import (
	"errors"

	"endoscope/probes/dwarf/op"
)

// convention assigns registers and stack slots to arguments or results.
type convention struct {
	f      *Info
	golang bool
	rust   bool
	ints   []int // DWARF numbers of the registers left
	floats int   // number of floating-point registers left
	float  int   // number of floating-point registers used
	stack  int64 // bytes of stack used, from the canonical frame address on
}

// DWARF register numbers (System V ABI for x86-64, figure 3.36).
const (
	dwAX, dwDX, dwCX, dwBX, dwSI, dwDI = 0, 1, 2, 3, 4, 5
	dwSP                               = 7
	dwR8, dwR9, dwR10, dwR11           = 8, 9, 10, 11
	dwXMM0                             = 17
)

var (
	systemVArguments = []int{dwDI, dwSI, dwDX, dwCX, dwR8, dwR9}
	systemVResults   = []int{dwAX, dwDX}
	goRegisters      = []int{dwAX, dwBX, dwCX, dwDI, dwSI, dwR8, dwR9, dwR10, dwR11}
)

const (
	systemVFloats = 8
	goFloats      = 15
)

// takeFloat assigns the next floating-point register.
func (c *convention) takeFloat() int {
	c.floats--
	c.float++
	return dwXMM0 + c.float - 1
}

// class is the ABI class of eight bytes of an object.
type class uint8

const (
	noClass class = iota
	integer
	sse
	memory
)

// errFloat is why floating-point numbers are not read.
var errFloat = errors.New("is floating point and in an XMM register, which programs in the kernel cannot read")

// pass returns the location of the next parameter, or result, of a type.
func (c *convention) pass(t *Type) ([]op.Piece, error) {
	if c.golang {
		return c.passGo(t)
	}
	if t.indirect || c.rust && t.Kind != Float && t.Size > 16 {
		return c.pointed()
	}
	if t.Size <= 0 {
		return nil, errNotAtEntry
	}
	if c.rust {
		return c.passRust(t)
	}
	classes := []class{memory}
	if t.Size <= 16 {
		classes = make([]class, (t.Size+7)/8)
		if err := c.classify(t, 0, classes, maxDepth); err != nil {
			return nil, err
		}
	}
	ints, floats := 0, 0
	for _, k := range classes {
		switch k {
		case integer:
			ints++
		case sse:
			floats++
		case memory:
			return c.onStack(t), nil
		}
	}
	if ints > len(c.ints) || floats > c.floats {
		return c.onStack(t), nil
	}
	var out []op.Piece
	for i, k := range classes {
		p := op.Piece{Kind: op.InRegister, At: int64(8 * i), Size: 8}
		switch k {
		case sse:
			p.Register = c.takeFloat()
		case integer:
			p.Register = c.ints[0]
			c.ints = c.ints[1:]
		default: // an empty class
			continue
		}
		out = append(out, p)
	}
	return out, nil
}

// passRust implements Rust's own convention for objects of at most 16 bytes. It
// is not documented, but implemented by its compiler
// (rustc_target/src/callconv/mod.rs, adjust_for_rust_abi): one or two scalars,
// in any nesting of structs, are passed as scalars; other objects of at most 8
// bytes are passed as an integer, larger ones by a pointer.
func (c *convention) passRust(t *Type) ([]op.Piece, error) {
	var scalars []member
	flat, err := c.scalars(t, 0, &scalars, maxDepth)
	if err != nil {
		return nil, err
	}
	switch {
	case flat && len(scalars) <= 2:
	case t.Size > 8:
		return c.pointed()
	default:
		scalars = []member{{t: &Type{Kind: Uint, Size: 8}}}
	}
	ints, floats := 0, 0
	for _, s := range scalars {
		if s.t.Kind == Float {
			floats++
		} else {
			ints++
		}
	}
	if ints > len(c.ints) || floats > c.floats {
		// Each scalar is passed on its own: the first ones take the registers that are left.
		c.ints = c.ints[min(ints, len(c.ints)):]
		c.float, c.floats = c.float+min(floats, c.floats), c.floats-min(floats, c.floats)
		return nil, errNotAtEntry
	}
	var out []op.Piece
	for _, s := range scalars {
		p := op.Piece{Kind: op.InRegister, At: s.offset, Size: s.t.Size}
		if s.t.Kind == Float {
			p.Register = c.takeFloat()
		} else {
			p.Register, c.ints = c.ints[0], c.ints[1:]
		}
		out = append(out, p)
	}
	return out, nil
}

// scalars adds the scalars that a type consists of; false if some are unknown,
// or there are too many.
func (c *convention) scalars(t *Type, at int64, out *[]member, depth int) (bool, error) {
	if depth == 0 {
		return false, errors.New("has damaged debug information")
	}
	switch t.Kind {
	case Struct:
		ms, err := c.f.members(t)
		if err != nil || len(ms) == 0 {
			return t.Size == 0, err
		}
		for _, m := range ms {
			if ok, err := c.scalars(m.t, at+m.offset, out, depth-1); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	case Union, Array:
		return false, nil
	}
	if t.Size > 0 {
		*out = append(*out, member{offset: at, t: t})
	}
	return len(*out) <= 2, nil
}

// pointed returns the location of an object passed by pointer.
func (c *convention) pointed() ([]op.Piece, error) {
	p := op.Piece{Kind: op.InMemory}
	if len(c.ints) == 0 {
		c.stack += 8 // the pointer is on the stack
		return nil, errNotAtEntry
	}
	p.Register = c.ints[0]
	c.ints = c.ints[1:]
	return []op.Piece{p}, nil
}

func (c *convention) onStack(t *Type) []op.Piece {
	p := op.Piece{Kind: op.InMemory, Register: op.CFA, Offset: c.stack}
	c.stack += (t.Size + 7) &^ 7
	return []op.Piece{p}
}

// classify computes the classes of the bytes of an object from offset on
// (System V ABI, 3.2.3).
func (c *convention) classify(t *Type, offset int64, classes []class, depth int) error {
	if depth == 0 {
		return errors.New("has damaged debug information")
	}
	bytes := int64(8 * len(classes))
	if offset < 0 || t.Size < 0 {
		return errors.New("has damaged debug information")
	}
	merge := func(k class) error {
		// Bytes after the object, as of a field of size zero at its end, have
		// no class.
		for at, end := offset, offset+min(max(t.Size, 1), bytes); at < min(end, bytes); at += 8 - at%8 {
			classes[at/8] = merged(classes[at/8], k)
		}
		return nil
	}
	switch t.Kind {
	case Float:
		if t.Size > 8 {
			return merge(memory)
		}
		return merge(sse)
	case Struct, Union:
		ms, err := c.f.members(t)
		if err != nil {
			return err
		}
		for _, m := range ms {
			if err := c.classify(m.t, offset+m.offset, classes, depth-1); err != nil {
				return err
			}
		}
		return nil
	case Array:
		elem, err := c.f.typeOf(t.elem)
		if err != nil || elem.Size == 0 {
			return err
		}
		for i := range min(t.count, 16) {
			if err := c.classify(elem, offset+i*elem.Size, classes, depth-1); err != nil {
				return err
			}
		}
		return nil
	}
	return merge(integer)
}

func merged(a, b class) class {
	switch {
	case a == memory || b == memory:
		return memory
	case a == integer || b == integer:
		return integer
	case a == noClass:
		return b
	}
	return a
}

// passGo implements Go's convention: an object is passed entirely in registers,
// or entirely on the stack.
func (c *convention) passGo(t *Type) ([]op.Piece, error) {
	ints, floats, float := c.ints, c.floats, c.float
	var out []op.Piece
	fits, err := c.assignGo(t, 0, &out, maxDepth)
	if err != nil {
		return nil, err
	}
	if fits && len(out) > 0 {
		return out, nil
	}
	c.ints, c.floats, c.float = ints, floats, float
	c.stack = (c.stack + goAlign(t) - 1) &^ (goAlign(t) - 1)
	p := op.Piece{Kind: op.InMemory, Register: op.CFA, Offset: c.stack}
	c.stack += t.Size
	return []op.Piece{p}, nil
}

// goAlign returns the alignment of a type that is passed on the stack: nearly
// all contain words.
func goAlign(t *Type) int64 {
	if t.Size > 0 && t.Size < 8 && t.Size&(t.Size-1) == 0 {
		return t.Size
	}
	return 8
}

// assignGo assigns registers to an object (abi-internal.md, "Register
// assignment").
func (c *convention) assignGo(t *Type, at int64, out *[]op.Piece, depth int) (bool, error) {
	if depth == 0 {
		return false, errors.New("has damaged debug information")
	}
	switch t.Kind {
	case Struct:
		ms, err := c.f.members(t)
		if err != nil {
			return false, err
		}
		for _, m := range ms {
			if ok, err := c.assignGo(m.t, at+m.offset, out, depth-1); !ok || err != nil {
				return ok, err
			}
		}
		return true, nil
	case Array:
		if t.count == 0 {
			return true, nil
		}
		if t.count > 1 {
			return false, nil
		}
		elem, err := c.f.typeOf(t.elem)
		if err != nil {
			return false, err
		}
		return c.assignGo(elem, at, out, depth-1)
	case Float:
		if c.floats == 0 {
			return false, nil
		}
		*out = append(*out, op.Piece{Kind: op.InRegister, Register: c.takeFloat(), At: at, Size: t.Size})
		return true, nil
	}
	if len(c.ints) == 0 {
		return false, nil
	}
	*out = append(*out, op.Piece{Kind: op.InRegister, Register: c.ints[0], At: at, Size: t.Size})
	c.ints = c.ints[1:]
	return true, nil
}
