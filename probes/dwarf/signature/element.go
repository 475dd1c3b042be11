package signature

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/codegen"
)

// bound is the condition that a slice is long enough to contain an element.
type bound struct {
	length codegen.Integer
	needs  int64
	index  *codegen.Integer // computed; nil: needs says it
}

// index is the index of an element: a number or, if by is set, computed.
type index struct {
	n  int64
	by *codegen.Integer
}

// Path splits a name such as list[2].id into parts: each but the first is a
// field or, as [n] or [args.i], an element. Of memory that is read as a type of the program, it
// has steps, too (memory.go).
func Path(name string) (path []string) {
	if plan.IsRead(name) {
		return readPath(name)
	}
	for _, part := range plan.SplitPath(name) {
		head, rest, more := strings.Cut(part, "[")
		path = append(path, head)
		for more {
			var index string
			index, rest, more = strings.Cut(rest, "[")
			path = append(path, "["+index)
		}
	}
	return path
}

// named joins the parts of path to a name.
func named(path ...string) (name string) {
	for i, part := range path {
		switch text, member, container := strings.Cut(part, ")^"); {
		case strings.HasPrefix(part, "#"):
			name = "arg" + part[1:]
		case container:
			name = fmt.Sprintf("container_of(%s, '%s', '%s')", name, text[1:], member)
		case strings.HasPrefix(part, "("):
			name = fmt.Sprintf("CAST(%s AS '%s')", name, strings.TrimSuffix(part[1:], ")"))
		case strings.HasPrefix(part, "+") || strings.HasPrefix(part, "-"):
			name += " " + part[:1] + " " + part[1:]
		case strings.HasPrefix(part, "[") || i == 0:
			name += part
		default:
			name += "." + part
		}
	}
	return name
}

// part returns a part of an object: a field or, as [n], an element.
func (f *Function) part(o object, name string, at Where) (object, error) {
	if next, ok, err := f.step(o, name, at); ok {
		return next, err
	}
	digits, ok := strings.CutPrefix(name, "[")
	if !ok {
		return f.field(o, name, at)
	}
	digits, closed := strings.CutSuffix(digits, "]")
	n, err := strconv.ParseUint(digits, 10, 31)
	switch {
	case closed && err != nil && at.Computed:
		by, err := f.computedIndex(digits, at)
		if err != nil {
			return o, err
		}
		return f.element(o, index{by: by}, at)
	case err != nil || !closed:
		return o, fmt.Errorf("has an invalid index %s", name)
	}
	return f.element(o, index{n: int64(n)}, at)
}

// computedIndex returns the number that is named as an index: args.i, arg1, retval.n.
func (f *Function) computedIndex(name string, at Where) (*codegen.Integer, error) {
	path := Path(name)
	wrong := func(format string, args ...any) error {
		return plan.Errorf(-1, -1, "the index %s %s", name, fmt.Sprintf(format, args...))
	}
	var p *Param
	n, raw := plan.RawArgument(name)
	isResult := path[0] == "retval"
	switch {
	case isResult != at.Result:
		return nil, wrong("is not known there: arguments are read when the call begins, results when it returns")
	case raw:
		p, _ = f.rawArgument("#" + strconv.Itoa(n))
		path = []string{name}
	case isResult:
		p = f.Result
	default:
		path = path[1:]
		k := slices.IndexFunc(f.Params, func(p Param) bool { return p.Name == path[0] })
		if k < 0 {
			return nil, plan.Errorf(-1, -1, "%s has no argument %s", f.Name, path[0])
		}
		p = &f.Params[k]
	}
	v, err := f.read(p, path, Where{SPOffset: at.SPOffset})
	if err != nil {
		var e *plan.Error
		if errors.As(err, &e) {
			return nil, err
		}
		return nil, wrong("%v", err)
	}
	if v.Number == nil || v.Float != 0 || v.Length != nil || v.Pointer && !raw {
		return nil, wrong("is no number that is always there")
	}
	return v.Number, nil
}

// addElement adds to the address of o the place of an element with a computed index, of
// count elements; 0: their number is not known.
func (o *object) addElement(by *codegen.Integer, size, count int64) error {
	e := codegen.Element{After: len(o.base.Follow)}
	if o.base.Element != nil {
		e.Indexes = slices.Clone(o.base.Element.Indexes)
	}
	switch {
	case len(e.Indexes) > 0 && o.base.Element.After != e.After:
		return errors.New("has computed indexes before and after a pointer: one of them must be a number")
	case !o.memory:
		return errors.New("is in registers, which have no computed index")
	case size > math.MaxInt32:
		return errors.New("is of an array that is too large")
	}
	e.Indexes = append(e.Indexes, codegen.Index{By: *by, Size: size, Count: count})
	o.base.Element = &e
	return nil
}

// isSlice reports whether a struct is a Go or Rust slice.
func isSlice(t *Type) bool {
	return strings.HasPrefix(t.bare, "[]") || strings.HasPrefix(t.bare, "&[") || strings.HasPrefix(t.bare, "&mut [")
}

// element returns an element of an array, of what a pointer leads to, or of a
// Go or Rust slice.
func (f *Function) element(o object, i index, at Where) (object, error) {
	n := i.n
	if o.t.Kind == Reference {
		next, err := f.follow(o, at)
		if err != nil {
			return o, err
		}
		o = next
	}
	if o.t.Kind == Struct && isSlice(o.t) {
		if o.bound != nil {
			return o, fmt.Errorf("is an element of a slice that is one of another slice, which is not read")
		}
		pointer, count := "array", "len"
		if !strings.HasPrefix(o.t.bare, "[]") {
			pointer, count = "data_ptr", "length"
		}
		length, err := f.field(o, count, at)
		if err != nil {
			return o, err
		}
		size, err := length.number(0, 64, true)
		if err != nil {
			return o, err
		}
		if o, err = f.field(o, pointer, at); err != nil {
			return o, err
		}
		o.bound = &bound{length: size, needs: n + 1, index: i.by}
	}
	switch o.t.Kind {
	case Pointer:
		next, err := f.follow(o, at)
		if err != nil {
			return o, err
		}
		if next.t.Size <= 0 {
			return o, fmt.Errorf("leads to nothing that has elements: %s", next.t.Name)
		}
		if len(next.base.Follow) > maxFollow {
			return o, fmt.Errorf("is behind too many pointers")
		}
		if next.t.Kind == Array && strings.ContainsAny(o.t.bare[:min(1, len(o.t.bare))], "&*") {
			return f.element(next, i, at) // in Rust and Go, an index on a pointer means one on what it leads to
		}
		if i.by != nil {
			return next, next.addElement(i.by, next.t.Size, 0)
		}
		next.offset += n * next.t.Size
		return next, nil
	case Array:
		elem, err := f.info.typeOf(o.t.elem)
		if err != nil {
			return o, err
		}
		if len(o.t.dimensions) == 0 {
			return o, fmt.Errorf("has %s, whose number of elements is not known", o.t.Name)
		}
		// An array declared without elements, as the last field of a struct,
		// has as many as there is room for.
		first := o.t.dimensions[0]
		if i.by == nil && n >= first && (first > 0 || !o.memory) {
			return o, fmt.Errorf("is not there: %s has %d elements", o.t.Name, max(first, 0))
		}
		size := elem.Size
		for _, d := range o.t.dimensions[1:] {
			if size *= d; size < 0 || size > 1<<31 {
				return o, fmt.Errorf("is of an array that is too large")
			}
		}
		whole := o.t
		if o.t = elem; len(whole.dimensions) > 1 {
			rest := *whole
			rest.dimensions, rest.Size = whole.dimensions[1:], size
			if elem.Size > 0 {
				rest.count = size / elem.Size
			}
			o.t = &rest
		}
		if i.by != nil {
			return o, o.addElement(i.by, size, max(first, 0))
		}
		o.offset += n * size
		return o, nil
	}
	return o, fmt.Errorf("has no elements: it is %s", o.t.Name)
}
