package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"endoscope/planner/types"
)

// infix functions print between their operands; every nested one is parenthesised, so that
// the text needs no table of precedences.
var infix = map[string]bool{
	"and": true, "or": true, "=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true,
	"+": true, "-": true, "*": true, "/": true, "%": true, "||": true, "like": true, "ilike": true, "~": true,
}

func (e *Col) String() string   { return e.Name }
func (e *Const) String() string { return FormatValue(e.V) }
func (e *Host) String() string {
	if e.Label != "" {
		return HostLabel + "(" + FormatValue(types.Str(e.Label)) + ")"
	}
	return HostColumn
}

func (e *Call) String() string { return text(e) }
func (e *In) String() string   { return text(e) }
func (e *Case) String() string { return text(e) }
func (e *Cast) String() string { return text(e) }

// text prints an expression into one buffer: printing each operand by itself would copy a
// chain of operators once for each of them.
func text(e Expr) string {
	var b strings.Builder
	write(&b, e)
	return b.String()
}

func write(b *strings.Builder, e Expr) {
	switch e := e.(type) {
	case *Call:
		switch {
		case infix[e.Fn] && len(e.Args) == 2:
			writeOperand(b, e.Args[0])
			b.WriteString(" " + e.Fn + " ")
			writeOperand(b, e.Args[1])
		case e.Fn == "not":
			b.WriteString("not ")
			writeOperand(b, e.Args[0])
		case e.Fn == "neg":
			b.WriteByte('-')
			writeOperand(b, e.Args[0])
		case e.Fn == "is null":
			writeOperand(b, e.Args[0])
			b.WriteString(" is null")
		default:
			name, field, isField := strings.Cut(e.Fn, ".")
			b.WriteString(name + "(")
			writeList(b, e.Args)
			if b.WriteByte(')'); isField {
				b.WriteString("." + field)
			}
		}
	case *In:
		writeOperand(b, e.X)
		b.WriteString(" in (")
		for i := range e.List {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(FormatValue(e.List[i].V))
		}
		b.WriteByte(')')
	case *Case:
		b.WriteString("case")
		for _, w := range e.Whens {
			b.WriteString(" when ")
			write(b, w.Cond)
			b.WriteString(" then ")
			write(b, w.Then)
		}
		if e.Else != nil {
			b.WriteString(" else ")
			write(b, e.Else)
		}
		b.WriteString(" end")
	case *Cast:
		writeOperand(b, e.X)
		b.WriteString("::" + strings.ToLower(e.T.String()))
	default:
		b.WriteString(e.String())
	}
}

func writeOperand(b *strings.Builder, e Expr) {
	nested := false
	switch e := e.(type) {
	case *Call:
		nested = infix[e.Fn] || e.Fn == "not" || e.Fn == "is null"
	case *In:
		nested = true
	}
	if !nested {
		write(b, e)
		return
	}
	b.WriteByte('(')
	write(b, e)
	b.WriteByte(')')
}

func writeList(b *strings.Builder, es []Expr) {
	for i, e := range es {
		if i > 0 {
			b.WriteString(", ")
		}
		write(b, e)
	}
}

func joinExprs(es []Expr) string {
	var b strings.Builder
	writeList(&b, es)
	return b.String()
}

func joinAggs(as []Agg) string {
	ss := make([]string, len(as))
	for i := range as {
		ss[i] = as[i].String()
	}
	return strings.Join(ss, ", ")
}

// String returns the aggregate as the user would write it.
func (a *Agg) String() string {
	var b strings.Builder
	b.WriteString(a.Fn + "(")
	if a.Distinct {
		b.WriteString("distinct ")
	}
	if a.Star {
		b.WriteString("*")
	}
	for i, x := range a.Args[:len(a.Args)-a.Implied] {
		if i > 0 {
			b.WriteString(", ")
		}
		if a.ArgNames != nil && a.ArgNames[i] != "" {
			b.WriteString(a.ArgNames[i] + " => ")
		}
		b.WriteString(x.String())
	}
	for i, p := range a.Params {
		if i > 0 || len(a.Args) > 0 {
			b.WriteString(", ")
		}
		b.WriteString(FormatValue(p))
	}
	for _, o := range a.Options {
		if o.Implied {
			continue
		}
		b.WriteString(", ")
		if !o.ByPosition {
			b.WriteString(o.Name + " => ")
		}
		b.WriteString(o.Text)
	}
	b.WriteString(")")
	if a.Filter != nil {
		fmt.Fprintf(&b, " filter (where %s)", a.Filter)
	}
	return b.String()
}

// FormatValue formats a value as a literal of the language.
func FormatValue(v types.Value) string {
	if v.IsNull {
		return "null"
	}
	switch v.Type {
	case types.Boolean:
		return strconv.FormatBool(v.I != 0)
	case types.Bigint, types.Ubigint:
		return string(v.Type.AppendInt(nil, v.I))
	case types.Double:
		return strconv.FormatFloat(v.F, 'g', -1, 64)
	case types.Duration:
		return FormatDuration(v.I)
	case types.Timestamp:
		return "'" + time.Unix(0, v.I).UTC().Format(time.RFC3339Nano) + "'"
	case types.Varchar, types.Bytes:
		return "'" + strings.ReplaceAll(v.S, "'", "''") + "'"
	}
	return fmt.Sprint(v.A)
}

// FormatDuration formats ns in the largest unit of the language in which it is a whole
// number: 1500000 is 1500us.
func FormatDuration(ns int64) string {
	for _, u := range []struct {
		n int64
		s string
	}{{24 * 3600 * 1e9, "d"}, {3600 * 1e9, "h"}, {60 * 1e9, "min"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}} {
		if ns != 0 && ns%u.n == 0 {
			return strconv.FormatInt(ns/u.n, 10) + u.s
		}
	}
	return strconv.FormatInt(ns, 10) + "ns"
}
