package help

import (
	"io"
	"strings"
)

// Style describes the output.
type Style struct {
	Width int  // in cells; 0: 80
	Color bool // SGR sequences may be used
}

const (
	defaultWidth = 80
	maxWidth     = 100 // longer lines are hard to read
	codeIndent   = "    "
)

func (s Style) width() int {
	if s.Width <= 0 {
		return defaultWidth
	}
	return max(20, min(s.Width, maxWidth))
}

// Write renders Markdown for a terminal, or without markup for a pipe. It supports
// what the manual uses: headings, paragraphs, lists, tables, fenced code, bold text,
// code and links.
func Write(w io.Writer, markdown string, s Style) error {
	p := &writer{style: s}
	p.blocks(strings.Split(strings.TrimRight(markdown, "\n"), "\n"))
	_, err := io.WriteString(w, strings.TrimRight(p.b.String(), "\n")+"\n")
	return err
}

// WriteList writes the list of topics with their summaries.
func WriteList(w io.Writer, s Style) error {
	p := &writer{style: s}
	longest := 0
	for _, t := range Topics() {
		longest = max(longest, len(t.Name))
	}
	group := ""
	for _, t := range Topics() {
		if t.Group != group {
			p.heading(2, t.Group)
			group = t.Group
		}
		name := "  " + t.Name + strings.Repeat(" ", longest-len(t.Name)+2)
		p.wrapped(t.Summary, p.style.bold("  "+t.Name)+name[len("  "+t.Name):], strings.Repeat(" ", len(name)))
	}
	p.blank()
	p.wrapped("`help TOPIC` shows one. TOPIC may also be a function, stream, setting or column, or the heading of a section: `help QUANTILE`, `help max_overhead`, `help self_time`, `help WINDOW JOIN`.", "", "")
	_, err := io.WriteString(w, p.b.String())
	return err
}

// writer renders blocks of Markdown as lines.
type writer struct {
	style Style
	b     strings.Builder
}

// blank writes an empty line, unless the last line is empty or it is the first.
func (p *writer) blank() {
	if s := p.b.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
		p.b.WriteByte('\n')
	}
}

func (p *writer) heading(level int, text string) {
	p.blank()
	p.b.WriteString(p.style.bold(p.style.plain(text)) + "\n")
	if level == 1 {
		p.b.WriteByte('\n')
	}
}

// blocks renders the blocks in lines.
func (p *writer) blocks(lines []string) {
	for len(lines) > 0 {
		line := lines[0]
		trimmed := strings.TrimSpace(line)
		n := 1
		switch {
		case trimmed == "":
			p.blank()
		case strings.HasPrefix(trimmed, "<!--"):
		case strings.HasPrefix(trimmed, "```"):
			n = p.code(lines)
		case strings.HasPrefix(line, "#"):
			text := strings.TrimLeft(line, "#")
			p.heading(len(line)-len(text), strings.TrimSpace(text))
		case strings.HasPrefix(trimmed, "|"):
			n = until(lines, func(l string) bool { return !strings.HasPrefix(strings.TrimSpace(l), "|") })
			p.table(lines[:n])
		case bullet(line) != "":
			n = 1 + until(lines[1:], func(l string) bool { return !strings.HasPrefix(l, " ") || bullet(l) != "" || fence(l) })
			mark := bullet(line)
			text := strings.TrimSpace(strings.Join(lines[:n], " "))[len(strings.TrimSpace(mark)):]
			p.wrapped(text, mark, strings.Repeat(" ", len(mark)))
		default:
			n = until(lines, func(l string) bool {
				return strings.TrimSpace(l) == "" || fence(l) || strings.HasPrefix(l, "|") || bullet(l) != ""
			})
			p.wrapped(strings.Join(lines[:n], " "), "", "")
		}
		lines = lines[n:]
	}
}

func fence(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "```") }

// until returns the index of the first line for which end is true, or len(lines).
func until(lines []string, end func(string) bool) int {
	for i, l := range lines {
		if end(l) {
			return i
		}
	}
	return len(lines)
}

// bullet returns the mark of a list item with its indentation and the following
// space; "" if the line is not a list item.
func bullet(line string) string {
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	if strings.HasPrefix(text, "- ") {
		return indent + "- "
	}
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	if digits != "" && strings.HasPrefix(text[len(digits):], ". ") {
		return indent + digits + ". "
	}
	return ""
}

// code writes a fenced block unchanged, indented, and returns its number of lines.
func (p *writer) code(lines []string) int {
	n := 1 + until(lines[1:], fence)
	sql := strings.HasPrefix(strings.TrimSpace(lines[0]), "```sql")
	for _, l := range lines[1:n] {
		switch {
		case l == "":
			p.b.WriteByte('\n')
		case sql && strings.HasPrefix(strings.TrimSpace(l), "--"):
			p.b.WriteString(codeIndent + p.style.dim(l) + "\n")
		default:
			p.b.WriteString(codeIndent + l + "\n")
		}
	}
	return min(n+1, len(lines))
}

// wrapped writes text as lines. The first line begins with one prefix and the others
// with another of the same width.
func (p *writer) wrapped(text, first, rest string) {
	width := p.style.width() - cells(first)
	for i, l := range wrap(p.style.words(text), width) {
		if i > 0 {
			first = rest
		}
		p.b.WriteString(first + l + "\n")
	}
}
