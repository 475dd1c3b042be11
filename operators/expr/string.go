package expr

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// length counts characters of VARCHAR, bytes of BYTES, elements of LIST.
func length(e *plan.Call, args []node) (node, error) {
	if e.Args[0].Type() == types.List {
		return newRowNode(e.T, args, func(o *output, args []*batch.Column, i int) error {
			elements, _ := args[0].Any[i].([]types.Value)
			o.col.Int[i] = int64(len(elements))
			return nil
		}), nil
	}
	count := utf8.RuneCountInString
	if e.Args[0].Type() == types.Bytes {
		count = func(s string) int { return len(s) }
	}
	return newRowNode(e.T, args, func(o *output, args []*batch.Column, i int) error {
		o.col.Int[i] = int64(count(text(args[0], i)))
		return nil
	}), nil
}

// hex writes a number as C does with %#lx; 0 is 0x0.
func hex(o *output, args []*batch.Column, i int) error {
	o.buf = strconv.AppendUint(append(o.buf[:0], "0x"...), uint64(args[0].Int[i]), 16)
	o.setBytes(i, o.buf)
	return nil
}

func lower(o *output, args []*batch.Column, i int) error {
	o.setFolded(i, text(args[0], i), 'A', 'Z', strings.ToLower)
	return nil
}

func upper(o *output, args []*batch.Column, i int) error {
	o.setFolded(i, text(args[0], i), 'a', 'z', strings.ToUpper)
	return nil
}

// setFolded sets row i to s with the letters from first to last in the other case, without
// an extra copy if s is ASCII; fold handles all other strings.
func (o *output) setFolded(i int, s string, first, last byte, fold func(string) string) {
	o.buf = o.buf[:0]
	for k := range len(s) {
		c := s[k]
		switch {
		case c >= utf8.RuneSelf:
			o.setText(i, fold(s))
			return
		case first <= c && c <= last:
			c ^= 'a' - 'A'
		}
		o.buf = append(o.buf, c)
	}
	o.setBytes(i, o.buf)
}

// join is ||.
func join(o *output, args []*batch.Column, i int) error {
	o.buf = append(append(o.buf[:0], text(args[0], i)...), text(args[1], i)...)
	o.setBytes(i, o.buf)
	return nil
}

// concat ignores NULLs; with only NULL arguments it returns an empty string.
func concat(e *plan.Call, args []node) (node, error) {
	n := newRowNode(e.T, args, func(o *output, args []*batch.Column, i int) error {
		o.buf = o.buf[:0]
		for _, a := range args {
			if !isNull(a, i) {
				o.buf = append(o.buf, text(a, i)...)
			}
		}
		o.setBytes(i, o.buf)
		return nil
	})
	n.lax = true
	return n, nil
}

// substr returns the characters at positions n to n+m-1. As in PostgreSQL, positions before
// the first exist but are empty: substr('abc', 0, 2) is 'a'.
func substr(o *output, args []*batch.Column, i int) error {
	s, first := text(args[0], i), args[1].Int[i]
	end := int64(math.MaxInt64)
	if len(args) > 2 {
		if m := args[2].Int[i]; m <= 0 {
			end = first
		} else if first <= math.MaxInt64-m {
			end = first + m
		}
	}
	first = max(first, 1)
	from := skipChars(s, first-1)
	if end <= first {
		o.setText(i, "")
		return nil
	}
	o.setText(i, s[from:from+skipChars(s[from:], end-first)])
	return nil
}

// skipChars returns the length in bytes of the first n characters of s, or of all.
func skipChars(s string, n int64) int {
	if n >= int64(len(s)) {
		return len(s)
	}
	at := 0
	for ; n > 0 && at < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at
}

// replace returns the text unchanged if the second argument is empty.
func replace(o *output, args []*batch.Column, i int) error {
	s, old := text(args[0], i), text(args[1], i)
	o.buf = o.buf[:0]
	for old != "" {
		before, after, found := strings.Cut(s, old)
		if !found {
			break
		}
		o.buf = append(append(o.buf, before...), text(args[2], i)...)
		s = after
	}
	o.buf = append(o.buf, s...)
	o.setBytes(i, o.buf)
	return nil
}

// splitPart finds the n-th field without building the others. An empty separator does not
// split: the text is the only field.
func splitPart(o *output, args []*batch.Column, i int) error {
	s, sep, n := text(args[0], i), text(args[1], i), args[2].Int[i]
	o.setText(i, field(s, sep, n))
	return nil
}

func field(s, sep string, n int64) string {
	fields := int64(1)
	if sep != "" {
		fields += int64(strings.Count(s, sep))
	}
	if n < 0 {
		n += fields + 1
	}
	if n < 1 || n > fields {
		return ""
	}
	if fields == 1 {
		return s
	}
	for ; n > 1; n-- {
		_, s, _ = strings.Cut(s, sep)
	}
	s, _, _ = strings.Cut(s, sep)
	return s
}

func startsWith(o *output, args []*batch.Column, i int) error {
	o.col.Bool[i] = strings.HasPrefix(text(args[0], i), text(args[1], i))
	return nil
}
