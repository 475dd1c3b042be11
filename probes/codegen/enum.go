package codegen

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"endoscope/planner/plan"
)

// EnumName returns the display text of an enum's number: its name, or those of
// its flags (A|B) if all named numbers have at most one bit; else the number.
func EnumName(names map[int64]string, n int64) string {
	if name, ok := names[n]; ok {
		return name
	}
	if n > 0 && areFlags(names) {
		var set []string
		left := n
		for flag := int64(1); flag > 0 && flag <= left; flag <<= 1 {
			if name, ok := names[flag]; ok && n&flag != 0 {
				set = append(set, name)
				left &^= flag
			}
		}
		if left == 0 {
			return strings.Join(set, "|")
		}
	}
	return strconv.FormatInt(n, 10)
}

// areFlags reports whether all numbers of an enum have at most one bit.
func areFlags(names map[int64]string) bool {
	for n := range names {
		if n < 0 || n&(n-1) != 0 {
			return false
		}
	}
	return true
}

// EnumNumber returns a number whose display text is s.
func EnumNumber(names map[int64]string, s string) (n int64, ok bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, EnumName(names, n) == s
	}
	for part := range strings.SplitSeq(s, "|") {
		for flag, name := range names {
			if name == part {
				n |= flag
			}
		}
	}
	return n, EnumName(names, n) == s
}

// named returns the numbers of an Enum whose display text is s.
func (c Column) named(s string) []int64 {
	var out []int64
	for _, n := range slices.Sorted(maps.Keys(c.Names)) {
		if c.Names[n] == s {
			out = append(out, n)
		}
	}
	if n, ok := EnumNumber(c.Names, s); ok && c.Names[n] == "" {
		out = append(out, n)
	}
	return out
}

// beginning returns the numbers of an Enum whose names begin with s; ok is
// false if a number without a name could match, too.
func (c Column) beginning(s string) (out []int64, ok bool) {
	if s == "" || strings.ContainsAny(s[:1], "-0123456789") || areFlags(c.Names) {
		return nil, false
	}
	for _, n := range slices.Sorted(maps.Keys(c.Names)) {
		if strings.HasPrefix(c.Names[n], s) {
			out = append(out, n)
		}
	}
	return out, true
}

// matchEnum translates a test of an enum's name against a constant into one of
// its number; nil if the kernel cannot decide it.
func (c *compiler) matchEnum(fn string, index int, k *plan.Const, want bool) formula {
	if k.V.IsNull {
		return verdict(false)
	}
	col := c.in.Columns[index]
	text, prefix, known := k.V.S, false, true
	switch fn {
	case "=", "<>":
		want = want == (fn == "=")
	case "like":
		text, prefix, known = likeText(text)
	case "starts_with":
		prefix = true
	default:
		known = false
	}
	if !known {
		return nil
	}
	if !prefix {
		return c.enum(index, col.named(text), want)
	}
	values, ok := col.beginning(text)
	if !ok {
		return nil
	}
	return c.enum(index, values, want)
}

// enum tests whether an enum's number is one of values.
func (c *compiler) enum(index int, values []int64, want bool) formula {
	switch {
	case len(values) == 0 && want:
		return verdict(false)
	case len(values) == 0: // but NULL is not different from them either
		return c.isNull(&plan.Col{Index: index}, false)
	}
	return negated(c.among(&number{op: "column", index: index, column: c.in.Columns[index]}, values), want)
}
