package debuginfo

import (
	"debug/dwarf"
	"errors"
	"fmt"
)

// Limits of a type with all types that it refers to. Package dwarf reads
// recursively, with a stack frame (some 2 KiB) per nested type, and stack
// exhaustion ends the process.
const (
	maxTypeDepth   = 50_000
	maxTypeChain   = 64      // of types whose size is that of the next
	maxTypeEntries = 1 << 21 // that are read for one type
)

var (
	errManyTypes = errors.New("has a type that refers to too many others")
	errEndless   = errors.New("has damaged debug information: a type that has no end")
)

// ReadType is dwarf.Data's Type for untrusted debug information.
func ReadType(d *dwarf.Data, at dwarf.Offset) (t dwarf.Type, err error) {
	defer recovered(&err)
	if err := checkType(d, at); err != nil {
		return nil, err
	}
	return d.Type(at)
}

// checkType visits the types that Type would read, in its order, without
// recursion.
func checkType(d *dwarf.Data, at dwarf.Offset) error {
	left := maxTypeEntries
	sized := map[dwarf.Offset]dwarf.Offset{} // types whose size is another's
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

// typesOf returns the types that Type reads for the one at an offset. left is
// the remaining number of entries to read.
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
	var of dwarf.Tag // tag of children that have types
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

// SkipChildren moves r past the children of e, which it has just read, and
// returns the number of entries read. Reader's own method recurses for each
// level, and follows siblings that point backwards.
func SkipChildren(r *dwarf.Reader, e *dwarf.Entry) (read int) {
	if !e.Children || toSibling(r, e) {
		return 0
	}
	for depth := 1; depth > 0; read++ {
		c, err := r.Next()
		switch {
		case err != nil || c == nil:
			return read // the following Next reports the error
		case c.Tag == 0:
			depth--
		case c.Children && !toSibling(r, c):
			depth++
		}
	}
	return read
}

// toSibling moves to an entry's sibling, if it has one further on.
func toSibling(r *dwarf.Reader, e *dwarf.Entry) bool {
	at, ok := e.Val(dwarf.AttrSibling).(dwarf.Offset)
	if ok = ok && at > e.Offset; ok {
		r.Seek(at)
	}
	return ok
}
