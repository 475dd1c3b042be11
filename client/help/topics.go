package help

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed topics/*.md
var files embed.FS

// Topic is one page of the manual.
type Topic struct {
	Name    string // file name, and the argument of help
	Group   string // one of Groups
	Title   string
	Summary string // one sentence
	Text    string // the whole text as Markdown, with reference tables

	order int    // within the group
	words string // the text of the file, in lower case
}

// Groups are the parts of the manual, in reading order.
var Groups = []string{
	"First steps",
	"Statements",
	"What can be observed",
	"Programs and languages",
	"Sequences of events",
	"Standing queries",
	"Trust",
	"Engines elsewhere",
	"Background",
}

// Topics returns the topics in reading order.
var Topics = sync.OnceValue(func() []Topic {
	entries, err := files.ReadDir("topics")
	if err != nil {
		panic(err) // the directory is embedded
	}
	var all []Topic
	for _, e := range entries {
		src, err := files.ReadFile(path.Join("topics", e.Name()))
		if err != nil {
			panic(err)
		}
		t, err := parseTopic(strings.TrimSuffix(e.Name(), ".md"), string(src))
		if err != nil {
			panic(err) // a test parses every topic
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Topic) int {
		if a.Group != b.Group {
			return slices.Index(Groups, a.Group) - slices.Index(Groups, b.Group)
		}
		return a.order - b.order
	})
	return all
})

// parseTopic reads a topic's file:
//
//	# Title
//
//	One sentence that says what the topic is about.
//
//	<!-- group: First steps, 1 -->
//
// and then its text.
func parseTopic(name, src string) (Topic, error) {
	t := Topic{Name: name, words: strings.ToLower(src)}
	fail := func(what string) (Topic, error) { return Topic{}, fmt.Errorf("topic %s: %s", name, what) }
	parts := strings.SplitN(src, "\n\n", 4)
	if len(parts) < 4 {
		return fail("it needs a title, a summary, a group and text")
	}
	var ok bool
	if t.Title, ok = strings.CutPrefix(parts[0], "# "); !ok || t.Title == "" {
		return fail("its first line is not a title")
	}
	t.Summary = parts[1]
	group, ok := strings.CutPrefix(parts[2], "<!-- group: ")
	if !ok {
		return fail("its third paragraph does not name its group")
	}
	group, place, ok := strings.Cut(strings.TrimSuffix(group, " -->"), ", ")
	order, err := strconv.Atoi(place)
	if !ok || err != nil || !slices.Contains(Groups, group) {
		return fail("there is no group " + group)
	}
	t.Group, t.order = group, order
	text, err := fill(parts[3])
	if err != nil {
		return fail(err.Error())
	}
	t.Text = parts[0] + "\n\n" + t.Summary + "\n\n" + text
	return t, nil
}

// fill replaces the lines {{name}} by the reference tables of these names.
func fill(text string) (string, error) {
	var b strings.Builder
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "{{")
		if !ok {
			b.WriteString(line)
			continue
		}
		table, ok := tables[strings.TrimSuffix(name, "}}")]
		if !ok {
			return "", fmt.Errorf("there is no reference table %s", strings.TrimSpace(line))
		}
		b.WriteString(table())
	}
	return b.String(), nil
}

// findTopic returns the topic with that name, or nil.
func findTopic(name string) *Topic {
	all := Topics()
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}
