package help

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
)

// NotFoundError is the error of a name that the manual does not contain.
type NotFoundError struct {
	Name string
	Hint string // "": there is no similar name
}

func (e *NotFoundError) Error() string { return "the manual has no topic " + e.Name }

// Find returns what the manual says about a name, as Markdown. A name is, in
// the order in which they are tried, in any case:
//
//   - a topic: joins, or join
//   - a function, aggregate, stream or setting: QUANTILE, function_duration
//   - the heading of a section: WINDOW JOIN; or a column of streams: self_time
//   - the beginning of one topic's name: jo
//   - the beginning of a heading: CREATE
//   - a heading without spaces: flamegraph
//
// The error is a [*NotFoundError].
func Find(name string) (string, error) {
	name = normal(name)
	if t := cmp.Or(findTopic(name), findTopic(name+"s")); t != nil {
		return t.Text + "\n" + reference(name), nil // placement is also a setting
	}
	if text := reference(name); text != "" {
		return text + seeAlso(name), nil
	}
	section, column := sections(func(heading string) bool { return heading == name }), columnEntry(name)
	if column != "" {
		return section + column + seeAlso(name), nil
	}
	if section != "" {
		return section, nil
	}
	matches := beginning(name)
	if len(matches) == 1 {
		return findTopic(matches[0]).Text, nil
	}
	if len(matches) > 1 {
		return "", &NotFoundError{name, "did you mean " + orList(matches) + "?"}
	}
	if len(name) > 2 {
		if text := sections(func(heading string) bool { return strings.HasPrefix(heading, name) }); text != "" {
			return text, nil
		}
	}
	if text := sections(func(heading string) bool { return joined(heading) == joined(name) }); text != "" {
		return text, nil
	}
	return "", &NotFoundError{name, hint(name)}
}

// joined returns a name without spaces and the s of a plural: flamegraph finds flame graphs.
func joined(name string) string { return strings.TrimSuffix(strings.ReplaceAll(name, " ", ""), "s") }

// normal returns the form of a name that Find compares: in lower case, with single
// spaces, and without the punctuation around it in a text: --connect, \watch, USE;
func normal(name string) string {
	name = strings.ToLower(strings.Join(strings.Fields(name), " "))
	if inner := strings.Trim(name, "-\\;:()`'\""); inner != "" {
		return inner
	}
	return name
}

// beginning returns the topics whose names begin with prefix.
func beginning(prefix string) (names []string) {
	for _, t := range Topics() {
		if prefix != "" && strings.HasPrefix(t.Name, prefix) {
			names = append(names, t.Name)
		}
	}
	return names
}

// hint returns a hint for a name that was not found.
func hint(name string) string {
	if near := plan.Nearest(name, Names(), 3); len(near) > 0 {
		return "did you mean " + orList(near) + "?"
	}
	if in := mentions(name); len(in) > 0 {
		if len(in) > 5 {
			in = append(in[:5], "others")
		}
		return "it occurs in " + strings.Join(in, ", ")
	}
	return ""
}

func orList(words []string) string { return strings.Join(words, " or ") }

// reference returns the entry of a function, stream or setting; "" if there is none.
func reference(name string) string {
	var b strings.Builder
	if s := catalog.Find(name); s != nil {
		b.WriteString("# " + s.Name + "\n\n" + streamEntry(s) + "\n")
	}
	if f := plan.FindScalar(name); f != nil {
		b.WriteString("# " + f.Name + "\n\n" + capital(f.Doc) + ".\n\n")
		for _, way := range strings.Split(planner.Signature(f), " or ") {
			b.WriteString("- `" + way + "`\n")
		}
		b.WriteString("\n")
	}
	if f := plan.FindAgg(name); f != nil {
		b.WriteString("# " + strings.ToUpper(f.Name) + "\n\nAggregate: " + f.Doc + ".\n\n- `" + aggregateCall(f) + "`\n\n")
		if e := f.Encoder; e != nil {
			if e.Example != "" {
				b.WriteString("For example `" + e.Example + "`.\n")
			}
			b.WriteString("The arguments that all encoders have are in [encoders](encoders.md).\n\n")
		}
	}
	if s := catalog.FindSetting(name); s != nil {
		fmt.Fprintf(&b, "# %s\n\n%s.\n\n- Default: %s\n- Values: %s\n- Set by: `SET %s = %s`\n\n", s.Name, capital(later(s.Doc, s.Later)),
			plan.FormatValue(s.Default), settingValues(s), s.Name, plan.FormatValue(s.Default))
	}
	return b.String()
}

// columnEntry returns the entry of a stream column; "" if no stream has it. Streams
// in which it has the same meaning are listed together.
func columnEntry(name string) string {
	type meaning struct{ kind, doc string }
	var order []meaning
	in := map[meaning][]string{}
	for _, s := range catalog.Streams {
		c, ok := s.Column(name)
		if !ok {
			continue
		}
		m := meaning{typeAndUnit(c), c.Doc}
		if in[m] == nil {
			order = append(order, m)
		}
		in[m] = append(in[m], s.Name)
	}
	if order == nil {
		return ""
	}
	t := newTable("type", "meaning", "streams")
	for _, m := range order {
		t.row(m.kind, m.doc, strings.Join(in[m], ", "))
	}
	return "# " + name + "\n\nA column of streams.\n\n" + t.String() + "\n"
}

// seeAlso returns the links to the topics that explain a word.
func seeAlso(name string) string {
	in := mentions(name)
	if len(in) == 0 {
		return ""
	}
	var links []string
	for _, t := range in[:min(6, len(in))] {
		links = append(links, "["+t+"]("+t+".md)")
	}
	return "See " + strings.Join(links, ", ") + ".\n"
}

// mentions returns the topics whose own text contains a word, not counting their
// reference tables.
func mentions(word string) (names []string) {
	if word == "" {
		return nil
	}
	for _, t := range Topics() {
		if hasWord(t.words, word) {
			names = append(names, t.Name)
		}
	}
	return names
}

func hasWord(text, word string) bool {
	for {
		i := strings.Index(text, word)
		if i < 0 {
			return false
		}
		end := i + len(word)
		if (i == 0 || !wordByte(text[i-1])) && (end == len(text) || !wordByte(text[end])) {
			return true
		}
		text = text[end:]
	}
}

func wordByte(c byte) bool { return c == '_' || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) }

// sections returns the sections whose headings, in lower case and without markup, are
// wanted, each with the name of its topic.
func sections(wanted func(heading string) bool) string {
	var b strings.Builder
	for _, t := range Topics() {
		for _, s := range splitSections(t.Text) {
			if !slices.ContainsFunc(headingNames(s.heading), wanted) {
				continue
			}
			fmt.Fprintf(&b, "# %s\n\n%s\nThis is part of [%s](%s.md).\n\n", s.heading, s.text, t.Name, t.Name)
		}
	}
	return b.String()
}

// headingNames returns the names of a section: its heading, and the parts of a
// heading that lists several: "SUSPEND, RESUME".
func headingNames(heading string) []string {
	low := strings.ToLower(strings.NewReplacer("`", "", "**", "").Replace(heading))
	names := []string{low}
	if parts := strings.Split(low, ", "); len(parts) > 1 {
		names = append(names, parts...)
	}
	return names
}

type section struct{ heading, text string }

// splitSections splits a topic at its second-level headings.
func splitSections(text string) (all []section) {
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if heading, ok := strings.CutPrefix(line, "## "); ok && !fenced {
			all = append(all, section{heading: strings.TrimSpace(heading)})
		} else if len(all) > 0 {
			all[len(all)-1].text += line
		}
	}
	return all
}

// Show writes the manual's text for a name, or the list of topics if name is "".
func Show(w io.Writer, name string, s Style) error {
	if strings.TrimSpace(name) == "" {
		return WriteList(w, s)
	}
	text, err := Find(name)
	if err != nil {
		return err
	}
	return Write(w, text, s)
}

// Names returns what Find finds besides headings: topics first, then functions,
// streams and settings.
func Names() []string {
	var names []string
	for _, t := range Topics() {
		names = append(names, t.Name)
	}
	add := func(name string) {
		if isWord(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, s := range catalog.Streams {
		names = append(names, s.Name)
	}
	for _, table := range [][]plan.AggFunc{plan.AggFuncs, plan.Encoders, plan.StackAggs, plan.PresentAggs, plan.SketchAggs} {
		for i := range table {
			add(table[i].Name)
		}
	}
	for i := range plan.Scalars {
		add(plan.Scalars[i].Name)
	}
	for i := range catalog.Settings {
		add(catalog.Settings[i].Name)
	}
	return names
}
