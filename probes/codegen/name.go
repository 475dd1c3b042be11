package codegen

import (
	"encoding/binary"
	"strings"

	"github.com/cilium/ebpf/asm"

	"endoscope/planner/plan"
)

// pattern matches a name or a prefix of one: the bits of its two words under a
// mask, lower addresses in lower bits.
type pattern struct{ bits, mask [2]uint64 }

// exactly returns the pattern of one name. It includes the terminating zero
// byte, unless the name fills all the space. ok is false if s cannot be a name.
func exactly(s string) (p pattern, ok bool) {
	if len(s) < NameSize {
		return beginning(s, len(s)+1)
	}
	return beginning(s, NameSize)
}

// beginning returns the pattern of names whose first n bytes are those of s.
func beginning(s string, n int) (p pattern, ok bool) {
	if len(s) > n || n > NameSize || strings.IndexByte(s, 0) >= 0 {
		return pattern{}, false
	}
	var bits, mask [NameSize]byte
	copy(bits[:], s)
	for i := range n {
		mask[i] = 0xff
	}
	for i := range 2 {
		p.bits[i] = binary.LittleEndian.Uint64(bits[8*i:])
		p.mask[i] = binary.LittleEndian.Uint64(mask[8*i:])
	}
	return p, true
}

// likeNames returns the pattern of a LIKE pattern that is text, with % at most
// at its end; known is false for others, ok is false if no name can match.
func likeNames(like string) (p pattern, ok, known bool) {
	text, prefix, known := likeText(like)
	switch {
	case !known:
	case prefix:
		p, ok = beginning(text, len(text))
	default:
		p, ok = exactly(text)
	}
	return p, ok, known
}

// likeText returns the text of a LIKE pattern without %, except at its end,
// which makes it a prefix; known is false for others.
func likeText(like string) (text string, prefix, known bool) {
	var b []byte
	for i := 0; i < len(like); i++ {
		switch c := like[i]; {
		case c == '\\' && i+1 < len(like):
			i++
			b = append(b, like[i])
		case c == '%' && strings.Trim(like[i:], "%") == "":
			return string(b), true, true
		case c == '%' || c == '_':
			return "", false, false
		default:
			b = append(b, c)
		}
	}
	return string(b), false, true
}

// column returns the index of the column that e is, if it has that kind.
func (c *compiler) column(e plan.Expr, k Kind) (index int, ok bool) {
	col, ok := e.(*plan.Col)
	return indexOf(col), ok && c.in.Columns[col.Index].Kind == k
}

func indexOf(c *plan.Col) int {
	if c == nil {
		return -1
	}
	return c.Index
}

// named tests whether the name in a column matches one of the patterns.
func (c *compiler) named(index int, patterns []pattern) formula {
	if len(patterns) == 0 {
		return verdict(false)
	}
	for _, p := range patterns {
		if p.mask == [2]uint64{} {
			return verdict(true)
		}
	}
	col := c.in.Columns[index]
	return &test{columns: []int{index}, late: col.Late, code: func(w *writer, want bool, target, _ label) {
		end := w.newLabel()
		found, missed := target, end
		if !want {
			found, missed = end, target
		}
		for _, p := range patterns {
			next := w.newLabel()
			for i := range 2 {
				if p.mask[i] == 0 {
					continue
				}
				w.add(asm.LoadMem(operands[0], argument, col.Offset+int16(8*i), asm.DWord))
				if p.mask[i] != ^uint64(0) {
					w.constant(scratch, int64(p.mask[i]))
					w.add(asm.And.Reg(operands[0], scratch))
				}
				w.compare(asm.JNE, operands[0], int64(p.bits[i]), next)
			}
			w.goTo(found)
			w.place(next)
		}
		w.goTo(missed)
		w.place(end)
	}}
}
