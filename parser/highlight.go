package parser

import "strings"

// TokenKind is the kind of a token, for colouring.
type TokenKind uint8

// Kinds of token.
const (
	TokenName TokenKind = iota
	TokenKeyword
	TokenFunction // a name before an opening parenthesis
	TokenString
	TokenNumber // with its unit or percent sign
	TokenParam
	TokenOperator // punctuation too
	TokenComment
	TokenInvalid // an invalid token: an unterminated string, an unknown character
)

// Token is a piece of text with its kind.
type Token struct {
	Span
	Kind TokenKind
}

// Highlight splits src into tokens for colouring, in order; only white space lies between
// them. It accepts any text.
func Highlight(src string) []Token {
	all := scan(src)
	tokens := make([]Token, len(all))
	before := &endToken // the last that is not a comment; endToken: start of a statement
	for i := range all {
		t := &all[i]
		tokens[i] = Token{t.Span, kindOf(t, before, i+1 < len(all) && all[i+1].is("("))}
		switch {
		case t.typ == tokComment:
		case t.is(";"):
			before = &endToken
		default:
			before = t
		}
	}
	return tokens
}

func kindOf(t, before *token, call bool) TokenKind {
	switch t.typ {
	case tokReserved:
		if before.is(".") {
			return TokenName
		}
		return TokenKeyword
	case tokWord:
		switch {
		case before.is("."):
			return TokenName
		case isContextual(t, before):
			return TokenKeyword
		case call:
			return TokenFunction
		}
		return TokenName
	case tokString:
		return TokenString
	case tokInt, tokFloat, tokPercent, tokDuration, tokSize, tokIndex:
		return TokenNumber
	case tokParam:
		return TokenParam
	case tokOp:
		return TokenOperator
	case tokComment:
		return TokenComment
	case tokInvalid:
		return TokenInvalid
	}
	return TokenName // tokQuoted
}

// isContextual reports whether an unreserved word is a keyword after the token before it.
func isContextual(t, before *token) bool {
	if before.is("SHOW") {
		return true
	}
	places, ok := contextual[strings.ToUpper(t.text)]
	switch {
	case !ok:
		return false
	case places == "*":
		return !before.is(",") && !before.is("SELECT")
	case places == "":
		return before == &endToken || before.is("BEGIN") || before.is(";")
	}
	for _, place := range strings.Fields(places) {
		if before.is(place) || place == "'" && before.typ == tokString {
			return true
		}
	}
	return false
}
