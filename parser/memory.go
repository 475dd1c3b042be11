package parser

import (
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// Reads returns the outermost reads of memory in a text, in order.
func Reads(src string) (list []*Read) {
	if !strings.Contains(src, "'") || !containsFold(src, "CAST") && !containsFold(src, containerOf) {
		return nil
	}
	tokens := significant(scan(src))
	lex, err := lexer.Upgrade(&tokenStream{tokens: tokens, end: end(tokens)})
	if err != nil { // a tokenStream returns no errors
		return nil
	}
	for p := (exprParser{lex: lex}); !lex.Peek().EOF(); {
		here := lex.MakeCheckpoint()
		if p.wordThen("CAST") || p.wordThen(containerOf) {
			if x, err := p.primary(); err == nil {
				if m, ok := x.(*Read); ok {
					list = append(list, m)
					continue
				}
			}
		}
		lex.LoadCheckpoint(here) // there may be one within
		lex.Next()
	}
	return list
}

// containsFold reports whether a text contains a word of ASCII letters, in any case.
func containsFold(text, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == word[0]|0x20 && strings.EqualFold(text[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

const containerOf = "container_of"

// read parses the rest of CAST(x AS 'struct task *').name, from the type on.
func (p *exprParser) read(start int, at position, x Expr) (Expr, error) {
	m := &Read{X: x, Type: literalOf(p.take())}
	if err := p.want(")"); err != nil {
		return nil, err
	}
	return m, p.place(m, start, at)
}

// containerOf parses container_of(x, 'struct task', 'link').name.
func (p *exprParser) containerOf() (Expr, error) {
	start, at, x, err := p.firstOperand()
	if err != nil {
		return nil, err
	}
	m := &Read{X: x}
	for _, text := range []**Literal{&m.Type, &m.Member} {
		if err := p.want(","); err != nil {
			return nil, err
		}
		if p.lex.Peek().Type != tokString {
			return nil, unexpected(p.lex)
		}
		*text = literalOf(p.take())
	}
	if err := p.want(")"); err != nil {
		return nil, err
	}
	return m, p.place(m, start, at)
}

// place parses what follows m, separates a number that is added to its address, and
// checks the address.
func (p *exprParser) place(m *Read, start int, at position) error {
	first := &Ident{Span: Span{p.lex.Peek().Pos.Offset, 0}}
	if p.elements(first); first.Name != "" {
		m.Path = append(m.Path, first)
	}
	for p.accept(".") {
		part, err := p.part()
		if err != nil {
			return err
		}
		m.Path = append(m.Path, part)
	}
	m.Span = p.span(start)
	if sum, ok := m.X.(*Binary); ok && (sum.Op == "+" || sum.Op == "-") {
		if n, ok := sum.Y.(*Literal); ok && n.Kind == LitInt {
			if m.X, m.Add = sum.X, n.Int; sum.Op == "-" {
				m.Add = -n.Int
			}
		}
	}
	switch m.X.(type) {
	case *ColumnRef, *Read:
		return nil
	}
	return &syntaxError{pos: at, msg: "memory is read at an argument, a result, or memory read before, plus or minus a number of bytes",
		hint: "CAST(arg0 + 16 AS 'struct task *').name"}
}
