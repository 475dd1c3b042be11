package help

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
)

var update = flag.Bool("update", false, "rewrite golden files")

// A topic's name and summary fit on one terminal line.
const summaryWidth = 64

func TestTopics(t *testing.T) {
	all := Topics()
	if len(all) < 20 {
		t.Errorf("the manual has %d topics", len(all))
	}
	places := map[string]string{}
	for _, topic := range all {
		if n := utf8.RuneCountInString(topic.Summary); n == 0 || n > summaryWidth || strings.Contains(topic.Summary, "\n") {
			t.Errorf("%s: the summary has %d characters: %q", topic.Name, n, topic.Summary)
		}
		if !strings.HasSuffix(topic.Summary, ".") {
			t.Errorf("%s: the summary is no sentence: %q", topic.Name, topic.Summary)
		}
		if strings.Contains(topic.Text, "{{") {
			t.Errorf("%s: a reference table is missing", topic.Name)
		}
		if regexp.MustCompile("^[a-z]+$").FindString(topic.Name) == "" || len(topic.Name) > 12 {
			t.Errorf("%s is no name of a topic", topic.Name)
		}
		place := topic.Group + string(rune('0'+topic.order))
		if other := places[place]; other != "" {
			t.Errorf("%s and %s have one place in %s", topic.Name, other, topic.Group)
		}
		places[place] = topic.Name
	}
	for _, g := range Groups {
		if !slices.ContainsFunc(all, func(t Topic) bool { return t.Group == g }) {
			t.Errorf("nothing is in the group %s", g)
		}
	}
}

func TestTopicsAreRefused(t *testing.T) {
	const head = "# T\n\nS.\n\n<!-- group: Trust, 1 -->\n\n"
	for src, want := range map[string]string{
		"": "topic x: it needs a title, a summary, a group and text",
		"T\n\nS.\n\n<!-- group: Trust, 1 -->\n\nText\n":   "topic x: its first line is not a title",
		"# T\n\nS.\n\nText\n\nText\n":                     "topic x: its third paragraph does not name its group",
		"# T\n\nS.\n\n<!-- group: None, 1 -->\n\nText\n":  "topic x: there is no group None",
		"# T\n\nS.\n\n<!-- group: Trust, a -->\n\nText\n": "topic x: there is no group Trust",
		head + "{{nothing}}\n":                            "topic x: there is no reference table {{nothing}}",
	} {
		_, err := parseTopic("x", src)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", src, err, want)
		}
	}
	if topic, err := parseTopic("x", head+"Text\n"); err != nil || topic.Text != "# T\n\nS.\n\nText\n" {
		t.Errorf("%+v: %v", topic, err)
	}
}

// Everything that the planner knows is in the manual and can be found by name.
func TestReferenceIsComplete(t *testing.T) {
	var b strings.Builder
	for _, topic := range Topics() {
		b.WriteString(topic.Text)
	}
	manual := strings.ToLower(b.String())
	has := func(kind, name, doc string) {
		t.Helper()
		if function, field, ok := strings.Cut(name, "."); ok && kind == "function" { // frame(stack, 2).line
			if !regexp.MustCompile(`\| ` + function + `\([^|]*\)\.` + field + ` \|`).MatchString(manual) {
				t.Errorf("the manual has no field %s of %s()", field, function)
			}
		} else if !hasWord(manual, name) && !strings.Contains(manual, "| "+strings.ReplaceAll(name, "|", `\|`)+" |") {
			t.Errorf("the manual has no %s %s", kind, name)
		}
		doc = strings.ToLower(strings.ReplaceAll(doc, "|", `\|`))
		if !strings.Contains(manual, doc) {
			t.Errorf("the manual does not say what the %s %s is", kind, name)
		}
		if text, err := Find(name); err != nil || !strings.Contains(strings.ToLower(strings.ReplaceAll(text, "|", `\|`)), doc) {
			t.Errorf("help %s: %v\n%s", name, err, text)
		}
	}
	for _, s := range catalog.Streams {
		has("stream", s.Name, s.Doc)
		for _, c := range s.All() {
			if row := "| " + c.Name + " | " + typeAndUnit(c) + " | "; !strings.Contains(b.String(), row) {
				t.Errorf("the manual has no column %s of %s", c.Name, s.Name)
			}
			if _, err := Find(c.Name); err != nil {
				t.Errorf("help %s: %v", c.Name, err)
			}
		}
	}
	for i := range catalog.Settings {
		has("setting", catalog.Settings[i].Name, catalog.Settings[i].Doc)
	}
	for i := range plan.Scalars {
		has("function", plan.Scalars[i].Name, plan.Scalars[i].Doc)
	}
	for _, table := range [][]plan.AggFunc{plan.AggFuncs, plan.Encoders, plan.StackAggs, plan.PresentAggs, plan.SketchAggs} {
		for i := range table {
			has("aggregate", table[i].Name, table[i].Doc)
		}
	}
}

// link is a relative link of Markdown.
var link = regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`)

// markdown returns the Markdown files of the repository.
func markdown(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"../../README.md", "topics/*.md", "../../*/testdata/figures/*.md",
		"../../*/*/testdata/figures/*.md", "../../*/*/*/testdata/figures/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		paths = append(paths, found...)
	}
	return paths
}

func TestLinks(t *testing.T) {
	linked := map[string]bool{}
	for _, path := range markdown(t) {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(src), -1) {
			to := filepath.Join(filepath.Dir(path), m[1])
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: nothing is at %s", path, m[1])
			}
			linked[to] = true
		}
	}
	for _, path := range markdown(t) {
		if strings.Contains(path, "figures/") && !linked[path] {
			t.Errorf("no text leads to %s", path)
		}
	}
}

func TestReadmeIsShort(t *testing.T) {
	src, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(src) > 10_000 {
		t.Errorf("README.md has %d bytes: the rest belongs in topics/", len(src))
	}
}

func TestList(t *testing.T) {
	var b strings.Builder
	if err := WriteList(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/list.txt", b.String())
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-update rewrites it):\n%s", path, d)
	}
}
