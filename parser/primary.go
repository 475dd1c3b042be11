package parser

import (
	"strconv"
	"strings"
)

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
