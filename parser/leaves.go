package parser

import (
	"strings"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

type position = lexer.Position

// Leaves of the grammar: names, literals and what needs two tokens of lookahead. Each
// parses nodes of the tree from the tokens directly.
type (
	nameLeaf       struct{ *Ident } // a name, perhaps with dots: sys.queries
	wordLeaf       struct{ *Ident } // the name of something being defined
	bareLeaf       struct{ *Ident } // an alias without AS
	wholeLeaf      struct{ *Literal }
	durationLeaf   struct{ *Literal }
	percentLeaf    struct{ *Literal }
	stringLeaf     struct{ *Literal }
	literalLeaf    struct{ *Literal } // an argument of a source
	valueLeaf      struct{ *Literal } // of SET: a literal or a word
	exprLeaf       struct{ Expr }
	itemLeaf       struct{ SelectItem } // without its alias
	followedByLeaf struct{ *FollowedBy }
	describeLeaf   struct {
		function bool
		name     *Ident
	}
	dropLeaf struct {
		ifExists bool
		name     *Ident
	}
)

func spanOf(t *lexer.Token) Span { return Span{t.Pos.Offset, t.Pos.Line} }

func isName(t *lexer.Token) bool { return t.Type == tokWord || t.Type == tokQuoted }

func isOp(t *lexer.Token, op string) bool { return t.Type == tokOp && t.Value == op }

func isKeyword(t *lexer.Token, word string) bool {
	return (t.Type == tokWord || t.Type == tokReserved) && strings.EqualFold(t.Value, word)
}

// identOf returns the name of a token.
func identOf(t *lexer.Token) *Ident {
	if t.Type == tokQuoted {
		return &Ident{Span: spanOf(t), Name: strings.ReplaceAll(t.Value[1:len(t.Value)-1], `""`, `"`), Quoted: true}
	}
	return &Ident{Span: spanOf(t), Name: t.Value}
}

// literalOf returns the constant of a token, or nil.
func literalOf(t *lexer.Token) *Literal {
	l := &Literal{}
	if !l.of(t.Type, t.Value) {
		return nil
	}
	l.Span = spanOf(t)
	return l
}

// of sets the literal to the constant of a token. It reports false for other tokens.
func (l *Literal) of(typ lexer.TokenType, text string) bool {
	switch typ {
	case tokInt, tokFloat, tokPercent, tokSize:
		return l.parse(text) == nil
	case tokDuration:
		digits, ok := strings.CutPrefix(text, "INTERVAL ")
		if !ok {
			return l.parse(text) == nil
		}
		var i *Literal
		if strings.HasSuffix(digits, "'") {
			i = intervalText(digits)
		} else {
			cut := strings.LastIndexByte(digits, ' ')
			i, _ = interval(digits[:cut], digits[cut+1:])
		}
		if i == nil {
			return false
		}
		*l = *i
		return true
	case tokString:
		*l = Literal{Kind: LitString, Text: text, Str: unquoteString(text)}
		return true
	case tokReserved:
		switch strings.ToUpper(text) {
		case "NULL":
			*l = Literal{Kind: LitNull, Text: "NULL"}
			return true
		case "TRUE":
			*l = Literal{Kind: LitBool, Text: "TRUE", Int: 1}
			return true
		case "FALSE":
			*l = Literal{Kind: LitBool, Text: "FALSE"}
			return true
		}
	}
	return false
}

// takeLiteral parses a literal of one token type.
func takeLiteral(lex *lexer.PeekingLexer, typ lexer.TokenType) (*Literal, error) {
	if lex.Peek().Type != typ {
		return nil, participle.NextMatch
	}
	l := literalOf(lex.Peek())
	if l == nil || l.Kind == LitUnsigned { // valid only in expressions
		return nil, &syntaxError{pos: lex.Peek().Pos, msg: lex.Peek().Value + " is too large a number"}
	}
	lex.Next()
	return l, nil
}

func (l *wholeLeaf) Parse(lex *lexer.PeekingLexer) (err error) {
	l.Literal, err = takeLiteral(lex, tokInt)
	return err
}

// spaced parses a duration whose unit is a word of its own, as in 5 seconds. It returns nil
// if there is none.
func spaced(lex *lexer.PeekingLexer) (*Literal, error) {
	n := *lex.Peek()
	if n.Type != tokInt && n.Type != tokFloat || isHexNumber(n.Value) {
		return nil, nil
	}
	here := lex.MakeCheckpoint()
	lex.Next()
	unit := lex.Peek()
	if unit.Type != tokWord || !isUnitWord(unit.Value) {
		lex.LoadCheckpoint(here)
		return nil, nil
	}
	l, err := number(n.Value + nearestUnit(unit.Value))
	if err != nil {
		return nil, &syntaxError{pos: n.Pos, msg: err.Msg, hint: err.Hint}
	}
	l.Span = Span{n.Pos.Offset, unit.Pos.Line}
	lex.Next()
	return l, nil
}

func (l *durationLeaf) Parse(lex *lexer.PeekingLexer) (err error) {
	if l.Literal, err = spaced(lex); l.Literal != nil || err != nil {
		return err
	}
	l.Literal, err = takeLiteral(lex, tokDuration)
	return err
}

func (l *percentLeaf) Parse(lex *lexer.PeekingLexer) (err error) {
	l.Literal, err = takeLiteral(lex, tokPercent)
	return err
}

func (l *stringLeaf) Parse(lex *lexer.PeekingLexer) (err error) {
	l.Literal, err = takeLiteral(lex, tokString)
	return err
}

func (l *literalLeaf) Parse(lex *lexer.PeekingLexer) (err error) {
	if l.Literal, err = spaced(lex); l.Literal != nil || err != nil {
		return err
	}
	switch typ := lex.Peek().Type; typ {
	case tokInt, tokDuration, tokString:
		l.Literal, err = takeLiteral(lex, typ)
		return err
	}
	return participle.NextMatch
}

func (l *valueLeaf) Parse(lex *lexer.PeekingLexer) error {
	t := lex.Peek()
	start := t.Pos
	if isOp(t, "-") {
		lex.Next()
		if t = lex.Peek(); t.Type < tokInt || t.Type > tokSize || strings.HasPrefix(t.Value, "INTERVAL") {
			return unexpected(lex)
		}
		l.Literal, _ = number("-" + t.Value)
	} else if spaced, err := spaced(lex); spaced != nil || err != nil {
		l.Literal = spaced
		return err
	} else if l.Literal = literalOf(t); l.Literal == nil && (t.Type == tokWord || t.Type == tokReserved) {
		l.Literal = &Literal{Kind: LitString, Text: t.Value, Str: t.Value}
	}
	switch {
	case l.Literal == nil && t.Type == tokInt:
		return &syntaxError{pos: t.Pos, msg: t.Value + " is too large a number"}
	case l.Literal == nil:
		return participle.NextMatch
	}
	l.Span = Span{start.Offset, t.Pos.Line}
	lex.Next()
	return nil
}

// dotted parses a name, possibly with dots, or returns nil.
func dotted(lex *lexer.PeekingLexer) (*Ident, error) {
	if !isName(lex.Peek()) {
		return nil, nil
	}
	name := identOf(lex.Next())
	parts := []string{name.Name}
	for isOp(lex.Peek(), ".") {
		lex.Next()
		t := lex.Peek()
		if !isName(t) && t.Type != tokReserved {
			return nil, unexpected(lex)
		}
		part := identOf(lex.Next())
		parts = append(parts, part.Name)
		name.Quoted = name.Quoted || part.Quoted
		name.Stop = part.Stop
	}
	name.Name = strings.Join(parts, ".")
	return name, nil
}

func (l *nameLeaf) Parse(lex *lexer.PeekingLexer) (err error) {
	l.Ident, err = dotted(lex)
	if l.Ident == nil && err == nil {
		return participle.NextMatch
	}
	return err
}

func (l *wordLeaf) Parse(lex *lexer.PeekingLexer) error {
	if !isName(lex.Peek()) {
		return participle.NextMatch
	}
	l.Ident = identOf(lex.Next())
	return nil
}

func (l *bareLeaf) Parse(lex *lexer.PeekingLexer) error {
	t := lex.Peek()
	if !isName(t) || t.Type == tokWord && notAlias[strings.ToUpper(t.Value)] {
		return participle.NextMatch
	}
	l.Ident = identOf(lex.Next())
	return nil
}

// Parse implements participle.Parseable. FOLLOWED distinguishes the two names from other
// text after a window.
func (l *followedByLeaf) Parse(lex *lexer.PeekingLexer) error {
	start := lex.MakeCheckpoint()
	first, err := dotted(lex)
	if err != nil || first == nil || !isKeyword(lex.Peek(), "FOLLOWED") {
		lex.LoadCheckpoint(start)
		return participle.NextMatch
	}
	lex.Next()
	if !isKeyword(lex.Peek(), "BY") {
		return unexpected(lex)
	}
	lex.Next()
	second, err := dotted(lex)
	if err != nil {
		return err
	}
	if second == nil {
		return unexpected(lex)
	}
	l.FollowedBy = &FollowedBy{Span: Span{first.Start, second.Stop}, First: first, Second: second}
	return nil
}

func (l *describeLeaf) Parse(lex *lexer.PeekingLexer) (err error) {
	word := isKeyword(lex.Peek(), "FUNCTION")
	if l.name, err = dotted(lex); err != nil {
		return err
	}
	if l.name == nil {
		return participle.NextMatch
	}
	if word && isName(lex.Peek()) {
		l.function = true
		l.name, err = dotted(lex)
	}
	return err
}

// Parse implements participle.Parseable. IF is a keyword only before EXISTS, since a stream
// may have that name.
func (l *dropLeaf) Parse(lex *lexer.PeekingLexer) (err error) {
	word := isKeyword(lex.Peek(), "IF")
	if l.name, err = dotted(lex); err != nil {
		return err
	}
	if l.name == nil {
		return participle.NextMatch
	}
	if !word || !isKeyword(lex.Peek(), "EXISTS") {
		return nil
	}
	lex.Next()
	l.ifExists = true
	if l.name, err = dotted(lex); err == nil && l.name == nil {
		return unexpected(lex)
	}
	return err
}

func (l *itemLeaf) Parse(lex *lexer.PeekingLexer) error {
	t := lex.Peek()
	if isOp(t, "*") {
		lex.Next()
		l.SelectItem = SelectItem{Span: spanOf(t), Star: true}
		return nil
	}
	if isName(t) {
		start := lex.MakeCheckpoint()
		qualifier := identOf(lex.Next())
		if isOp(lex.Peek(), ".") {
			lex.Next()
			if star := lex.Peek(); isOp(star, "*") {
				lex.Next()
				l.SelectItem = SelectItem{Span: Span{qualifier.Start, spanOf(star).Stop}, Star: true, Qualifier: qualifier}
				return nil
			}
		}
		lex.LoadCheckpoint(start)
	}
	var x exprLeaf
	if err := x.parse(lex, true); err != nil {
		return err
	}
	l.SelectItem = SelectItem{Span: x.Pos(), X: x.Expr}
	return nil
}
