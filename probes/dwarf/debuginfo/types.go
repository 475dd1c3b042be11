package debuginfo

import (
	"debug/dwarf"
	"errors"
	"fmt"
)

// Bounds of a type with all that it refers to. Package dwarf reads one with a frame of its
// stack (some 2 KiB) for each type that leads to another, and a stack that is exhausted
// ends the process.
const (
	maxTypeDepth   = 50_000
	maxTypeChain   = 64      // of types that have their size of the next
	maxTypeEntries = 1 << 21 // that are read for one type
)

var (
	errManyTypes = errors.New("has a type that refers to too many others")
	errEndless   = errors.New("has damaged debug information: a type that has no end")
)

// ReadType is dwarf.Data's Type for debug information that nobody vouches for.
func ReadType(d *dwarf.Data, at dwarf.Offset) (t dwarf.Type, err error) {
	defer recovered(&err)
	if err := checkType(d, at); err != nil {
		return nil, err
	}
	return d.Type(at)
}

// checkType follows what Type would, in its order, on a stack of its own.
func checkType(d *dwarf.Data, at dwarf.Offset) error {
	left := maxTypeEntries
	sized := map[dwarf.Offset]dwarf.Offset{} // types that have their size of another
	seen := map[dwarf.Offset]bool{at: true}
	first, err := typesOf(d, at, sized, &left)
	if err != nil {
		return err
	}
	for stack := [][]dwarf.Offset{first}; len(stack) > 0; {
		top := &stack[len(stack)-1]
		if len(*top) == 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		next := (*top)[0]
		*top = (*top)[1:]
		if seen[next] {
			continue
		}
		seen[next] = true
		refs, err := typesOf(d, next, sized, &left)
		if err != nil {
			return err
		}
		if stack = append(stack, refs); len(stack) > maxTypeDepth {
			return errManyTypes
		}
	}
	for at := range sized {
		for range maxTypeChain {
			next, ok := sized[at]
			if !ok {
				break
			}
			at = next
		}
		if _, more := sized[at]; more {
			return errEndless
		}
	}
	return nil
}

// typesOf are the types that Type reads for the one at an offset. left is how many more
// entries may be read.
func typesOf(d *dwarf.Data, at dwarf.Offset, sized map[dwarf.Offset]dwarf.Offset, left *int) (refs []dwarf.Offset, err error) {
	r := d.Reader()
	r.Seek(at)
	e, err := r.Next()
	if err != nil {
		return nil, fmt.Errorf("has damaged debug information: %w", err)
	}
	if e == nil {
		return nil, errors.New("has damaged debug information")
	}
	*left -= 1 + len(e.Field)
	own, hasOwn := e.Val(dwarf.AttrType).(dwarf.Offset)
	var of dwarf.Tag // children that have types
	switch e.Tag {
	case dwarf.TagArrayType, dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagRestrictType:
		if hasOwn {
			sized[e.Offset] = own
		}
	case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType:
		of, hasOwn = dwarf.TagMember, false
	case dwarf.TagSubroutineType:
		of = dwarf.TagFormalParameter
	case dwarf.TagEnumerationType:
		hasOwn = false
	case dwarf.TagPointerType:
	default:
		return nil, nil
	}
	if hasOwn {
		refs = append(refs, own)
	}
	if !e.Children {
		return refs, nil
	}
	for depth := 1; depth > 0; {
		c, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("has damaged debug information: %w", err)
		}
		if c == nil {
			return nil, errors.New("has damaged debug information")
		}
		if *left -= 1 + len(c.Field); *left < 0 {
			return nil, errManyTypes
		}
		switch {
		case c.Tag == 0:
			depth--
			continue
		case depth == 1 && c.Tag == of:
			if ref, ok := c.Val(dwarf.AttrType).(dwarf.Offset); ok {
				refs = append(refs, ref)
			}
		}
		if c.Children {
			depth++
		}
	}
	return refs, nil
}

// SkipChildren goes to behind the children of e, which r has just read, and says how many
// entries it has read for that. Reader's own needs a frame of the stack for each level
// there is, and follows siblings that lie behind.
func SkipChildren(r *dwarf.Reader, e *dwarf.Entry) (read int) {
	if !e.Children || toSibling(r, e) {
		return 0
	}
	for depth := 1; depth > 0; read++ {
		c, err := r.Next()
		switch {
		case err != nil || c == nil:
			return read // as the next Next says
		case c.Tag == 0:
			depth--
		case c.Children && !toSibling(r, c):
			depth++
		}
	}
	return read
}

// toSibling goes to an entry's sibling, if it has one that lies ahead.
func toSibling(r *dwarf.Reader, e *dwarf.Entry) bool {
	at, ok := e.Val(dwarf.AttrSibling).(dwarf.Offset)
	if ok = ok && at > e.Offset; ok {
		r.Seek(at)
	}
	return ok
}
