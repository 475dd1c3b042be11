package signature

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/op"
	"endoscope/probes/dwarf/shape"
)

// Value is how an argument or result is read.
type Value struct {
	codegen.Value
	Type types.Type
	// Names are the names of an enum's values; its Type is VARCHAR.
	Names map[int64]string
	// Float is the size in bytes of a floating-point number, of which the
	// number has the bits; its Type is DOUBLE. 0: not a floating-point number.
	Float int64
	// Pointer: the number is an address. Unsigned: it is unsigned.
	Pointer, Unsigned bool
	// Shape is the shape of an object that is read as a whole; its Type is VARCHAR: it is
	// printed as JSON. nil: not such an object.
	Shape *shape.Shape
	// Lacks is why a part of the object is not read; nil: it is read completely.
	Lacks error
}

// Where describes a probe site and how values are wanted there.
type Where struct {
	// SPOffset is added to the stack pointer to get the address of the return
	// address.
	SPOffset int64
	// MaxText limits the bytes read of a text.
	MaxText int
	// AsText: pointers of any type are read as texts.
	AsText bool
	// AsNumber: pointers, enums, booleans and unsigned numbers are read as BIGINTs; an
	// unsigned number that does not fit is NULL.
	AsNumber bool
	// Whole: structs, unions and arrays are read as a whole.
	Whole bool
	// Computed: indexes of elements may be other values. Result: those of the return.
	Computed, Result bool
}

// Argument returns the value that path names: a parameter, and fields of it.
func (f *Function) Argument(path []string, at Where) (Value, error) {
	if p, ok := f.rawArgument(path[0]); ok {
		return f.value(p, path, at)
	}
	var names []string
	for i := range f.Params {
		p := &f.Params[i]
		if p.Name == path[0] {
			return f.value(p, path, at)
		}
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	e := plan.Errorf(-1, -1, "%s has no argument %s", f.Name, path[0])
	switch near := plan.Nearest(path[0], names, 2); {
	case len(names) == 0:
		return Value{}, e.WithHint("it has none with a name")
	case len(near) > 0:
		return Value{}, e.WithHint("did you mean args.%s?", strings.Join(near, " or args."))
	}
	return Value{}, e.WithHint("it has args.%s", strings.Join(names, ", args."))
}

// Return returns the result of the function, or a field of it. Of several
// results of a Go function it is the first, unless path begins with the name of
// another: r1 is that of the second one if it is unnamed.
func (f *Function) Return(path []string, at Where) (Value, error) {
	if f.Result == nil {
		return Value{}, plan.Errorf(-1, -1, "%s returns nothing", f.Name)
	}
	p, full := f.Result, append([]string{"retval"}, path...)
	if len(path) > 0 && len(f.More) > 0 {
		for i := -1; i < len(f.More); i++ {
			other := f.Result
			if i >= 0 {
				other = &f.More[i]
			}
			if strings.TrimPrefix(other.Name, "~") == path[0] {
				p, full = other, full[1:]
				break
			}
		}
	}
	return f.value(p, full, at)
}

// value returns the part of p that path names.
func (f *Function) value(p *Param, path []string, at Where) (Value, error) {
	f.info.mu.Lock()
	defer f.info.mu.Unlock()
	f.info.left = maxSpent
	v, err := f.read(p, path, at)
	if err == nil && v.Lacks == nil {
		return v, nil
	}
	var e *plan.Error
	if errors.As(err, &e) {
		return Value{}, err
	}
	switch {
	case slices.ContainsFunc(f.Params, func(x Param) bool { return x.Name == p.Name && p.Name != "" && x.Type == p.Type }):
		path = append([]string{"args"}, path...)
	case path[0] != "retval" && !strings.HasPrefix(path[0], "#"):
		path = append([]string{"retval"}, path...)
	}
	what := named(path...)
	if err == nil {
		v.Lacks = plan.Errorf(-1, -1, "a part of %s of %s %v", what, f.Name, v.Lacks)
		return v, nil
	}
	v = Value{}
	e = plan.Errorf(-1, -1, "%s of %s %v", what, f.Name, err)
	if errors.As(err, new(wholeArray)) || errors.As(err, new(tooLarge)) {
		return v, e.WithHint("the first is %s[0]", what)
	}
	return v, e
}

// object is an object with its type and location.
type object struct {
	t      *Type
	pieces []op.Piece // for an object in registers; else nil
	// base is the address to which offset is added.
	base   codegen.Integer
	offset int64
	memory bool
	// bit and bits locate a bit field; bits 0: not a bit field.
	bit, bits int64
	moved     int64  // bytes added to the address that the object is
	bound     *bound // of the slice that contains it; nil: none
}

func (f *Function) read(p *Param, path []string, at Where) (v Value, err error) {
	defer recovered(&err)
	if p.err != nil {
		return v, p.err
	}
	o := object{t: p.Type, pieces: p.pieces}
	if len(o.pieces) == 1 && o.pieces[0].Kind == op.InMemory {
		o.place(o.pieces[0], at)
	}
	for _, name := range path[1:] {
		if o, err = f.part(o, name, at); err != nil {
			return v, err
		}
	}
	if o.t.Kind == Reference {
		if o, err = f.follow(o, at); err != nil {
			return v, err
		}
	}
	if v, err = f.final(o, at); o.bound != nil {
		v.Length, v.Needs, v.Index = &o.bound.length, o.bound.needs, o.bound.index
	}
	return v, err
}

// place sets the location in memory.
func (o *object) place(p op.Piece, at Where) {
	o.memory, o.offset = true, p.Offset
	o.base = codegen.Integer{Register: registers[p.Register], Follow: p.Follow}
	if p.Register == op.CFA {
		o.base.Register = registers[dwSP]
		o.offset += at.SPOffset + 8
	}
}

// registers maps DWARF register numbers to offsets in struct pt_regs.
var registers = map[int]int16{
	dwAX: 80, dwDX: 96, dwCX: 88, dwBX: 40, dwSI: 104, dwDI: 112, 6: 32, dwSP: 152,
	dwR8: 72, dwR9: 64, dwR10: 56, dwR11: 48, 12: 24, 13: 16, 14: 8, 15: 0,
}

// number returns the object's bits [bit, bit+bits) as an integer.
func (o *object) number(bit, bits int64, signed bool) (codegen.Integer, error) {
	n := o.base
	if o.memory {
		n.Memory, n.Offset = true, o.offset+bit/8
		n.Shift, n.Bits, n.Signed = uint8(bit%8), uint8(bits), signed
		if int64(n.Shift)+bits > 64 {
			return n, errors.New("is a bit field that spans more than 8 bytes")
		}
		return n, nil
	}
	at := o.offset + bit/8
	for _, p := range o.pieces {
		if at < p.At || p.Size > 0 && at >= p.At+p.Size {
			continue
		}
		switch p.Kind {
		case op.InRegister:
			reg, ok := registers[p.Register]
			if p.Register >= dwXMM0 {
				return n, errFloat
			}
			if !ok {
				return n, errNotAtEntry
			}
			n = codegen.Integer{Register: reg, Shift: uint8((at-p.At)*8 + bit%8), Bits: uint8(bits), Signed: signed}
			if int64(n.Shift)+bits > 64 {
				return n, errNotAtEntry
			}
			return n, nil
		case op.Computed:
			if int64(bit%8)+(at-p.At)*8+bits > 64 {
				return n, errNotAtEntry
			}
			return codegen.Integer{Register: registers[p.Register], Sum: true, Offset: p.Offset, Shift: uint8((at-p.At)*8 + bit%8), Bits: uint8(bits), Signed: signed}, nil
		case op.InMemory:
			whole := object{}
			whole.place(p, Where{})
			whole.offset += at - p.At
			return whole.number(bit%8, bits, signed)
		case op.Constant:
			return codegen.Integer{Known: true, Constant: bitsOf(p.Offset, (at-p.At)*8+bit%8, bits, signed)}, nil
		}
		return n, errNotAtEntry
	}
	return n, errNotAtEntry
}

// bitsOf extracts bits of a number.
func bitsOf(n, from, bits int64, signed bool) int64 {
	if from < 0 || from >= 64 || bits <= 0 || from+bits > 64 {
		return n
	}
	u := uint64(n) << (64 - from - bits)
	if signed {
		return int64(u) >> (64 - bits)
	}
	return int64(u >> (64 - bits))
}

// follow returns what a pointer leads to.
func (f *Function) follow(o object, _ Where) (object, error) {
	n, err := o.number(0, 64, false)
	if err != nil {
		return o, err
	}
	t, err := f.info.elementOf(o.t)
	if err != nil {
		return o, err
	}
	next := object{t: t, memory: true, bound: o.bound}
	switch {
	case n.Known:
		return o, fmt.Errorf("is behind a pointer that is always %#x there: the compiler has made it a constant", n.Constant)
	case n.Memory:
		next.base = codegen.Integer{Register: n.Register, Follow: append(slices.Clone(n.Follow), n.Offset), Element: n.Element}
	default:
		next.base, next.offset = codegen.Integer{Register: n.Register}, n.Offset
	}
	next.offset += o.moved
	return next, nil
}

// maxFollow limits the pointers on the path to a value.
const maxFollow = 8

// field returns a field of a struct, or of the struct that a pointer leads to.
func (f *Function) field(o object, name string, at Where) (object, error) {
	for o.t.Kind == Pointer || o.t.Kind == Reference {
		next, err := f.follow(o, at)
		if err != nil {
			return o, err
		}
		o = next
		if len(o.base.Follow) > maxFollow {
			return o, errors.New("is behind too many pointers")
		}
	}
	if o.t.Kind != Struct && o.t.Kind != Union {
		return o, plan.Errorf(-1, -1, "%s has no fields: it is no struct, and no pointer to one", o.t.Name)
	}
	m, err := f.info.member(o.t, name, maxDepth)
	if err != nil {
		return o, err
	}
	if m == nil {
		return o, f.noField(o.t, name)
	}
	o.offset += m.offset
	o.t, o.bit, o.bits = m.t, m.bit, m.bits
	return o, nil
}

func (f *Function) noField(t *Type, name string) error {
	names, err := f.fieldNames(t, maxDepth)
	if err != nil {
		return err
	}
	e := plan.Errorf(-1, -1, "%s has no field %s", t.Name, name)
	switch near := plan.Nearest(name, names, 2); {
	case len(near) > 0:
		return e.WithHint("did you mean %s?", strings.Join(near, " or "))
	case len(names) == 0:
		return e.WithHint("it has none that have a name")
	}
	return e.WithHint("its fields are %s", strings.Join(names[:min(len(names), 12)], ", "))
}

// fieldNames returns the names of the accessible fields: a type's own, and
// those of base classes and unnamed structs.
func (f *Function) fieldNames(t *Type, depth int) (names []string, err error) {
	if depth == 0 {
		return nil, nil
	}
	ms, err := f.info.members(t)
	if err != nil {
		return nil, err
	}
	for _, m := range ms {
		switch {
		case strings.Contains(m.name, "."): // _vptr.Base, added by the compiler
		case m.name != "":
			names = append(names, m.name)
		case m.t.Kind == Struct || m.t.Kind == Union:
			inner, err := f.fieldNames(m.t, depth-1)
			if err != nil {
				return nil, err
			}
			names = append(names, inner...)
		}
	}
	return names, nil
}

// final returns how an object is read.
func (f *Function) final(o object, at Where) (Value, error) {
	t := o.t
	if o.moved != 0 {
		return Value{}, errors.New("is an address to which bytes were added: a field or an element of what is there can be read")
	}
	bit, bits := o.bit, o.bits
	if bits == 0 {
		bits = t.Size * 8
	}
	switch t.Kind {
	case Int, Uint, Bool, Enum:
		if bits == 0 || bits > 64 {
			return Value{}, fmt.Errorf("has %d bytes, of which BIGINT has 8", t.Size)
		}
	}
	switch t.Kind {
	case Int, Uint, Bool:
		n, err := o.number(bit, bits, t.Kind == Int)
		v := Value{Value: codegen.Value{Number: &n}, Type: types.Bigint, Unsigned: t.Kind == Uint}
		switch {
		case t.Kind == Bool && !at.AsNumber:
			v.Type = types.Boolean
		case t.Kind == Uint && bits == 64 && !at.AsNumber:
			v.Type = types.Ubigint
		case t.Kind == Uint && bits == 64:
			n.Fits = !n.Known
		}
		return v, err
	case Enum:
		names, signed, err := f.info.enumerators(t)
		if err != nil {
			return Value{}, err
		}
		n, err := o.number(bit, bits, signed)
		if at.AsNumber {
			return Value{Value: codegen.Value{Number: &n}, Type: types.Bigint}, err
		}
		return Value{Value: codegen.Value{Number: &n}, Type: types.Varchar, Names: names}, err
	case Float:
		if t.Size > 8 {
			return Value{}, errors.New("is long double, which is not read")
		}
		n, err := o.number(0, t.Size*8, false)
		return Value{Value: codegen.Value{Number: &n}, Type: types.Double, Float: t.Size}, err
	case Pointer:
		n, err := o.number(0, 64, false)
		if err != nil || at.AsNumber {
			return Value{Value: codegen.Value{Number: &n}, Type: types.Bigint}, err
		}
		elem, err := f.info.elementOf(t)
		if err != nil {
			return Value{}, err
		}
		if elem.Char || at.AsText {
			return Value{Value: codegen.Value{Text: &codegen.Text{At: n, Max: at.MaxText}}, Type: types.Varchar}, nil
		}
		if elem.Kind == Struct {
			inner, err := f.follow(o, at)
			if err != nil {
				return Value{}, err
			}
			if text, ok, err := f.textStruct(inner, at); ok || err != nil {
				return text, err
			}
		}
		return Value{Value: codegen.Value{Number: &n}, Type: types.Ubigint, Pointer: true}, nil
	case Code:
		return Value{}, errors.New("is a function")
	case Array:
		elem, err := f.info.typeOf(t.elem)
		if err != nil {
			return Value{}, err
		}
		if (elem.Char || at.AsText && elem.Size == 1) && o.memory {
			n := o.base
			n.Address, n.Offset = true, o.offset
			return Value{Value: codegen.Value{Text: &codegen.Text{At: n, Chars: int(min(t.count, 1<<20)), Max: at.MaxText}}, Type: types.Varchar}, nil
		}
		if at.Whole {
			return f.whole(o)
		}
		return Value{}, wholeArray(t.Name)
	case Struct:
		v, ok, err := f.textStruct(o, at)
		if ok || err != nil {
			return v, err
		}
		if at.Whole {
			return f.whole(o)
		}
		return Value{}, f.askField(t)
	case Union:
		if at.Whole {
			return f.whole(o)
		}
	case Void:
		return Value{}, errors.New("is nothing: void")
	}
	return Value{}, fmt.Errorf("is %s, which is not read", t.Name)
}

// wholeArray is the error for an array of that name read as a whole.
type wholeArray string

func (t wholeArray) Error() string {
	return fmt.Sprintf("is %s, of which one element is read at a time", string(t))
}

// askField returns the error for a struct read as a whole.
func (f *Function) askField(t *Type) error {
	names, err := f.fieldNames(t, maxDepth)
	if err != nil {
		return err
	}
	e := plan.Errorf(-1, -1, "%s is a struct, of which one field is read at a time", t.Name)
	if len(names) == 0 {
		return e.WithHint("it has none that have a name")
	}
	if isSlice(t) {
		return plan.Errorf(-1, -1, "%s is a slice, of which one element is read at a time", t.Name).WithHint("the first is [0], and its fields are .%s", strings.Join(names, ", ."))
	}
	return e.WithHint("its fields are .%s", strings.Join(names[:min(len(names), 12)], ", ."))
}
