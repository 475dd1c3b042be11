package parser

import (
	"strconv"
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

// primary parses an operand without signs and casts.
func (p *exprParser) primary() (Expr, error) {
	t := p.lex.Peek()
	start := t.Pos.Offset
	if l, err := p.spaced(); l != nil || err != nil {
		return l, err
	}
	if l := literalOf(t); l != nil {
		p.take()
		return l, nil
	}
	switch {
	case t.Type == tokInt:
		return nil, &syntaxError{pos: t.Pos, msg: t.Value + " is too large a number"}
	case t.Type == tokParam:
		n, err := strconv.Atoi(t.Value[1:])
		if err != nil || n < 1 || n > maxParam {
			return nil, &syntaxError{pos: t.Pos, msg: shorten(t.Value) + " is not a parameter", hint: "parameters are $1, $2, ... $" + strconv.Itoa(maxParam)}
		}
		p.take()
		return &Param{Span: p.span(start), N: n}, nil
	case isOp(t, "("):
		p.take()
		x, err := p.expr(precLowest)
		if err != nil {
			return nil, err
		}
		return x, p.want(")")
	case isKeyword(t, "CASE"):
		return p.caseWhen()
	case p.wordThen("CAST"):
		return p.cast()
	case p.wordThen(containerOf):
		return p.containerOf()
	case isName(t):
		return p.columnOrCall()
	}
	return nil, unexpected(p.lex)
}

// spaced parses 5 seconds. At the end of an item of SELECT, the word is the item's alias.
func (p *exprParser) spaced() (Expr, error) {
	here := p.lex.MakeCheckpoint()
	l, err := spaced(p.lex)
	if l == nil || err != nil {
		return nil, err
	}
	if next := p.lex.Peek(); p.item && p.depth-p.signs == 1 && infixPrec(next) == 0 && !isKeyword(next, "AS") && !isOp(next, "::") {
		p.lex.LoadCheckpoint(here)
		return nil, nil
	}
	p.stop = l.Stop
	return l, nil
}

// maxParam is the largest n of $n.
const maxParam = 65535

// columnOrCall parses column, alias.column, args.a[1].b or name(arguments).
func (p *exprParser) columnOrCall() (Expr, error) {
	first := identOf(p.take())
	if isOp(p.lex.Peek(), "(") {
		return p.call(first)
	}
	p.elements(first)
	ref := &ColumnRef{Parts: []*Ident{first}}
	for p.accept(".") {
		part, err := p.part()
		if err != nil {
			return nil, err
		}
		ref.Parts = append(ref.Parts, part)
	}
	ref.Span = p.span(first.Start)
	return ref, nil
}

// part parses a name after a dot, where nothing is reserved: args.end.
func (p *exprParser) part() (*Ident, error) {
	if t := p.lex.Peek(); !isName(t) && t.Type != tokReserved {
		return nil, unexpected(p.lex)
	}
	part := identOf(p.take())
	p.elements(part)
	return part, nil
}

// elements appends the indices of elements to a name: list[2].
func (p *exprParser) elements(name *Ident) {
	var indices []string
	for p.lex.Peek().Type == tokIndex {
		t := p.take()
		indices = append(indices, t.Value)
		name.Stop = t.Pos.Line
	}
	if len(indices) > 0 {
		name.Name += strings.Join(indices, "")
	}
}

func (p *exprParser) call(name *Ident) (Expr, error) {
	c := &Call{Name: name}
	p.take()
	if p.accept("*") {
		c.Star = true
	} else if !isOp(p.lex.Peek(), ")") {
		c.Distinct = p.accept("DISTINCT")
		for {
			a, err := p.arg()
			if err != nil {
				return nil, err
			}
			c.Args = append(c.Args, a)
			if !p.accept(",") {
				break
			}
		}
	}
	if err := p.want(")"); err != nil {
		return nil, err
	}
	if isKeyword(p.lex.Peek(), "WITHIN") {
		if err := p.withinGroup(c); err != nil {
			return nil, err
		}
	}
	if p.wordThen("FILTER") {
		p.take()
		p.take()
		if err := p.want("WHERE"); err != nil {
			return nil, err
		}
		x, err := p.expr(precLowest)
		if err != nil {
			return nil, err
		}
		if err := p.want(")"); err != nil {
			return nil, err
		}
		c.Filter = x
	}
	if p.accept(".") {
		if !isName(p.lex.Peek()) {
			return nil, unexpected(p.lex)
		}
		c.Field = identOf(p.take())
	}
	c.Span = p.span(name.Start)
	return c, nil
}

// withinGroup parses WITHIN GROUP (ORDER BY x [ASC|DESC]).
func (p *exprParser) withinGroup(c *Call) error {
	p.take()
	for _, text := range []string{"GROUP", "(", "ORDER", "BY"} {
		if !p.accept(text) {
			return &syntaxError{pos: p.lex.Peek().Pos, msg: "after a function, WITHIN begins WITHIN GROUP (ORDER BY x)",
				hint: c.Name.String() + "(...) WITHIN GROUP (ORDER BY duration)"}
		}
	}
	start := p.lex.Peek().Pos.Offset
	x, err := p.expr(precLowest)
	if err != nil {
		return err
	}
	c.Within = &OrderItem{X: x}
	if c.Within.Desc = p.accept("DESC"); !c.Within.Desc {
		p.accept("ASC")
	}
	c.Within.Span = p.span(start)
	return p.want(")")
}

// arg parses one argument, optionally name => value.
func (p *exprParser) arg() (*Arg, error) {
	a := &Arg{}
	start := p.lex.Peek().Pos.Offset
	if isName(p.lex.Peek()) {
		here, stop := p.lex.MakeCheckpoint(), p.stop
		name := identOf(p.take())
		if p.accept("=>") {
			a.Name = name
		} else {
			p.lex.LoadCheckpoint(here)
			p.stop = stop
		}
	}
	x, err := p.expr(precLowest)
	if err != nil {
		return nil, err
	}
	a.X, a.Span = x, p.span(start)
	return a, nil
}

func (p *exprParser) caseWhen() (Expr, error) {
	start := p.take().Pos.Offset
	c := &Case{}
	var err error
	if !isKeyword(p.lex.Peek(), "WHEN") {
		if c.X, err = p.expr(precLowest); err != nil {
			return nil, err
		}
	}
	for {
		w := &When{}
		armStart := p.lex.Peek().Pos.Offset
		if err := p.want("WHEN"); err != nil {
			return nil, err
		}
		if w.Cond, err = p.expr(precLowest); err != nil {
			return nil, err
		}
		if err := p.want("THEN"); err != nil {
			return nil, err
		}
		if w.Then, err = p.expr(precLowest); err != nil {
			return nil, err
		}
		w.Span = p.span(armStart)
		c.Whens = append(c.Whens, w)
		if !isKeyword(p.lex.Peek(), "WHEN") {
			break
		}
	}
	if p.accept("ELSE") {
		if c.Else, err = p.expr(precLowest); err != nil {
			return nil, err
		}
	}
	if err := p.want("END"); err != nil {
		return nil, err
	}
	c.Span = p.span(start)
	return c, nil
}

// firstOperand parses a word, a parenthesis and an expression: where the word begins, where
// the expression does, and the expression.
func (p *exprParser) firstOperand() (start int, at position, x Expr, err error) {
	start = p.take().Pos.Offset
	p.take()
	at = p.lex.Peek().Pos
	x, err = p.expr(precLowest)
	return start, at, x, err
}

func (p *exprParser) cast() (Expr, error) {
	start, at, x, err := p.firstOperand()
	if err != nil {
		return nil, err
	}
	if err := p.want("AS"); err != nil {
		return nil, err
	}
	if p.lex.Peek().Type == tokString {
		return p.read(start, at, x)
	}
	if !isName(p.lex.Peek()) {
		return nil, unexpected(p.lex)
	}
	typ := identOf(p.take())
	if err := p.want(")"); err != nil {
		return nil, err
	}
	return &Cast{Span: p.span(start), X: x, Type: typ}, nil
}
