package help

import (
	"fmt"
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
)

// tables are the reference tables that a topic can include as {{name}}.
var tables = map[string]func() string{
	"streams":    streamList,
	"columns":    allColumns,
	"settings":   settingTable,
	"functions":  func() string { return scalarTable(false) },
	"operators":  func() string { return scalarTable(true) },
	"aggregates": func() string { return aggregateTable(plan.AggFuncs) },
	"sketches":   func() string { return aggregateTable(plan.SketchAggs) },
	"stacks":     func() string { return aggregateTable(plan.StackAggs) },
	"present":    func() string { return aggregateTable(plan.PresentAggs) },
	"encoders":   func() string { return aggregateTable(plan.Encoders) },
}

// table is a Markdown table.
type table struct{ b strings.Builder }

func newTable(heads ...string) *table {
	t := &table{}
	t.row(heads...)
	t.b.WriteString(strings.Repeat("|---", len(heads)) + "|\n")
	return t
}

func (t *table) row(cells ...string) {
	for _, c := range cells {
		t.b.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
	}
	t.b.WriteString("|\n")
}

func (t *table) String() string { return t.b.String() }

func streamList() string {
	t := newTable("stream", "kind", "what it has")
	for _, s := range catalog.Streams {
		t.row("`"+s.Name+"`", s.Kind.String(), later(s.Doc, s.Later))
	}
	return t.String()
}

func later(doc string, later bool) string {
	if later {
		return doc + " (not in this version)"
	}
	return doc
}

func allColumns() string {
	var b strings.Builder
	for _, s := range catalog.Streams {
		b.WriteString("## " + s.Name + "\n\n" + streamEntry(s) + "\n")
	}
	return b.String()
}

// streamEntry returns the catalog's description of a stream.
func streamEntry(s *catalog.Stream) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n", capital(later(s.Doc, s.Later)))
	about := s.Kind.String()
	switch {
	case s.Process && s.Everywhere:
		about += "; a target is optional"
	case s.Process:
		about += "; needs a target"
	}
	if s.Sampled {
		about += "; SAMPLE reads it, too"
	}
	fmt.Fprintf(&b, "- Kind: %s\n- Acquired by: %s\n- Cost: %s\n- Needs: %s\n\n", about, s.How, s.Cost, s.Needs)
	b.WriteString(columnTable(s.Columns))
	if len(s.Asked) > 0 {
		b.WriteString("\nOnly where a statement names them (`*` leaves them out):\n\n" + columnTable(s.Asked))
	}
	return b.String()
}

func columnTable(cols []catalog.Column) string {
	t := newTable("column", "type", "meaning")
	for _, c := range cols {
		t.row(c.Name, typeAndUnit(c), c.Doc)
	}
	return t.String()
}

func typeAndUnit(c catalog.Column) string {
	if c.Unit == "" {
		return c.Type.String()
	}
	return c.Type.String() + " (" + c.Unit + ")"
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func settingTable() string {
	t := newTable("setting", "default", "meaning, and values")
	for i := range catalog.Settings {
		s := &catalog.Settings[i]
		t.row(s.Name, plan.FormatValue(s.Default), later(s.Doc, s.Later)+". "+capital(settingValues(s)))
	}
	return t.String()
}

// settingValues returns the valid values of a setting.
func settingValues(s *catalog.Setting) string {
	switch {
	case s.Values != nil:
		return "one of " + strings.Join(s.Values, ", ")
	case !s.Min.IsNull:
		return "from " + plan.FormatValue(s.Min) + " to " + plan.FormatValue(s.Max)
	}
	return "any " + s.Type.String()
}

// operator reports whether a function is not written as name(x).
func operator(f *plan.Scalar) bool {
	name, _, _ := strings.Cut(f.Name, ".") // frame(stack, 2).line
	return f.Name == "neg" || !isWord(name) || slices.Contains(parser.Keywords(), strings.ToUpper(f.Name)) && len(f.Sigs[0].Args) < 3
}

func isWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

func scalarTable(operators bool) string {
	t := newTable("function", "result", "meaning")
	if operators {
		t = newTable("operator", "operands", "meaning")
	}
	for i := range plan.Scalars {
		f := &plan.Scalars[i]
		switch {
		case operator(f) != operators:
		case operators:
			t.row(strings.ToUpper(f.Name), operands(f), f.Doc)
		default:
			call, result := callOf(f)
			t.row(call, result, f.Doc)
		}
	}
	return t.String()
}

// operands returns the operand types of an operator.
func operands(f *plan.Scalar) string {
	var alike, ways []string
	for _, s := range f.Sigs {
		if len(s.Args) == 1 || s.Args[0] == s.Args[1] {
			if t := typeName(s.Args[0]); !slices.Contains(alike, t) {
				alike = append(alike, t)
			}
			continue
		}
		ways = append(ways, typeName(s.Args[0])+" and "+typeName(s.Args[1]))
	}
	text := strings.Join(alike, ", ")
	if len(f.Sigs[0].Args) > 1 {
		text = "two of " + text
		if len(alike) == 1 {
			text = "two " + alike[0]
		}
	}
	return strings.Join(append([]string{text}, ways...), "; ")
}

// callOf returns the call of a function and its result type, by its first signature.
// Other signatures are included if their number of arguments differs.
func callOf(f *plan.Scalar) (call, result string) {
	ways := strings.Split(planner.Signature(f), " or ")
	call, result, _ = strings.Cut(ways[0], " → ")
	if len(f.Sigs) == 1 {
		return call, result
	}
	var types []string
	same := true
	for _, s := range f.Sigs {
		same = same && len(s.Args) == 1 && s.Args[0] == s.Result
		types = append(types, typeName(s.Result))
	}
	if same {
		return f.Name + "(" + strings.Join(types, "|") + ")", "the same"
	}
	var calls []string
	for _, w := range ways {
		c, _, _ := strings.Cut(w, " → ")
		calls = append(calls, c)
	}
	return strings.Join(calls, ", "), result
}

func typeName(t fmt.Stringer) string {
	if t == fmt.Stringer(plan.AnyType) {
		return "any"
	}
	return t.String()
}

func aggregateTable(fs []plan.AggFunc) string {
	t := newTable("aggregate", "meaning")
	for i := range fs {
		t.row(aggregateCall(&fs[i]), fs[i].Doc)
	}
	return t.String()
}

// aggregateCall returns the call of an aggregate. The arguments common to all
// encoders are described in the topic encoders.
func aggregateCall(f *plan.AggFunc) string {
	call := planner.AggSignature(f)
	if f.Encoder != nil {
		if common := strings.Index(call, " ["+plan.TimeArgument+" =>"); common > 0 {
			call = call[:common] + ")"
		} else if common := strings.Index(call, " ["+plan.SequenceArgument+" =>"); common > 0 {
			call = call[:common] + ")"
		}
	}
	return call
}
