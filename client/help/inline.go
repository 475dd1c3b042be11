package help

import (
	"regexp"
	"strings"

	"github.com/rivo/uniseg"
)

// SGR sequences.
const (
	sgrBold  = "\x1b[1m"
	sgrDim   = "\x1b[2m"
	sgrCode  = "\x1b[36m"
	sgrReset = "\x1b[0m"
)

func (s Style) marked(sgr, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return sgr + text + sgrReset
}

func (s Style) bold(text string) string { return s.marked(sgrBold, text) }
func (s Style) dim(text string) string  { return s.marked(sgrDim, text) }

// inline matches code, links and images, and bold text, in this order.
var inline = regexp.MustCompile("`([^`]+)`|!?\\[([^\\]]+)\\]\\(([^)]+)\\)|\\*\\*([^*]+)\\*\\*")

// words splits a Markdown text into words with their markup, so that lines can be
// broken between any two.
func (s Style) words(text string) []string {
	var b strings.Builder
	s.spans(text, func(sgr, part string) {
		if sgr == "" || !s.Color {
			b.WriteString(part)
			return
		}
		for i, w := range strings.Split(part, " ") {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(s.marked(sgr, w))
		}
	})
	return strings.Fields(b.String())
}

// plain returns a Markdown text without markup.
func (s Style) plain(text string) string {
	var b strings.Builder
	Style{Color: true}.spans(text, func(_, part string) { b.WriteString(part) })
	return b.String()
}

// spans calls emit for each part of a text with its SGR sequence. Without colours
// code keeps its backquotes.
func (s Style) spans(text string, emit func(sgr, part string)) {
	code := func(c string) {
		if !s.Color {
			c = "`" + c + "`"
		}
		emit(sgrCode, c)
	}
	for text != "" {
		m := inline.FindStringSubmatchIndex(text)
		if m == nil {
			emit("", text)
			return
		}
		emit("", text[:m[0]])
		group := func(i int) string { return text[m[2*i]:m[2*i+1]] }
		switch {
		case m[2] >= 0:
			code(group(1))
		case m[4] >= 0:
			s.link(group(2), group(3), emit, code)
		default:
			emit(sgrBold, group(4))
		}
		text = text[m[1]:]
	}
}

// link writes a link: to a topic as the command that shows it, to a file of the
// repository as its path from the root.
func (s Style) link(text, target string, emit func(sgr, part string), code func(string)) {
	file, _, _ := strings.Cut(target, "#")
	if topic, ok := strings.CutSuffix(file, ".md"); ok && findTopicName(topic) {
		if strings.Trim(text, "`") == topic {
			code("help " + topic)
			return
		}
		s.spans(text, emit)
		emit("", " (")
		code("help " + topic)
		emit("", ")")
		return
	}
	s.spans(text, emit)
	emit("", " ("+strings.TrimPrefix(target, "../../../")+")")
}

func findTopicName(name string) bool {
	_, err := files.ReadFile("topics/" + name + ".md")
	return err == nil
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// cells returns the width of a text in terminal cells.
func cells(text string) int { return uniseg.StringWidth(sgr.ReplaceAllString(text, "")) }

// wrap breaks words into lines of at most width cells. A longer word gets its own
// line.
func wrap(words []string, width int) (lines []string) {
	line, used := "", 0
	for _, w := range words {
		n := cells(w)
		if line != "" && used+1+n > width {
			lines = append(lines, line)
			line, used = "", 0
		}
		if line != "" {
			line, used = line+" ", used+1
		}
		line, used = line+w, used+n
	}
	if line != "" || lines == nil {
		lines = append(lines, line)
	}
	return lines
}
