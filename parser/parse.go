package parser

import (
	"errors"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// Parse parses one statement, with or without a final semicolon. Its error is an *Error
// with a position in src.
func Parse(src string) (Statement, error) {
	tokens, err := tokenize(src)
	if err != nil {
		return nil, err
	}
	pieces := cut(tokens)
	if len(pieces) == 0 {
		return nil, syntax(src, &Error{Msg: "there is no statement", Hint: "for example: SHOW STREAMS", Pos: Span{len(src), len(src)}})
	}
	s, err := parsePiece(src, pieces[0])
	if err != nil {
		return nil, err
	}
	if len(pieces) > 1 {
		return nil, syntax(src, &Error{Msg: "one statement is expected here, and this begins a second", Pos: pieces[1][0].Span})
	}
	return s, nil
}

// syntax completes an error of the parser.
func syntax(src string, e *Error) *Error {
	e.Src, e.Syntax = src, true
	return e
}

// tokenize returns the tokens of a text, or an error if it cannot be parsed at all.
func tokenize(src string) ([]token, error) {
	count, _, wrong := measure(src)
	if wrong != nil {
		return nil, syntax(src, wrong)
	}
	for i, r := range src {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(src[i:]); size == 1 {
				return nil, syntax(src, &Error{Msg: "the text is not valid UTF-8 here", Pos: Span{i, i + 1}})
			}
		}
	}
	tokens := make([]token, 0, count)
	s := scanner{src: src, lists: true}
	for t, ok := s.next(); ok; t, ok = s.next() {
		tokens = append(tokens, t)
	}
	return significant(tokens), nil
}

// parsePiece parses one statement from its tokens.
func parsePiece(src string, tokens []token) (Statement, error) {
	rule, wrong := recognise(tokens)
	if wrong != nil {
		return nil, syntax(src, diagnose(tokens, wrong))
	}
	l := lowering{tokens: tokens}
	s := l.statement(rule)
	if l.err != nil {
		return nil, syntax(src, l.err)
	}
	return s, nil
}

// syntaxError is returned for a token that is not possible at its position. Handwritten
// parsers may set the message; otherwise diagnose does.
type syntaxError struct {
	pos       position
	msg, hint string
}

func (e *syntaxError) Error() string { return e.msg }

// Message implements participle.Error.
func (e *syntaxError) Message() string { return e.msg }

// Position implements participle.Error.
func (e *syntaxError) Position() position { return e.pos }

// unexpected returns the error that the next token is not possible here.
func unexpected(lex *lexer.PeekingLexer) error { return &syntaxError{pos: lex.Peek().Pos} }

// recognise runs the grammar over the tokens of one statement. Column in a syntaxError's
// position is the index of the wrong token, len(tokens) for the end.
func recognise(tokens []token) (*statementRule, *syntaxError) {
	lex, err := lexer.Upgrade(&tokenStream{tokens: tokens, end: end(tokens)})
	if err != nil { // a tokenStream returns no errors
		return nil, &syntaxError{msg: err.Error()}
	}
	rule, err := grammar.ParseFromLexer(lex)
	if err == nil {
		return rule, nil
	}
	var own *syntaxError
	if errors.As(err, &own) {
		return nil, own
	}
	var placed participle.Error
	if errors.As(err, &placed) {
		return nil, &syntaxError{pos: placed.Position()}
	}
	return nil, &syntaxError{}
}

// end returns the end of the last token.
func end(tokens []token) int {
	if len(tokens) == 0 {
		return 0
	}
	return tokens[len(tokens)-1].Stop
}
