package codegen

import (
	"fmt"
	"strconv"
)

// Identity returns a string that is equal only for readers that do the same.
func (r *Reader) Identity() string {
	out := fmt.Sprintf("%v %v %d", r.Columns, r.Tests, r.Before)
	for _, g := range r.groups() {
		out += fmt.Sprintf("|%d", g.first)
		for _, v := range g.values {
			out += v.name() + ";"
		}
	}
	return out
}

// name returns a string that is equal only for equal values.
func (v Value) name() string {
	name := ""
	switch {
	case v.Number != nil:
		name = v.Number.name()
	case v.Text != nil:
		t := *v.Text
		at, length, parts := t.At, t.Length, t.Parts
		t.At, t.Length, t.Parts = Integer{}, nil, nil
		name = fmt.Sprintf("%+v %s %s", t, at.name(), length.name())
		for _, p := range parts {
			name += fmt.Sprintf(" %d %d %s", p.Offset, p.Size, p.At.name())
		}
	}
	if v.Length != nil {
		name += fmt.Sprintf(" %s %d %s", v.Length.name(), v.Needs, v.Index.name())
	}
	return name
}

// name returns a string that is equal only for equal integers.
func (n *Integer) name() string {
	if n == nil {
		return "-"
	}
	plain := *n
	plain.Element = nil
	name := fmt.Sprintf("%+v", plain)
	if n.Element != nil {
		for _, i := range n.Element.Indexes {
			name += fmt.Sprintf("[%s %d %d]", i.By.name(), i.Size, i.Count)
		}
		name += strconv.Itoa(n.Element.After)
	}
	return name
}
