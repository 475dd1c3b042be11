package encoders

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Words that mean something in text forms, where words stand between spaces.
const (
	Arrow      = "->"
	EndName    = "⊣"  // how the end of a sequence is written
	RemarkMark = "--" // begins a line that is not of the encoding
)

// Quote is how text forms write a token: as it is, or as a Go string in double
// quotes where it has spaces, quotes or unprintable characters, or could be
// taken for syntax:
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

// AppendName appends the name of s as it is written. Return, unlike a function
// of that name, is not quoted.
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

// Digits is how many digits text begins with.
func Digits(text string) int {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}
