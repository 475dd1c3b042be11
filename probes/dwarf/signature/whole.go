package signature

import (
	"cmp"
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

const (
	// maxWhole limits the bytes of an object that is read as a whole.
	maxWhole = 1024
	// maxPrinted limits its fields and elements, down to numbers and texts.
	maxPrinted = 4096
)

var errPrinted = fmt.Errorf("has more than %d fields and elements", maxPrinted)

// tooLarge is the error for an object that is too large to be read as a whole.
type tooLarge struct{ size int64 }

func (e tooLarge) Error() string {
	return fmt.Sprintf("has %d bytes, and at most %d are read as a whole", e.size, maxWhole)
}

// whole returns how a struct, union or array is read as a whole.
func (f *Function) whole(o object) (Value, error) {
	if o.t.Size > maxWhole {
		if names, err := f.fieldNames(o.t, maxDepth); o.t.Kind != Array && err == nil && len(names) > 0 {
			e := plan.Errorf(-1, -1, "%s %v", o.t.Name, tooLarge{o.t.Size})
			return Value{}, e.WithHint("its fields are .%s", strings.Join(names[:min(len(names), 12)], ", ."))
		}
		return Value{}, tooLarge{o.t.Size}
	}
	w := wholeReader{f: f}
	s, err := w.add(o)
	if err != nil {
		return Value{}, err
	}
	if w.size > 0 && len(w.parts) == 0 {
		return Value{}, cmp.Or(w.lacks, errNotAtEntry)
	}
	v := w.value(s)
	v.Lacks = w.lacks
	return v, nil
}

// Arguments returns how all arguments with names are read as one object.
func (f *Function) Arguments(at Where) (v Value, err error) {
	f.info.mu.Lock()
	defer f.info.mu.Unlock()
	f.info.left = maxSpent
	defer recovered(&err)
	all := &shape.Shape{Kind: shape.Struct}
	w := wholeReader{f: f}
	for i := range f.Params {
		p := &f.Params[i]
		if p.Name == "" {
			continue
		}
		field := shape.Field{Name: p.Name, Offset: w.size, Shape: &shape.Shape{}}
		lacks := p.err
		if lacks == nil {
			o := object{t: p.Type, pieces: p.pieces}
			if len(o.pieces) == 1 && o.pieces[0].Kind == op.InMemory {
				o.place(o.pieces[0], at)
			}
			parts := len(w.parts)
			if field.Shape, err = w.add(o); err != nil {
				return v, f.arguments(p, err)
			}
			if len(w.parts) == parts && p.Type.Size > 0 {
				lacks = cmp.Or(w.lacks, errNotAtEntry)
			}
		}
		if lacks != nil && v.Lacks == nil {
			v.Lacks = f.arguments(p, lacks)
		}
		all.Fields = append(all.Fields, field)
	}
	if len(all.Fields) > 0 && len(w.parts) == 0 && v.Lacks != nil {
		return v, v.Lacks
	}
	lacks := v.Lacks
	v = w.value(all)
	v.Lacks = lacks
	return v, nil
}

// arguments returns the error for an argument that cannot be read with the others.
func (f *Function) arguments(p *Param, err error) error {
	e := plan.Errorf(-1, -1, "args.%s of %s %v", p.Name, f.Name, err)
	if errors.As(err, new(tooLarge)) {
		return e.WithHint("name the arguments one by one: args.%s", p.Name)
	}
	return e
}

// wholeReader collects the parts of objects, which are stored one after the other.
type wholeReader struct {
	f       *Function
	parts   []codegen.Part
	size    int
	printed int   // numbers and texts
	lacks   error // why the first bytes that are not read are not
}

// value returns what was collected.
func (w *wholeReader) value(s *shape.Shape) Value {
	if len(w.parts) == 0 { // nothing to read
		w.parts = []codegen.Part{{At: codegen.Integer{Known: true}}}
	}
	s.Size = w.size
	return Value{Type: types.Varchar, Shape: s, Value: codegen.Value{Text: &codegen.Text{Max: codegen.PartsSize(w.size, w.parts), Parts: w.parts}}}
}

// add adds an object, at an offset that is a multiple of 8.
func (w *wholeReader) add(o object) (*shape.Shape, error) {
	if o.t.Size < 0 || int64(w.size)+o.t.Size > maxWhole {
		return nil, tooLarge{int64(w.size) + o.t.Size}
	}
	parts, lacks := o.parts()
	s, err := w.shape(o.t, lacks, 0, maxDepth)
	if err != nil {
		return nil, err
	}
	for i := range parts {
		parts[i].Offset += w.size
	}
	w.parts = append(w.parts, parts...)
	w.size += int(o.t.Size+7) &^ 7
	if len(lacks) > 0 && w.lacks == nil {
		w.lacks = lacks[0].err
	}
	return s, nil
}

// lack is bytes of an object that cannot be read.
type lack struct {
	from, to int64
	err      error
}

// parts returns how the bytes of an object are read, and which are not.
func (o *object) parts() (parts []codegen.Part, lacks []lack) {
	size := o.t.Size
	if size == 0 {
		return nil, nil
	}
	if o.memory {
		at := o.base
		at.Address, at.Offset = true, o.offset
		return []codegen.Part{{At: at, Size: int(size)}}, nil
	}
	end := o.offset + size
	done := o.offset
	missing := func(to int64, err error) {
		if to > done {
			lacks = append(lacks, lack{done - o.offset, to - o.offset, err})
		}
	}
	pieces := slices.Clone(o.pieces)
	slices.SortStableFunc(pieces, func(a, b op.Piece) int { return cmp.Compare(a.At, b.At) })
	for _, p := range pieces {
		from, to := p.At, p.At+p.Size
		if p.Size == 0 {
			to = end
		}
		from, to = max(from, done), min(to, end)
		if from >= to {
			continue
		}
		missing(from, errNotAtEntry)
		done = from
		skipped := from - p.At
		part := codegen.Part{Offset: int(from - o.offset)}
		err := error(nil)
		switch p.Kind {
		case op.InMemory:
			inner := object{}
			inner.place(p, Where{})
			part.At, part.Size = inner.base, int(to-from)
			part.At.Address, part.At.Offset = true, inner.offset+skipped
		case op.InRegister, op.Computed:
			reg, ok := registers[p.Register]
			to = min(to, p.At+8)
			switch {
			case p.Register >= dwXMM0:
				err = errFloat
			case !ok || skipped >= 8:
				err = errNotAtEntry
			}
			part.At = codegen.Integer{Register: reg, Sum: p.Kind == op.Computed, Offset: p.Offset, Shift: uint8(8 * skipped), Bits: uint8(64 - 8*skipped)}
		case op.Constant:
			to = min(to, p.At+8)
			part.At = codegen.Integer{Known: true, Constant: int64(uint64(p.Offset) >> (8 * min(skipped, 8)))}
		default:
			err = errNotAtEntry
		}
		if to <= from {
			continue
		}
		if err != nil {
			missing(to, err)
		} else {
			parts = append(parts, part)
		}
		done = to
	}
	missing(end, errNotAtEntry)
	return parts, lacks
}

// isLacking reports whether some of the bytes [from, to) are not read.
func isLacking(lacks []lack, from, to int64) bool {
	return slices.ContainsFunc(lacks, func(l lack) bool { return from < l.to && l.from < to })
}

// shape returns the shape of the part of an object that begins at an offset in it.
func (w *wholeReader) shape(t *Type, lacks []lack, at int64, depth int) (*shape.Shape, error) {
	if depth == 0 {
		return nil, errEndless
	}
	f := w.f.info
	if err := f.spend(1); err != nil {
		return nil, err
	}
	if w.printed++; w.printed > maxPrinted {
		return nil, errPrinted
	}
	if t.Size < 0 || t.Size > maxWhole {
		return &shape.Shape{}, nil // it is not in the object, whose size is smaller
	}
	s := &shape.Shape{Size: int(t.Size)}
	if t.Kind != Struct && t.Kind != Union && isLacking(lacks, at, at+t.Size) {
		return s, nil
	}
	number := func(kind shape.Kind) {
		if t.Size <= 8 {
			s.Kind = kind
		}
	}
	switch t.Kind {
	case Int:
		number(shape.Signed)
	case Uint:
		number(shape.Unsigned)
	case Bool:
		number(shape.Bool)
	case Enum:
		names, signed, err := f.enumerators(t)
		if err != nil {
			return nil, err
		}
		s.Names, s.NoSign = names, !signed
		number(shape.Enum)
	case Float:
		if t.Size <= 8 || t.bare == "long double" {
			s.Kind = shape.Float
		}
	case Pointer, Reference:
		number(shape.Pointer)
	case Array:
		elem, err := f.typeOf(t.elem)
		if err != nil {
			return nil, err
		}
		return w.array(s, elem, t.dimensions, lacks, at, depth)
	case Struct, Union:
		s.Kind = shape.Struct
		return s, w.fields(s, t, lacks, at, depth)
	}
	return s, nil
}

// array sets the shape of an array of the given dimensions.
func (w *wholeReader) array(s *shape.Shape, elem *Type, dimensions []int64, lacks []lack, at int64, depth int) (*shape.Shape, error) {
	if elem.Char && len(dimensions) == 1 {
		s.Kind = shape.Chars
		return s, nil
	}
	s.Kind = shape.Array
	if len(dimensions) == 0 || dimensions[0] <= 0 || elem.Size <= 0 {
		return s, nil // of unknown length, or nothing
	}
	count := dimensions[0]
	if count > maxPrinted {
		return nil, errPrinted
	}
	if int64(s.Size)%count != 0 {
		return nil, errDamaged
	}
	before := w.printed
	var err error
	if len(dimensions) > 1 {
		s.Elem, err = w.array(&shape.Shape{Size: s.Size / int(count)}, elem, dimensions[1:], lacks, at, depth-1)
	} else {
		s.Elem, err = w.shape(elem, lacks, at, depth-1)
	}
	if err != nil {
		return nil, err
	}
	s.Count = int(count)
	if int64(s.Elem.Size)*count > int64(s.Size) {
		return nil, errDamaged
	}
	w.printed += int(count-1) * (w.printed - before)
	if w.printed > maxPrinted {
		return nil, errPrinted
	}
	return s, nil
}

// fields adds the fields of a struct: its own, and those of unnamed structs in it and of
// base classes, as far as no other has the name.
func (w *wholeReader) fields(s *shape.Shape, t *Type, lacks []lack, at int64, depth int) error {
	ms, err := w.f.info.members(t)
	if err != nil {
		return err
	}
	if len(ms) == 0 && t.Size > 0 && w.f.info.hasVariants(t) {
		s.Kind = shape.Absent
		return nil
	}
	has := func(name string) bool {
		return slices.ContainsFunc(ms, func(m member) bool { return m.name == name }) ||
			slices.ContainsFunc(s.Fields, func(f shape.Field) bool { return f.Name == name })
	}
	for _, m := range ms {
		if strings.Contains(m.name, ".") || m.offset < 0 || m.offset > t.Size { // _vptr.Base, added by the compiler
			continue
		}
		inner, err := w.shape(m.t, lacks, at+m.offset, depth-1)
		if err != nil {
			return err
		}
		if m.bits > 0 {
			bitField := *inner
			bitField.Bit, bitField.Bits = int(m.bit), int(m.bits)
			bitField.Size = int(m.bit+m.bits+7) / 8
			if inner = &bitField; m.bit < 0 || bitField.Size > 8 {
				inner = &shape.Shape{}
			}
		}
		if m.name != "" {
			s.Fields = append(s.Fields, shape.Field{Name: m.name, Offset: int(m.offset), Shape: inner})
			continue
		}
		for _, g := range inner.Fields {
			if !has(g.Name) {
				g.Offset += int(m.offset)
				s.Fields = append(s.Fields, g)
			}
		}
	}
	return nil
}
