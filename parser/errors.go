package parser

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Error is a mistake in a statement, told in the user's words. The planner and
// the engine use it too, so that a user sees one form of error from all of
// them.
type Error struct {
	Msg    string // one line, no final full stop
	Hint   string // what to write instead; may be empty
	Pos    Span   // where in Src; Start < 0: nowhere in particular
	Src    string // the statement's text; may be empty
	Syntax bool   // found by the parser: line:column is told
}

// Errorf-style construction is left to callers: &Error{Msg: ..., Pos: n.Pos()}.
func (e *Error) Error() string { return Format(e) }

// maxLine is how much of a source line an error shows, in columns.
const maxLine = 160

// Format writes an error as users see it, without a final newline:
//
//	error: what is wrong
//	  the line of the source text
//	      ^
//	hint: what to write instead
//
// Parse errors tell line:column (in characters, from 1) before the message.
// Without a place, the line and the caret are left out.
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

// LineColumn gives the line and the column, in characters, of a byte of src;
// both count from 1.
func LineColumn(src string, offset int) (line, column int) {
	before := src[:min(max(offset, 0), len(src))]
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

// excerpt is the line of src that holds the byte at offset, and a line with a
// caret under it. Of a very long line it is the part around the caret.
func excerpt(src string, offset int) (line, caret string) {
	start := strings.LastIndexByte(src[:offset], '\n') + 1
	stop := len(src)
	if n := strings.IndexByte(src[offset:], '\n'); n >= 0 {
		stop = offset + n
	}
	before, after := printable(src[start:offset]), printable(strings.TrimSuffix(src[offset:stop], "\r"))
	if cut := []rune(before); len(cut) > maxLine/2 && len(cut)+utf8.RuneCountInString(after) > maxLine {
		before = "…" + string(cut[len(cut)-maxLine/2:])
	}
	if cut := []rune(after); len(cut) > maxLine/2 && utf8.RuneCountInString(before)+len(cut) > maxLine {
		after = string(cut[:maxLine/2]) + "…"
	}
	var pad strings.Builder
	for graphemes := uniseg.NewGraphemes(before); graphemes.Next(); {
		if graphemes.Str() == "\t" { // as wide here as above, whatever a tab's width
			pad.WriteByte('\t')
			continue
		}
		pad.WriteString(strings.Repeat(" ", graphemes.Width()))
	}
	return before + after, pad.String() + "^"
}

// printable replaces what a terminal would obey instead of showing.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return ' '
		}
		return r
	}, s)
}
