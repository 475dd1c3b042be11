package encoders

import (
	"fmt"
	"slices"
)

// Hierarchy holds the classes of a program and their base classes, numbered so that testing
// whether one class includes another takes two comparisons (Vitek, Horspool, Krall:
// Efficient type inclusion tests, OOPSLA 1997; Hwang, figure 8): left is the number of a
// class in preorder, right the largest left among it and the classes below it, and B
// includes A if left(B) ≤ left(A) ≤ right(B).
//
// Classes may be added while the hierarchy is in use, as programs load them. Numbers
// therefore have gaps: a new class takes half of the free numbers of its base, and
// everything is renumbered only when none is free.
//
// A class with several bases is placed below the first; the other bases are searched when
// the numbers do not show inclusion.
type Hierarchy struct {
	classes []class // 0 is the root, above the classes without a base
	ids     map[string]Class
	several bool // some class has several bases
}

// Class is a class of a [Hierarchy].
type Class int32

const (
	everything  Class  = 0
	numberWidth uint64 = 1 << 62
)

type class struct {
	name        string
	left, right uint64
	free        uint64 // numbers from here to right are unassigned
	bases       []Class
	derived     []Class // classes whose first base is this one
}

// NewHierarchy returns an empty hierarchy.
func NewHierarchy() *Hierarchy {
	return &Hierarchy{
		classes: []class{{right: numberWidth, free: 1}},
		ids:     map[string]Class{},
	}
}

// Class returns the class with that name and adds it if it is new. A class has no base
// until [Hierarchy.Derive] is called.
func (h *Hierarchy) Class(name string) Class {
	if c, ok := h.ids[name]; ok {
		return c
	}
	c := Class(len(h.classes))
	h.ids[name] = c
	h.classes = append(h.classes, class{name: name})
	h.put(everything, c)
	return c
}

// Name returns the name of c.
func (h *Hierarchy) Name(c Class) string { return h.classes[c].name }

// Bases returns the direct superclasses of c, in the order of the Derive calls.
func (h *Hierarchy) Bases(c Class) []Class { return h.classes[c].bases }

// Derive makes base a direct superclass of c. It returns an error if base derives from c.
func (h *Hierarchy) Derive(c, base Class) error {
	if slices.Contains(h.classes[c].bases, base) {
		return nil
	}
	if h.Includes(c, base) {
		return fmt.Errorf("%s cannot derive from %s, which derives from it", h.Name(c), h.Name(base))
	}
	h.classes[c].bases = append(h.classes[c].bases, base)
	if len(h.classes[c].bases) > 1 {
		h.several = true
		return nil
	}
	top := &h.classes[everything]
	top.derived = slices.DeleteFunc(top.derived, func(d Class) bool { return d == c })
	h.put(base, c)
	return nil
}

// put places c and the classes derived from it below base.
func (h *Hierarchy) put(base, c Class) {
	b := &h.classes[base]
	b.derived = append(b.derived, c)
	size := h.size(c)
	room := (b.right + 1 - b.free) / 2
	unit := room / size
	if unit == 0 {
		all := h.size(everything)
		h.number(everything, 0, numberWidth/all)
		return
	}
	left := b.free
	b.free += size * unit
	h.number(c, left, unit)
}

// size returns the number of classes from c down, c included.
func (h *Hierarchy) size(c Class) uint64 {
	n := uint64(1)
	for _, d := range h.classes[c].derived {
		n += h.size(d)
	}
	return n
}

// number numbers the classes from c down, unit numbers for each, and returns how many
// classes there are.
func (h *Hierarchy) number(c Class, left, unit uint64) uint64 {
	n := uint64(1)
	at := left + 1
	for _, d := range h.classes[c].derived {
		size := h.number(d, at, unit)
		at += size * unit
		n += size
	}
	k := &h.classes[c]
	k.left, k.right, k.free = left, left+n*unit-1, at
	return n
}

// Includes reports whether a is b or derives from it.
func (h *Hierarchy) Includes(b, a Class) bool {
	x, y := &h.classes[a], &h.classes[b]
	if y.left <= x.left && x.left <= y.right {
		return true
	}
	return h.several && h.Distance(a, b) >= 0
}

// Related reports whether one of the two classes includes the other.
func (h *Hierarchy) Related(a, b Class) bool { return h.Includes(a, b) || h.Includes(b, a) }

// Distance returns the number of steps up from class receiver to class method, where a
// method lookup that starts at receiver ends: 0 if they are the same, -1 if receiver does
// not derive from method. If there are several paths it is the shortest.
func (h *Hierarchy) Distance(receiver, method Class) int {
	if !h.several { // a single path up
		for n, c := 0, receiver; ; n++ {
			if c == method {
				return n
			}
			if len(h.classes[c].bases) == 0 {
				return -1
			}
			c = h.classes[c].bases[0]
		}
	}
	seen := map[Class]bool{receiver: true}
	level := []Class{receiver}
	for n := 0; len(level) > 0; n++ {
		var up []Class
		for _, c := range level {
			if c == method {
				return n
			}
			for _, b := range h.classes[c].bases {
				if !seen[b] {
					seen[b] = true
					up = append(up, b)
				}
			}
		}
		level = up
	}
	return -1
}

// Numbers returns the relative numbers of c without gaps, as in the paper: the classes in
// preorder are 0, 1, 2, ... It takes time linear in the number of classes.
func (h *Hierarchy) Numbers(c Class) (left, right int) {
	n := -1 // the root is not counted
	var walk func(d Class)
	walk = func(d Class) {
		own := n
		n++
		for _, e := range h.classes[d].derived {
			walk(e)
		}
		if d == c {
			left, right = own, n-1
		}
	}
	walk(everything)
	return left, right
}
