package parser

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Error is an error in a statement, in the user's terms. The planner and the engine use it
// too, so that users see one form of error.
type Error struct {
	Msg    string // one line, no final full stop
	Hint   string // what to write instead; may be empty
	Pos    Span   // position in Src; Start < 0: none
	Src    string // the statement's text; may be empty
	Syntax bool   // found by the parser: line:column is shown
}

// Error implements error. Callers build errors as &Error{Msg: ..., Pos: n.Pos()}.
func (e *Error) Error() string { return Format(e) }

// maxLine is the largest part of a source line that an error shows, in columns.
const maxLine = 160

// Format formats an error as users see it, without a final newline:
//
//	error: what is wrong
//	  the line of the source text
//	      ^
//	hint: what to write instead
//
// Parse errors have line:column (in characters, from 1) before the message. Without a
// position, the line and the caret are omitted.
func Format(e *Error) string {
	placed := e.Src != "" && e.Pos.Start >= 0 && e.Pos.Start <= len(e.Src)
	var b strings.Builder
	b.WriteString("error: ")
	if placed && e.Syntax {
		line, column := LineColumn(e.Src, e.Pos.Start)
		fmt.Fprintf(&b, "%d:%d: ", line, column)
	}
	b.WriteString(e.Msg)
	if placed {
		line, caret := excerpt(e.Src, e.Pos.Start)
		b.WriteString("\n  " + line + "\n  " + caret)
	}
	if e.Hint != "" {
		b.WriteString("\nhint: " + e.Hint)
	}
	return b.String()
}

// LineColumn returns the line and the column, in characters, of a byte of src; both count
// from 1.
func LineColumn(src string, offset int) (line, column int) {
	before := src[:min(max(offset, 0), len(src))]
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

// excerpt returns the line of src that contains the byte at offset, and a line with a caret
// under it. A very long line is cut to the part around the caret.
func excerpt(src string, offset int) (line, caret string) {
	start := strings.LastIndexByte(src[:offset], '\n') + 1
	stop := len(src)
	if n := strings.IndexByte(src[offset:], '\n'); n >= 0 {
		stop = offset + n
	}
	// Only a part near the caret is shown: the rest is not worth a copy.
	const most = 4 * maxLine * utf8.UTFMax
	head, tail := src[start:offset], strings.TrimSuffix(src[offset:stop], "\r")
	if len(head) > most {
		head = strings.ToValidUTF8(head[len(head)-most:], "")
	}
	if len(tail) > most {
		tail = strings.ToValidUTF8(tail[:most], "")
	}
	before, after := printable(head), printable(tail)
	if cut := []rune(before); len(cut) > maxLine/2 && len(cut)+utf8.RuneCountInString(after) > maxLine {
		before = "…" + string(cut[len(cut)-maxLine/2:])
	}
	if cut := []rune(after); len(cut) > maxLine/2 && utf8.RuneCountInString(before)+len(cut) > maxLine {
		after = string(cut[:maxLine/2]) + "…"
	}
	var pad strings.Builder
	for graphemes := uniseg.NewGraphemes(before); graphemes.Next(); {
		if graphemes.Str() == "\t" { // the same width in both lines, whatever a tab's width
			pad.WriteByte('\t')
			continue
		}
		pad.WriteString(strings.Repeat(" ", graphemes.Width()))
	}
	return before + after, pad.String() + "^"
}

// printable replaces control characters that a terminal would interpret.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return ' '
		}
		return r
	}, s)
}
