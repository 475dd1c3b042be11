package help

import (
	"slices"
	"strings"
	"testing"
)

const sample = `# Title

A paragraph with ` + "`code`" + `, **bold text** and a link to [joins](joins.md), one to [the
plans of joins](joins.md) and one to [a figure](../../../server/testdata/figures/arm.md). It is long enough for three lines.

<!-- a comment -->

- An item of a list that is so long that it goes on in a second line, below its
  own text.
  1. One that stands in it.
- ` + "`x`" + `: 3

` + "```sql\n-- a question\nSELECT *   FROM function_start\n```" + `
## Section

| name | meaning |
|---|---|
| ` + "`a\\|b`" + ` | short |
| c | a text that is far too long to stand in one line of a narrow terminal beside c |
`

func TestWrite(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, sample, Style{Width: 60}); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/plain.txt", b.String())
	b.Reset()
	if err := Write(&b, sample, Style{Width: 60, Color: true}); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/color.txt", strings.ReplaceAll(b.String(), "\x1b", "ESC"))
}

// Every topic fits the width, except code, which is not wrapped.
func TestWidths(t *testing.T) {
	for _, width := range []int{0, 80, 100, 500} {
		s := Style{Width: width}
		for _, topic := range Topics() {
			var b strings.Builder
			if err := Write(&b, topic.Text, s); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(b.String(), "\x1b") {
				t.Errorf("%s has marks", topic.Name)
			}
			for line := range strings.Lines(b.String()) {
				line = strings.TrimRight(line, "\n")
				if n := cells(line); n > s.width() && !strings.HasPrefix(line, codeIndent) && len(strings.Fields(line)) > 2 {
					t.Errorf("%s, width %d: %d cells: %s", topic.Name, s.width(), n, line)
				}
			}
		}
	}
}

// With and without colours the text is the same apart from markup.
func TestColorsChangeNoText(t *testing.T) {
	for _, topic := range Topics() {
		var plain, colored strings.Builder
		_ = Write(&plain, topic.Text, Style{})
		_ = Write(&colored, topic.Text, Style{Color: true})
		if got, want := words(colored.String()), words(plain.String()); got != want {
			t.Errorf("%s differs:\n%s\n%s", topic.Name, got, want)
		}
		if strings.Count(colored.String(), "\x1b")%2 != 0 {
			t.Errorf("%s: a mark does not end", topic.Name)
		}
	}
}

// words returns the words of a text without markup, sorted, because line breaks and
// table borders depend on markup.
func words(text string) string {
	text = strings.ReplaceAll(sgr.ReplaceAllString(text, ""), "`", "")
	all := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \n|-+", r) })
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestSqueeze(t *testing.T) {
	for _, c := range []struct {
		natural, least []int
		total          int
		want           string
	}{
		{[]int{5, 10}, []int{5, 5}, 20, "5 10"},
		{[]int{5, 50}, []int{5, 5}, 20, "5 15"},
		{[]int{30, 50}, []int{25, 5}, 40, "25 15"},
		{[]int{30, 30}, []int{30, 30}, 20, "10 10"},
		{[]int{30, 30}, []int{30, 30}, 2, "8 8"},
	} {
		var got []string
		for _, w := range squeeze(c.natural, c.least, c.total) {
			got = append(got, strings.Repeat("x", w))
		}
		var want []string
		for _, w := range strings.Fields(c.want) {
			n := 0
			for _, d := range w {
				n = 10*n + int(d-'0')
			}
			want = append(want, strings.Repeat("x", n))
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("squeeze(%v, %v, %d) is %v, want %s", c.natural, c.least, c.total, squeeze(c.natural, c.least, c.total), c.want)
		}
	}
}
