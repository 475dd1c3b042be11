package parser

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
)

// Types of token.
const (
	tokWord     lexer.TokenType = iota // a name, or a keyword that is not reserved
	tokReserved                        // a reserved keyword
	tokQuoted                          // "name"
	tokString                          // 'text'
	tokInt
	tokFloat
	tokPercent
	tokDuration
	tokSize
	tokParam   // $1
	tokIndex   // [2], immediately after a name
	tokOp      // an operator or punctuation
	tokList    // constants separated by commas, after IN (
	tokComment // seen by Highlight and Split only
	tokInvalid // an invalid token; bad has the reason
)

// token is a token of the source text.
type token struct {
	typ  lexer.TokenType
	text string
	Span
	bad      *Error // of tokInvalid: the error, without Src and Pos
	unclosed bool   // of tokInvalid: an unterminated string, name or comment
	count    int    // of tokList: the constants
}

// is reports whether the token is this keyword, operator or punctuation.
func (t *token) is(text string) bool {
	switch t.typ {
	case tokWord, tokReserved:
		return strings.EqualFold(t.text, text)
	case tokOp:
		return t.text == text
	}
	return false
}

// scanner splits a text into tokens, omitting only white space. It never fails: an error
// becomes a tokInvalid.
type scanner struct {
	src    string
	at     int
	before [2]token // the last token, and the one before it; without comments
	// lists: constants at the beginning of the list of IN become one tokList. Comments are
	// omitted.
	lists bool
}

// next returns the next token; ok is false at the end.
func (s *scanner) next() (t token, ok bool) {
	for {
		s.at = spaceEnd(s.src, s.at)
		if s.at == len(s.src) {
			return t, false
		}
		t = s.token()
		t.Span = Span{s.at, s.at + len(t.text)}
		s.at = t.Stop
		if t.typ != tokComment {
			s.before = [2]token{t, s.before[0]}
		} else if s.lists {
			continue
		}
		return t, true
	}
}

func (s *scanner) token() token {
	rest := s.src[s.at:]
	if n := indexEnd(rest); n > 0 && s.before[0].hasElements(s.at) {
		return token{typ: tokIndex, text: rest[:n]}
	}
	if s.lists && s.before[0].is("(") && s.before[1].is("IN") {
		if n, count := constants(rest, nil); count >= minList {
			return token{typ: tokList, text: rest[:n], count: count}
		}
	}
	t := next(rest)
	if tokInt <= t.typ && t.typ <= tokSize {
		// The smallest integer has no positive counterpart.
		t = checkNumber(t, s.before[0].is("-"))
	}
	return t
}

// spaceEnd returns the end of the white space at an offset.
func spaceEnd(src string, at int) int {
	return len(src) - len(strings.TrimLeftFunc(src[at:], unicode.IsSpace))
}

// scan returns all tokens of src, with comments.
func scan(src string) []token {
	tokens := make([]token, 0, len(src)/5+1)
	s := scanner{src: src}
	for t, ok := s.next(); ok; t, ok = s.next() {
		tokens = append(tokens, t)
	}
	return tokens
}

// hasElements reports whether a [ at an offset may be the index of an element of what the
// token names.
func (t *token) hasElements(at int) bool {
	return t.Stop == at && (t.typ == tokWord || t.typ == tokReserved || t.typ == tokQuoted || t.typ == tokIndex || t.is(")"))
}

// indexEnd returns the length of the index that s begins with: in square brackets digits, or
// an argument or result, args.i; 0: none.
func indexEnd(s string) int {
	if s[0] != '[' {
		return 0
	}
	n := 1 + digitsEnd(s[1:])
	if n == 1 {
		n += argumentEnd(s[1:])
	}
	if n == 1 || n == len(s) || s[n] != ']' {
		return 0
	}
	return n + 1
}

// argumentEnd returns the length of the name that s begins with if that is one of an argument
// or a result: args.req.count, arg1, retval.n; else 0.
func argumentEnd(s string) int {
	n := wordEnd(s)
	first := s[:n]
	for n < len(s) && s[n] == '.' {
		part := wordEnd(s[n+1:])
		if part == 0 {
			return 0
		}
		n += 1 + part
	}
	digits, raw := strings.CutPrefix(first, "arg")
	switch {
	case (first == "args" || first == "retval") && n > len(first):
	case raw && n == len(first) && digits != "" && digitsEnd(digits) == len(digits):
	default:
		return 0
	}
	return n
}

// next scans the token that s begins with.
func next(s string) token {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case strings.HasPrefix(s, "--"):
		n := strings.IndexByte(s, '\n')
		if n < 0 {
			n = len(s)
		}
		return token{typ: tokComment, text: s[:n]}
	case strings.HasPrefix(s, "/*"):
		n := strings.Index(s[2:], "*/")
		if n < 0 {
			return token{typ: tokInvalid, text: s, bad: &Error{Msg: "this comment is not closed", Hint: "end it with */"}, unclosed: true}
		}
		return token{typ: tokComment, text: s[:n+4]}
	case r == '\'':
		return quoted(s, tokString, "this string is not closed", "end it with '; a ' inside is written ''")
	case r == '"':
		t := quoted(s, tokQuoted, "this quoted name is not closed", `end it with "; strings are written in single quotes`)
		if t.text == `""` {
			return invalid(t.text, "a name cannot be empty", "strings are written in single quotes: ''")
		}
		return t
	case isDigit(s[0]), s[0] == '.' && len(s) > 1 && isDigit(s[1]):
		return numeric(s)
	case r == '$' && len(s) > 1 && isDigit(s[1]):
		return token{typ: tokParam, text: s[:1+digitsEnd(s[1:])]}
	case isWordStart(r):
		word := s[:wordEnd(s)]
		if isReserved(word) {
			return token{typ: tokReserved, text: word}
		}
		return token{typ: tokWord, text: word}
	}
	for _, op := range operators {
		if strings.HasPrefix(s, op) {
			return token{typ: tokOp, text: op}
		}
	}
	return unknown(s, r, size)
}

// operators and punctuation, longer ones before their prefixes.
var operators = []string{
	"...", "::", "=>", "||", "!=", "!~", "<>", "<=", ">=",
	"=", "<", ">", "+", "-", "*", "/", "%", "~", "(", ")", ",", ";", ".",
}

// quoted scans text between quotes, in which a doubled quote is a quote.
func quoted(s string, typ lexer.TokenType, msg, hint string) token {
	for at := 1; ; {
		n := strings.IndexByte(s[at:], s[0])
		if n < 0 {
			return token{typ: tokInvalid, text: s, bad: &Error{Msg: msg, Hint: hint}, unclosed: true}
		}
		at += n + 1
		if at == len(s) || s[at] != s[0] {
			return token{typ: typ, text: s[:at]}
		}
		at++
	}
}

// numeric scans a number with its unit or percent sign. A % directly after a number makes a
// percentage unless an operand follows directly: 70%, but 7%x is a modulo.
func numeric(s string) token {
	n := numberEnd(s)
	if unit := wordEnd(s[n:]); unit > 0 {
		_, kind, _ := findUnit(s[n : n+unit])
		if kind == LitSize {
			return token{typ: tokSize, text: s[:n+unit]}
		}
		return token{typ: tokDuration, text: s[:n+unit]}
	}
	if strings.HasPrefix(s[n:], "%") {
		r, _ := utf8.DecodeRuneInString(s[n+1:])
		if !isWordStart(r) && !unicode.IsDigit(r) && !strings.ContainsRune(`'"(`, r) {
			return token{typ: tokPercent, text: s[:n+1]}
		}
	}
	if strings.ContainsAny(s[:n], ".eE") && !isHexNumber(s[:n]) {
		return token{typ: tokFloat, text: s[:n]}
	}
	return token{typ: tokInt, text: s[:n]}
}

// checkNumber converts a number that has no value to a tokInvalid.
func checkNumber(t token, afterMinus bool) token {
	var l Literal
	err := l.parse(t.text)
	if err == nil {
		return t
	}
	if t.typ == tokInt && afterMinus && l.parse("-"+t.text) == nil {
		return t
	}
	t.typ, t.bad = tokInvalid, err
	return t
}

func digitsEnd(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

func wordEnd(s string) int {
	for i, r := range s {
		if i == 0 && !isWordStart(r) || !isWordPart(r) {
			return i
		}
	}
	return len(s)
}

func invalid(text, msg, hint string) token {
	return token{typ: tokInvalid, text: text, bad: &Error{Msg: msg, Hint: hint}}
}

// unknown returns the error of a character outside the language, with a hint of the
// intended one.
func unknown(s string, r rune, size int) token {
	text := s[:size]
	for _, foreign := range []struct{ text, hint string }{
		{"&&", "write AND"},
		{"!", "write NOT"},
		{"&", "write AND for a condition"},
		{"|", "write OR for a condition, || to join strings"},
		{"`", `names stand in double quotes: "name"`},
		{"[", `names stand in double quotes, "name"; an element of an array has a number, or an argument as its index: args.list[2], args.list[args.i]`},
		{"‘", "strings are written in straight single quotes: 'text'"},
		{"’", "strings are written in straight single quotes: 'text'"},
		{"“", `names stand in straight double quotes, strings in single ones: "name", 'text'`},
		{"”", `names stand in straight double quotes, strings in single ones: "name", 'text'`},
		{"…", "write three dots: ..."},
		{"≠", "write <>"}, {"≤", "write <="}, {"≥", "write >="},
		{"–", "write -"}, {"−", "write -"}, {"—", "write -, or -- for a comment"},
		{"#", "comments begin with --"},
		{"$", "parameters are $1, $2, ..."},
		{":", "a cast is written x::type, a named argument name => value"},
		{"?", "parameters are $1, $2, ..."},
	} {
		if strings.HasPrefix(s, foreign.text) {
			return invalid(foreign.text, foreign.text+" is not part of the language", foreign.hint)
		}
	}
	switch {
	case r == utf8.RuneError && size <= 1:
		return invalid(text, "the text is not valid UTF-8 here", "")
	case unicode.IsPrint(r):
		return invalid(text, text+" is not part of the language", "")
	}
	return invalid(text, "there is an invisible character here", "remove it")
}

// significant drops comments, and joins INTERVAL '1' MINUTE, INTERVAL 1 MINUTE and
// INTERVAL '1 minute' to one duration.
// It reuses the memory of all.
func significant(all []token) []token {
	tokens := all[:0]
	for _, t := range all {
		if t.typ == tokComment {
			continue
		}
		tokens = append(tokens, t)
		n := len(tokens)
		if n > 1 && t.typ == tokString && tokens[n-2].is("INTERVAL") {
			if l := intervalText(t.text); l != nil {
				whole := token{typ: tokDuration, text: l.Text, Span: Span{tokens[n-2].Start, t.Stop}}
				tokens = append(tokens[:n-2], whole)
			}
			continue
		}
		if n < 3 || t.typ != tokWord || !tokens[n-3].is("INTERVAL") {
			continue
		}
		if count := tokens[n-2].typ; count != tokString && count != tokInt && count != tokFloat {
			continue
		}
		l, err := interval(tokens[n-2].text, t.text)
		whole := token{typ: tokDuration, Span: Span{tokens[n-3].Start, t.Stop}}
		if err != nil {
			whole.typ, whole.bad = tokInvalid, err
		} else {
			whole.text = l.Text
		}
		tokens = append(tokens[:n-3], whole)
	}
	return tokens
}

// tokenStream passes tokens to the grammar. In the grammar's positions, Column counts
// tokens and Offset bytes.
type tokenStream struct {
	tokens []token
	end    int // minimum end of the last token
	next   int
}

func (s *tokenStream) Next() (lexer.Token, error) {
	if s.next == len(s.tokens) {
		return lexer.EOFToken(lexer.Position{Offset: s.end, Column: s.next}), nil
	}
	t := &s.tokens[s.next]
	pos := lexer.Position{Offset: t.Start, Line: t.Stop, Column: s.next}
	s.next++
	return lexer.Token{Type: t.typ, Value: t.text, Pos: pos}, nil
}

// tokenNames holds the grammar's names of the token types that it refers to.
type tokenNames struct{}

func (tokenNames) Symbols() map[string]lexer.TokenType {
	return map[string]lexer.TokenType{
		"EOF": lexer.EOF, "Word": tokWord, "Reserved": tokReserved, "Quoted": tokQuoted, "String": tokString,
		"Int": tokInt, "Index": tokIndex, "Duration": tokDuration, "Op": tokOp,
	}
}

func (tokenNames) Lex(_ string, r io.Reader) (lexer.Lexer, error) {
	src, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return &tokenStream{tokens: significant(scan(string(src))), end: len(src)}, nil
}
