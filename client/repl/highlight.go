package repl

import (
	"strings"

	"endoscope/parser"
)

// colours are the SGR sequences of the kinds of token; "" is the terminal's default.
var colours = map[parser.TokenKind]string{
	parser.TokenKeyword:  "\x1b[1;34m",
	parser.TokenFunction: "\x1b[36m",
	parser.TokenString:   "\x1b[32m",
	parser.TokenNumber:   "\x1b[35m",
	parser.TokenParam:    "\x1b[35m",
	parser.TokenComment:  "\x1b[90m",
	parser.TokenInvalid:  "\x1b[31m",
}

// highlight adds colours to statements. Without the SGR sequences the result is src.
func highlight(src string) string {
	if isCommand(src) {
		return src
	}
	var b strings.Builder
	done := 0
	for _, t := range parser.Highlight(src) {
		b.WriteString(src[done:t.Start])
		done = t.Stop
		colour := colours[t.Kind]
		if colour == "" {
			b.WriteString(src[t.Start:t.Stop])
			continue
		}
		// readline draws line by line, so a token of several lines is coloured on
		// each.
		for i, line := range strings.SplitAfter(src[t.Start:t.Stop], "\n") {
			if i > 0 && line == "" {
				continue
			}
			text, end := strings.CutSuffix(line, "\n")
			b.WriteString(colour + text + "\x1b[0m")
			if end {
				b.WriteByte('\n')
			}
		}
	}
	b.WriteString(src[done:])
	return b.String()
}
