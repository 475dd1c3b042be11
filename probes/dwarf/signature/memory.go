package signature

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/dwarf/op"
)

// Steps of a path that are no fields or elements (plan.Step) are texts that cannot be
// names: "(struct task *)" reads what was reached as a type, "(struct task)^link" is
// what contains a member whose address was reached, "+16" and "-16" add bytes to an
// address. "#0" in place of a parameter's name is the first integer argument.

// readPath returns the path of memory that is read as a type of the program.
func readPath(name string) (path []string) {
	begin, steps, ok := plan.ReadPath(name)
	if !ok {
		return nil
	}
	if n, raw := plan.RawArgument(begin); raw {
		path = []string{"args", "#" + strconv.Itoa(n)}
	} else {
		path = Path(begin)
	}
	for _, s := range steps {
		switch {
		case s.Member != "":
			path = append(path, "("+s.Cast+")^"+s.Member)
		case s.Cast != "":
			path = append(path, "("+s.Cast+")")
		case s.Part != "":
			path = append(path, s.Part)
		default:
			path = append(path, fmt.Sprintf("%+d", s.Add))
		}
	}
	return path
}

// rawArgument returns the integer argument that "#0" names, as an address. In C those after
// the registers are on the stack.
func (f *Function) rawArgument(name string) (*Param, bool) {
	digits, ok := strings.CutPrefix(name, "#")
	n, err := strconv.Atoi(digits)
	registers := systemVArguments
	if f.golang {
		registers = goRegisters
	}
	if !ok || err != nil || n < 0 {
		return nil, false
	}
	var p op.Piece
	switch {
	case n < len(registers):
		p = op.Piece{Kind: op.InRegister, Register: registers[n], Size: 8}
	case f.golang:
		return &Param{err: errors.New("is on the stack, where its place depends on the types of all arguments")}, true
	default:
		p = op.Piece{Kind: op.InMemory, Register: op.CFA, Offset: 8 * int64(n-len(registers))}
	}
	return &Param{Type: &Type{Name: "void *", bare: "void *", Kind: Pointer, Size: 8}, pieces: []op.Piece{p}}, true
}

// step takes a step that is no field or element. ok is false for others.
func (f *Function) step(o object, name string, at Where) (_ object, ok bool, err error) {
	switch {
	case strings.HasPrefix(name, "+"), strings.HasPrefix(name, "-"):
		n, err := strconv.ParseInt(name, 10, 64)
		if err != nil || !isAddress(o) {
			return o, true, errors.New("is no address to which bytes can be added")
		}
		o.moved += n
		return o, true, nil
	case strings.HasPrefix(name, "("):
		text, member, container := strings.Cut(name[1:], ")^")
		if !container {
			text = strings.TrimSuffix(text, ")")
		}
		t, err := f.info.named(text, f.unit)
		if err != nil {
			return o, true, err
		}
		if container {
			o, err = f.container(o, t, member, at)
			return o, true, err
		}
		o, err = o.as(t)
		return o, true, err
	}
	return o, false, nil
}

// isAddress reports whether an object is a pointer, or a number of its size.
func isAddress(o object) bool {
	return o.bits == 0 && o.t.Size == 8 && (o.t.Kind == Pointer || o.t.Kind == Reference || o.t.Kind == Int || o.t.Kind == Uint)
}

// as returns the object with another type.
func (o object) as(t *Type) (object, error) {
	switch {
	case t.Kind == Pointer && !isAddress(o):
		return o, fmt.Errorf("is %s, which is no address", o.t.Name)
	case t.Kind != Pointer && o.moved != 0:
		return o, fmt.Errorf("is an address to which bytes were added: it can be cast to pointers only")
	case t.Kind == Pointer:
	case t.Kind == Struct || t.Kind == Union || t.Kind == Array || t.Kind == Void:
		return o, plan.Errorf(-1, -1, "%s is no pointer", t.Name).WithHint("CAST(... AS '%s *') reads the %s at an address", t.Name, t.Name)
	case o.bits != 0 || t.Size > o.t.Size:
		return o, fmt.Errorf("has fewer bytes than %s", t.Name)
	}
	o.t = t
	return o, nil
}

// container returns a pointer to the struct t that has the member to which o points.
func (f *Function) container(o object, t *Type, member string, at Where) (object, error) {
	if t.Kind != Struct && t.Kind != Union {
		return o, plan.Errorf(-1, -1, "%s is no struct that could contain %s", t.Name, member)
	}
	if !isAddress(o) {
		return o, fmt.Errorf("is %s, which is no address", o.t.Name)
	}
	inner := object{t: t, memory: true}
	for _, name := range Path(member) {
		if inner.t.Kind == Pointer || inner.t.Kind == Reference {
			return o, plan.Errorf(-1, -1, "%s is not within %s, but behind a pointer", member, t.Name)
		}
		var err error
		if inner, err = f.part(inner, name, at); err != nil {
			return o, err
		}
	}
	o.moved -= inner.offset
	o.t = pointerTo(t)
	return o, nil
}

func pointerTo(t *Type) *Type {
	name := t.Name + " *"
	if strings.HasSuffix(t.Name, "*") {
		name = t.Name + "*"
	}
	return &Type{Name: name, bare: name, Kind: Pointer, Size: 8, to: t}
}
