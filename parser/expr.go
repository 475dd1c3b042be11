package parser

import (
	"strings"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// exprParser parses expressions by precedence climbing.
type exprParser struct {
	lex   *lexer.PeekingLexer
	depth int
	stop  int  // end of the last token read
	signs int  // of depth: signs and NOT, which are no parentheses
	item  bool // an alias may follow the expression
}

// Parse implements participle.Parseable.
func (l *exprLeaf) Parse(lex *lexer.PeekingLexer) error { return l.parse(lex, false) }

// parse parses an expression, which an alias may follow if it is an item of SELECT.
func (l *exprLeaf) parse(lex *lexer.PeekingLexer, item bool) error {
	if !beginsExpr(lex.Peek()) {
		return participle.NextMatch
	}
	p := exprParser{lex: lex, item: item}
	x, err := p.expr(precLowest)
	if err != nil {
		return err
	}
	l.Expr = x
	return nil
}

// beginsExpr reports whether an expression may begin with a token.
func beginsExpr(t *lexer.Token) bool {
	switch t.Type {
	case tokWord, tokQuoted, tokString, tokInt, tokFloat, tokPercent, tokDuration, tokSize, tokParam:
		return true
	case tokOp:
		return t.Value == "(" || t.Value == "-" || t.Value == "+"
	case tokReserved:
		switch strings.ToUpper(t.Value) {
		case "NOT", "CASE", "NULL", "TRUE", "FALSE":
			return true
		}
	}
	return false
}

func (p *exprParser) take() *lexer.Token {
	t := p.lex.Next()
	p.stop = t.Pos.Line
	return t
}

func (p *exprParser) span(start int) Span { return Span{start, p.stop} }

// accept consumes a keyword, operator or punctuation if it is next.
func (p *exprParser) accept(text string) bool {
	if t := p.lex.Peek(); isKeyword(t, text) || isOp(t, text) {
		p.take()
		return true
	}
	return false
}

func (p *exprParser) want(text string) error {
	if !p.accept(text) {
		return unexpected(p.lex)
	}
	return nil
}

// wordThen reports whether this word, which is not reserved, and an opening parenthesis are
// next.
func (p *exprParser) wordThen(word string) bool {
	t := p.lex.Peek()
	if t.Type != tokWord || !strings.EqualFold(t.Value, word) {
		return false
	}
	here := p.lex.MakeCheckpoint()
	defer p.lex.LoadCheckpoint(here)
	p.lex.Next()
	return isOp(p.lex.Peek(), "(")
}

// expr parses an expression whose operators have at least the precedence least.
func (p *exprParser) expr(least int) (Expr, error) {
	start := p.lex.Peek().Pos.Offset
	x, err := p.operand(least)
	if err != nil {
		return nil, err
	}
	compared := false // x is a comparison without parentheses
	for {
		t := p.lex.Peek()
		prec := infixPrec(t)
		if prec == 0 || prec < least {
			return x, nil
		}
		if compared && prec >= precCompare {
			return nil, &syntaxError{pos: t.Pos, msg: "a comparison cannot be compared or computed with",
				hint: "join comparisons with AND, as in a < b AND b < c, or put one in parentheses"}
		}
		compared = prec == precCompare
		if x, err = p.infix(start, x, prec); err != nil {
			return nil, err
		}
	}
}

// infixPrec returns the precedence of the operator that a token begins, or 0.
func infixPrec(t *lexer.Token) int {
	switch t.Type {
	case tokOp:
		if t.Value == "!=" {
			return precCompare
		}
		return binaryPrec[t.Value]
	case tokReserved:
		switch word := strings.ToUpper(t.Value); word {
		case "NOT", "BETWEEN", "IN", "IS":
			return precCompare
		default:
			return binaryPrec[word]
		}
	}
	return 0
}

// infix parses an operator after x and its right operand.
func (p *exprParser) infix(start int, x Expr, prec int) (Expr, error) {
	if prec == precCompare && p.lex.Peek().Type == tokReserved {
		return p.predicate(start, x)
	}
	op := p.take()
	y, err := p.expr(prec + 1)
	if err != nil {
		return nil, err
	}
	return &Binary{Span: p.span(start), Op: canonicalOp(op.Value), OpPos: spanOf(op), X: x, Y: y}, nil
}

func canonicalOp(op string) string {
	if op == "!=" {
		return "<>"
	}
	return strings.ToUpper(op)
}

// predicate parses IS, and [NOT] IN, BETWEEN, LIKE, ILIKE.
func (p *exprParser) predicate(start int, x Expr) (Expr, error) {
	opStart := p.lex.Peek().Pos.Offset
	if p.accept("IS") {
		not := p.accept("NOT")
		if err := p.want("NULL"); err != nil {
			return nil, err
		}
		return &IsNull{Span: p.span(start), Not: not, X: x}, nil
	}
	not := p.accept("NOT")
	switch {
	case p.accept("IN"):
		return p.in(start, x, not)
	case p.accept("BETWEEN"):
		lo, err := p.expr(precConcat)
		if err != nil {
			return nil, err
		}
		if err := p.want("AND"); err != nil {
			return nil, err
		}
		hi, err := p.expr(precConcat)
		if err != nil {
			return nil, err
		}
		return &Between{Span: p.span(start), Not: not, X: x, Lo: lo, Hi: hi}, nil
	}
	op := p.lex.Peek()
	if !isKeyword(op, "LIKE") && !isKeyword(op, "ILIKE") {
		return nil, unexpected(p.lex)
	}
	name := canonicalOp(p.take().Value)
	if not {
		name = "NOT " + name
	}
	pos := p.span(opStart)
	y, err := p.expr(precConcat)
	if err != nil {
		return nil, err
	}
	return &Binary{Span: p.span(start), Op: name, OpPos: pos, X: x, Y: y}, nil
}

// in parses the list of IN. A "..." at the end of a list, which stands for omitted names,
// is dropped.
func (p *exprParser) in(start int, x Expr, not bool) (Expr, error) {
	if err := p.want("("); err != nil {
		return nil, err
	}
	in := &In{Not: not, X: x}
	for {
		if p.lex.Peek().Type == tokList {
			in.List = p.constants() // they begin the list
		} else {
			e, err := p.expr(precLowest)
			if err != nil {
				return nil, err
			}
			in.List = append(in.List, e)
		}
		if !p.accept(",") {
			break
		}
		if p.accept("...") {
			break
		}
	}
	if err := p.want(")"); err != nil {
		return nil, err
	}
	in.Span = p.span(start)
	return in, nil
}

// constants parses a tokList.
func (p *exprParser) constants() []Expr {
	t := p.take()
	_, n := constants(t.Value, nil)
	all := make([]Literal, 0, n)
	constants(t.Value, func(typ lexer.TokenType, text string, at int) {
		l := Literal{}
		l.of(typ, text)
		l.Span = Span{t.Pos.Offset + at, t.Pos.Offset + at + len(text)}
		all = append(all, l)
	})
	list := make([]Expr, n)
	for i := range all {
		list[i] = &all[i]
	}
	return list
}

// operand parses an operand of an operator.
func (p *exprParser) operand(least int) (Expr, error) {
	t := p.lex.Peek()
	start := t.Pos.Offset
	if p.depth++; p.depth > maxNesting {
		return nil, tooDeep(t.Pos)
	}
	defer func() { p.depth-- }()
	switch {
	case isKeyword(t, "NOT"):
		if least > precNot {
			return nil, &syntaxError{pos: t.Pos, msg: "NOT needs parentheses after an operator", hint: "(NOT ...)"}
		}
		p.take()
		x, err := p.signed(precNot)
		if err != nil {
			return nil, err
		}
		return &Unary{Span: p.span(start), Op: "NOT", X: x}, nil
	case isOp(t, "-"), isOp(t, "+"):
		p.take()
		if l, err := p.smallest(start, t); l != nil || err != nil {
			return l, err
		}
		x, err := p.signed(precUnary)
		if err != nil {
			return nil, err
		}
		return &Unary{Span: p.span(start), Op: t.Value, X: x}, nil
	}
	x, err := p.primary()
	if err != nil {
		return nil, err
	}
	for casts := 1; isOp(p.lex.Peek(), "::"); casts++ {
		p.take()
		if p.depth+casts > maxNesting {
			return nil, tooDeep(t.Pos)
		}
		if !isName(p.lex.Peek()) {
			return nil, unexpected(p.lex)
		}
		typ := identOf(p.take())
		x = &Cast{Span: p.span(start), X: x, Type: typ}
	}
	return x, nil
}

// signed parses the operand of a sign or of NOT.
func (p *exprParser) signed(least int) (Expr, error) {
	p.signs++
	defer func() { p.signs-- }()
	return p.expr(least)
}

// smallest parses the digits of the smallest integer after its sign: without the sign they
// are out of range.
func (p *exprParser) smallest(start int, sign *lexer.Token) (Expr, error) {
	t := p.lex.Peek()
	if digits := literalOf(t); t.Type != tokInt || digits != nil && (digits.Kind != LitUnsigned || sign.Value != "-") {
		return nil, nil
	}
	l, err := number(sign.Value + t.Value)
	if err != nil || sign.Value != "-" {
		return nil, &syntaxError{pos: t.Pos, msg: t.Value + " is too large a number"}
	}
	p.take()
	l.Span = p.span(start)
	return l, nil
}
