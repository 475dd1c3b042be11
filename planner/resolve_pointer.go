package planner

import (
	"strconv"
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// pointerReaders are the functions that read at a pointer when a call begins or returns.
var pointerReaders = map[string]bool{"str": true, "hex": true, "symbol": true}

// readsPointer reports whether a call is that of a pointer reader: hex(p, n) is the bytes at
// p, hex(x) the text of a number. If that is an argument, it may be one of those that BIGINT
// does not have.
func readsPointer(name string, e *parser.Call) bool {
	if !pointerReaders[name] {
		return false
	}
	if name != "hex" || len(e.Args) != 1 {
		return true
	}
	ref, ok := e.Args[0].X.(*parser.ColumnRef)
	if !ok {
		return false
	}
	var parts []string
	for _, p := range ref.Parts {
		parts = append(parts, p.Name)
	}
	v, ok := beginOf(parts)
	return ok && isNumberToWrite(v.name)
}

// isNumberToWrite reports whether hex(x) of a value is acquired.
func isNumberToWrite(name string) bool {
	return strings.HasPrefix(name, "args.") || isPartOfResult(name)
}

// readBy makes v what a pointer reader makes of it: str(arg0, 64) of arg0.
func (v *namedValue) readBy(reader, limit string) {
	v.name, v.t = reader+"("+v.name, types.Varchar
	if limit != "" {
		v.name += ", " + limit
	}
	v.name += ")"
}

// maxText is the largest limit of a text, in bytes.
const maxText = 4096

// usages are how the pointer readers are written.
var usages = map[string]string{
	"str":    "str(arg0), str(arg0, 64), str(args.name), str(retval)",
	"hex":    "hex(arg0, 16), hex(args.name, 16), hex(retval, 16); hex(x) is the text of a number",
	"symbol": "symbol(arg0), symbol(args.name), symbol(retval)",
}

// pointerReader resolves str(arg0), str(args.p, 64), hex(arg0, 16), symbol(arg0): they read
// when the call begins or returns, so they are acquired, not computed.
func (c *exprCtx) pointerReader(name string, e *parser.Call) (plan.Expr, error) {
	usage, most := usages[name], 2
	if name == "symbol" {
		most = 1
	}
	switch {
	case len(e.Args) == 0 || len(e.Args) > most:
		takes := map[string]string{"str": "a pointer and an optional number of bytes", "hex": "a number, or a pointer and a number of bytes", "symbol": "a pointer"}
		return nil, c.r.hintf(e.Pos(), usage, "%s takes %s", name, takes[name])
	}
	limit := ""
	if len(e.Args) == 2 {
		l, ok := e.Args[1].X.(*parser.Literal)
		if !ok || l.Kind != parser.LitInt && l.Kind != parser.LitSize || l.Int < 1 || l.Int > maxText {
			what := "a text has"
			if name == "hex" {
				what = "hex reads"
			}
			return nil, c.r.errorf(e.Args[1].X.Pos(), "%s from 1 to %d bytes", what, maxText)
		}
		limit = strconv.FormatInt(l.Int, 10)
	}
	var v namedValue
	ok := false
	x := e.Args[0].X
	switch x := x.(type) {
	case *parser.ColumnRef:
		var parts []string
		for _, p := range x.Parts {
			parts = append(parts, p.Name)
		}
		v, ok = beginOf(parts)
	case *parser.Read:
		v, ok = readOf(x)
	default:
		return nil, c.r.hintf(x.Pos(), usage, "%s reads the program's memory when a call begins, at an argument, not at a computed value", name)
	}
	v.readBy(name, limit)
	i, n := -1, 0
	if ok {
		i, n = c.in.column(v.qualifier, v.name)
	}
	switch {
	case n > 1:
		return nil, c.r.errorf(x.Pos(), "%s is in more than one source: write which, as in alias.%s", x, x)
	case n == 0:
		return nil, c.r.hintf(x.Pos(), usage, "%s reads arguments and results of function streams: there are none here", name)
	}
	f := c.in.fields()[i]
	var col plan.Expr = &plan.Col{Index: i, Name: f.Name, T: f.Type}
	if c.agg != nil {
		return c.agg.column(col, f.Name, e.Pos())
	}
	return col, nil
}
