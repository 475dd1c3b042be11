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
func (e *Host) String() string  { return HostColumn }

func (e *Call) String() string {
	switch {
	case infix[e.Fn] && len(e.Args) == 2:
		return operand(e.Args[0]) + " " + e.Fn + " " + operand(e.Args[1])
	case e.Fn == "not":
		return "not " + operand(e.Args[0])
	case e.Fn == "neg":
		return "-" + operand(e.Args[0])
	case e.Fn == "is null":
		return operand(e.Args[0]) + " is null"
	}
	return e.Fn + "(" + joinExprs(e.Args) + ")"
}

func operand(e Expr) string {
	if c, ok := e.(*Call); ok && (infix[c.Fn] || c.Fn == "not" || c.Fn == "is null") {
		return "(" + e.String() + ")"
	}
	if _, ok := e.(*In); ok {
		return "(" + e.String() + ")"
	}
	return e.String()
}

func joinExprs(es []Expr) string {
	ss := make([]string, len(es))
	for i, e := range es {
		ss[i] = e.String()
	}
	return strings.Join(ss, ", ")
}

func (e *In) String() string {
	ss := make([]string, len(e.List))
	for i := range e.List {
		ss[i] = e.List[i].String()
	}
	return operand(e.X) + " in (" + strings.Join(ss, ", ") + ")"
}

func (e *Case) String() string {
	var b strings.Builder
	b.WriteString("case")
	for _, w := range e.Whens {
		fmt.Fprintf(&b, " when %s then %s", w.Cond, w.Then)
	}
	if e.Else != nil {
		fmt.Fprintf(&b, " else %s", e.Else)
	}
	return b.String() + " end"
}

func (e *Cast) String() string { return operand(e.X) + "::" + strings.ToLower(e.T.String()) }

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
	case types.Bigint:
		return strconv.FormatInt(v.I, 10)
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
