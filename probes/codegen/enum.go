package codegen

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"endoscope/planner/plan"
)

// named are the numbers of an Enum that are shown as s.
func (c Column) named(s string) []int64 {
	var out []int64
	for _, n := range slices.Sorted(maps.Keys(c.Names)) {
		if c.Names[n] == s {
			out = append(out, n)
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(n, 10) == s && c.Names[n] == "" {
		out = append(out, n)
	}
	return out
}

// beginning are the numbers of an Enum whose names begin with s; ok is false if a number
// without a name could, too.
func (c Column) beginning(s string) (out []int64, ok bool) {
	if s == "" || strings.ContainsAny(s[:1], "-0123456789") {
		return nil, false
	}
	for _, n := range slices.Sorted(maps.Keys(c.Names)) {
		if strings.HasPrefix(c.Names[n], s) {
			out = append(out, n)
		}
	}
	return out, true
}

// matchEnum translates a test of an enum's name against a constant into one of its
// number; nil: the kernel cannot.
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
	case len(values) == 0: // but NULL is not another one
		return c.isNull(&plan.Col{Index: index}, false)
	}
	return negated(c.among(&number{op: "column", index: index, column: c.in.Columns[index]}, values), want)
}
