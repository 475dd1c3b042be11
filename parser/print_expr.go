package parser

import (
	"math"
	"strconv"
	"strings"
)

// Precedence, lowest first. Comparisons (=, IN, IS NULL, ...) share a level and do not
// chain.
const (
	precLowest = iota
	precOr
	precAnd
	precNot
	precCompare
	precConcat
	precAdd
	precMul
	precUnary
	precPrimary
)

// binaryPrec is the precedence of each operator of [Binary].
var binaryPrec = map[string]int{
	"OR": precOr, "AND": precAnd,
	"=": precCompare, "<>": precCompare, "<": precCompare, "<=": precCompare, ">": precCompare, ">=": precCompare,
	"LIKE": precCompare, "NOT LIKE": precCompare, "ILIKE": precCompare, "NOT ILIKE": precCompare,
	"~": precCompare, "!~": precCompare,
	"||": precConcat,
	"+":  precAdd, "-": precAdd,
	"*": precMul, "/": precMul, "%": precMul,
}

func precOf(x Expr) int {
	switch x := x.(type) {
	case *Binary:
		return binaryPrec[x.Op]
	case *Unary:
		if x.Op == "NOT" {
			return precNot
		}
		return precUnary
	case *Between, *In, *IsNull:
		return precCompare
	}
	return precPrimary
}

// expr writes x, in parentheses if its precedence is below least.
func (p *printer) expr(x Expr, least int) {
	if precOf(x) < least {
		p.put("(")
		defer p.put(")")
	}
	switch x := x.(type) {
	case *ColumnRef:
		p.columnRef(x)
	case *Literal:
		p.literal(x)
	case *Param:
		p.put("$", strconv.Itoa(x.N))
	case *Unary:
		p.unary(x)
	case *Binary:
		p.binary(x)
	case *Between:
		p.expr(x.X, precConcat)
		p.not(x.Not)
		p.put(" BETWEEN ")
		p.expr(x.Lo, precConcat)
		p.put(" AND ")
		p.expr(x.Hi, precConcat)
	case *In:
		p.expr(x.X, precConcat)
		p.not(x.Not)
		p.put(" IN (")
		p.exprs(x.List)
		p.put(")")
	case *IsNull:
		p.expr(x.X, precConcat)
		p.put(" IS")
		p.not(x.Not)
		p.put(" NULL")
	case *Case:
		p.caseWhen(x)
	case *Cast:
		p.put("CAST(")
		p.expr(x.X, precLowest)
		p.put(" AS ")
		p.ident(x.Type)
		p.put(")")
	case *Read:
		p.read(x)
	case *Call:
		p.call(x)
	}
}

func (p *printer) read(m *Read) {
	if m.Member == nil {
		p.put("CAST(")
	} else {
		p.put("container_of(")
	}
	p.expr(m.X, precLowest)
	switch {
	case m.Add > 0, m.Add == math.MinInt64: // whose digits alone are out of range
		p.put(" + ", strconv.FormatInt(m.Add, 10))
	case m.Add < 0:
		p.put(" - ", strconv.FormatInt(-m.Add, 10))
	}
	if m.Member == nil {
		p.put(" AS ")
		p.expr(m.Type, precLowest)
	} else {
		p.put(", ")
		p.exprs([]Expr{m.Type, m.Member})
	}
	p.put(")")
	for _, part := range m.Path {
		p.part(part)
	}
}

func (p *printer) not(not bool) {
	if not {
		p.put(" NOT")
	}
}

func (p *printer) exprs(xs []Expr) {
	p.list(len(xs), ", ", func(i int) { p.expr(xs[i], precLowest) })
}

func (p *printer) columnRef(c *ColumnRef) {
	for i, part := range c.Parts {
		bare := withoutIndices(part.Name)
		switch {
		case i == 0 && (part.Quoted || len(bare) == len(part.Name) || reserved[strings.ToUpper(bare)]):
			p.ident(part)
		case i == 0:
			p.put(part.Name)
		default:
			p.part(part)
		}
	}
}

// part prints a name after a dot, where no word is reserved: args.end.
func (p *printer) part(part *Ident) {
	switch bare := withoutIndices(part.Name); {
	case bare == "" && !part.Quoted:
		p.put(part.Name) // [2] after a parenthesis
	case part.Quoted || !isWord(bare):
		p.put(".")
		p.quoted(part.Name)
	default:
		p.put(".", part.Name)
	}
}

// withoutIndices returns a name without the indices after it.
func withoutIndices(name string) string {
	at := strings.IndexByte(name, '[')
	if at < 0 {
		return name
	}
	for rest := name[at:]; rest != ""; {
		n := indexEnd(rest)
		if n == 0 {
			return name
		}
		rest = rest[n:]
	}
	return name[:at]
}

func (p *printer) unary(x *Unary) {
	if x.Op == "NOT" {
		p.put("NOT ")
		p.expr(x.X, precNot)
		return
	}
	operand := text(func(p *printer) { p.expr(x.X, precUnary) })
	p.put(x.Op)
	if operand[0] == '-' || operand[0] == '+' { // two minus signs would begin a comment
		p.put(" ")
	}
	p.put(operand)
}

// binary writes left-deep chains such as a AND b AND c in a loop: they may have thousands
// of operators.
func (p *printer) binary(x *Binary) {
	prec := precOf(x)
	left := prec
	if prec == precCompare {
		left++
	}
	chain := []*Binary{x}
	for prec != precCompare {
		y, ok := chain[len(chain)-1].X.(*Binary)
		if !ok || precOf(y) != prec {
			break
		}
		chain = append(chain, y)
	}
	p.expr(chain[len(chain)-1].X, left)
	for i := len(chain) - 1; i >= 0; i-- {
		p.put(" ", chain[i].Op, " ")
		p.expr(chain[i].Y, prec+1)
	}
}

func (p *printer) caseWhen(x *Case) {
	p.put("CASE")
	p.where(" ", x.X)
	for _, w := range x.Whens {
		p.put(" WHEN ")
		p.expr(w.Cond, precLowest)
		p.put(" THEN ")
		p.expr(w.Then, precLowest)
	}
	p.where(" ELSE ", x.Else)
	p.put(" END")
}

func (p *printer) call(c *Call) {
	p.ident(c.Name)
	p.put("(")
	if c.Star {
		p.put("*")
	}
	if c.Distinct {
		p.put("DISTINCT ")
	}
	p.list(len(c.Args), ", ", func(i int) {
		if n := c.Args[i].Name; n != nil {
			p.ident(n)
			p.put(" => ")
		}
		p.expr(c.Args[i].X, precLowest)
	})
	p.put(")")
	if c.Within != nil {
		p.put(" WITHIN GROUP (ORDER BY ")
		p.orderItem(c.Within)
		p.put(")")
	}
	if c.Filter != nil {
		p.put(" FILTER (WHERE ")
		p.expr(c.Filter, precLowest)
		p.put(")")
	}
	if c.Field != nil {
		p.put(".")
		p.ident(c.Field)
	}
}

func exprText(x Expr) string { return text(func(p *printer) { p.expr(x, precLowest) }) }

// String prints the column in canonical form.
func (x *ColumnRef) String() string { return exprText(x) }

// String prints the parameter in canonical form.
func (x *Param) String() string { return exprText(x) }

// String prints the expression in canonical form.
func (x *Unary) String() string { return exprText(x) }

// String prints the expression in canonical form.
func (x *Binary) String() string { return exprText(x) }

// String prints the expression in canonical form.
func (x *Between) String() string { return exprText(x) }

// String prints the expression in canonical form.
func (x *In) String() string { return exprText(x) }

// String prints the expression in canonical form.
func (x *IsNull) String() string { return exprText(x) }

// String prints the expression in canonical form.
func (x *Case) String() string { return exprText(x) }

// String prints the expression in canonical form.
func (x *Cast) String() string { return exprText(x) }

// String prints the expression in canonical form.
func (x *Read) String() string { return exprText(x) }

// String prints the call in canonical form.
func (x *Call) String() string { return exprText(x) }
