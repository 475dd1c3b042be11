package encoders

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Words with a special meaning in text forms, where words are separated by spaces.
const (
	Arrow      = "->"
	EndName    = "⊣"  // the end of a sequence
	RemarkMark = "--" // begins a remark, a line that is not part of the encoding
)

// Quote returns a token as text forms write it: unchanged, or as a Go string in double
// quotes if it has spaces, quotes or unprintable characters, or could be read as syntax:
//
//	3:B   a run         B*   a long run       R7 S7   a rule, a start string
//	->    of a rule     <    a return         ⊣       the end of a sequence
//	--    a remark      ( ) [ ] { } , ; |     a word that is just this
func Quote(token string) string {
	if plain(token) {
		return token
	}
	return strconv.Quote(token)
}

// AppendName appends the text form of the name of s. Return is not quoted; a function named
// "<" is.
func AppendName(b []byte, names []string, s Symbol) []byte {
	switch {
	case s == Return:
		return append(b, returnName...)
	case s == End:
		return append(b, EndName...)
	case plain(names[s]):
		return append(b, names[s]...)
	}
	return strconv.AppendQuote(b, names[s])
}

func plain(token string) bool {
	switch token {
	case "", Arrow, RemarkMark, returnName, EndName, "(", ")", "[", "]", "{", "}", ",", ";", "|":
		return false
	}
	if token[len(token)-1] == '*' {
		return false
	}
	if IsRuleName(token) {
		return false
	}
	if n := Digits(token); n > 0 && n < len(token) && token[n] == ':' {
		return false
	}
	for _, r := range token {
		if r == '"' || r == ' ' || r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// IsRuleName reports whether a word is the name of a rule or a start string.
func IsRuleName(w string) bool {
	return len(w) > 1 && (w[0] == 'R' || w[0] == 'S') && Digits(w[1:]) == len(w)-1
}

// Digits returns the number of digits that text begins with.
func Digits(text string) int {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}
