package expr

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// cast compiles a conversion. Types of one physical layout differ in name only; numbers
// convert by value, DOUBLE to other types rounded half away from zero; text is parsed and
// yields NULL if it is not a value of the type.
func (c *compiler) cast(e *plan.Cast) (node, error) {
	x, err := c.expr(e.X)
	if err != nil {
		return nil, err
	}
	from, to := e.X.Type(), e.T
	if from == to {
		return x, nil
	}
	if from == types.Null {
		return newConst(types.NullOf(to)), nil
	}
	if v, ok := constant(x); ok && v.IsNull {
		return newConst(types.NullOf(to)), nil
	}
	switch {
	case to == types.Varchar && from != types.Bytes:
		return newRowNode(to, []node{x}, func(o *output, args []*batch.Column, i int) error {
			o.buf = appendText(o.buf[:0], args[0], i)
			o.setBytes(i, o.buf)
			return nil
		}), nil
	case from == types.Varchar && to != types.Bytes:
		return parseText(e, x)
	}
	switch pair := [2]types.Physical{from.Physical(), to.Physical()}; {
	case pair == [2]types.Physical{types.PhysCode, types.PhysCode}:
		return &renamed{x: x, out: batch.Column{Type: to}}, nil
	case pair == intInt && from.Unsigned() != to.Unsigned():
		return newMap(e, x, func(x int64) (int64, outcome) {
			if x < 0 { // it is negative, or above the largest BIGINT
				return 0, outOfRange
			}
			return x, valid
		}), nil
	case pair == intInt:
		return newVector(to, x, copyVector[int64]), nil
	case pair == intFloat && from.Unsigned():
		return newVector(to, x, func(out []float64, x []uint64, r rows) {
			r.each(func(i int) { out[i] = float64(x[i]) })
		}), nil
	case pair == intFloat:
		return newVector(to, x, func(out []float64, x []int64, r rows) {
			r.each(func(i int) { out[i] = float64(x[i]) })
		}), nil
	case pair == floatInt && to.Unsigned():
		return newMap(e, x, roundToUint), nil
	case pair == floatInt:
		return newMap(e, x, roundToInt), nil
	case from == types.Boolean && (to == types.Bigint || to == types.Ubigint):
		return newVector(to, x, func(out []int64, x []bool, r rows) {
			r.each(func(i int) { out[i] = int64(boolInt(x[i])) })
		}), nil
	case (from == types.Bigint || from == types.Ubigint) && to == types.Boolean:
		return newVector(to, x, func(out []bool, x []int64, r rows) {
			r.each(func(i int) { out[i] = x[i] != 0 })
		}), nil
	}
	return nil, refuse(e.X, "%s cannot be converted to %s: it is %s", e.X, to, from)
}

// renamed reads VARCHAR as BYTES or the reverse: same codes, same dictionary.
type renamed struct {
	x   node
	out batch.Column
}

func (n *renamed) eval(f *frame, r rows) (*batch.Column, error) {
	x, err := n.x.eval(f, r)
	if err != nil {
		return nil, err
	}
	o := &n.out
	o.Code = append(o.Code[:0], x.Code[:r.n]...)
	o.Nulls = append(o.Nulls[:0], x.Nulls...)
	o.Dict, o.Values = x.Dict, x.Values
	return o, nil
}

// appendText appends row i of c, which is not NULL, as results print it.
func appendText(b []byte, c *batch.Column, i int) []byte {
	switch c.Type {
	case types.Boolean:
		return strconv.AppendBool(b, c.Bool[i])
	case types.Bigint, types.Ubigint:
		return c.Type.AppendInt(b, c.Int[i])
	case types.Double:
		return strconv.AppendFloat(b, c.Float[i], 'g', -1, 64)
	case types.Timestamp:
		return time.Unix(0, c.Int[i]).UTC().AppendFormat(b, time.RFC3339Nano)
	}
	return appendValue(b, c.Value(i))
}

// appendValue appends a value; a list is [a, b], with NULL for NULL.
func appendValue(b []byte, v types.Value) []byte {
	if v.IsNull {
		return append(b, "NULL"...)
	}
	switch v.Type {
	case types.Varchar, types.Bytes:
		return append(b, v.S...)
	case types.Timestamp:
		return time.Unix(0, v.I).UTC().AppendFormat(b, time.RFC3339Nano)
	case types.List:
		b = append(b, '[')
		list, _ := v.A.([]types.Value)
		for i, x := range list {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendValue(b, x)
		}
		return append(b, ']')
	case types.Encoding:
		return fmt.Append(b, v.A)
	}
	return append(b, plan.FormatValue(v)...)
}

// parseText compiles the conversion of text; surrounding spaces are ignored.
func parseText(e *plan.Cast, x node) (node, error) {
	var parse func(o *output, i int, s string) bool
	switch e.T {
	case types.Bigint:
		parse = func(o *output, i int, s string) bool {
			v, err := strconv.ParseInt(s, 10, 64)
			o.col.Int[i] = v
			return err == nil
		}
	case types.Ubigint:
		parse = func(o *output, i int, s string) bool {
			v, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, 64)
			o.col.Int[i] = int64(v)
			return err == nil
		}
	case types.Double:
		parse = func(o *output, i int, s string) bool {
			v, err := strconv.ParseFloat(s, 64)
			o.col.Float[i] = v
			return err == nil
		}
	case types.Boolean:
		parse = func(o *output, i int, s string) (ok bool) {
			o.col.Bool[i], ok = parseBool(s)
			return ok
		}
	case types.Timestamp:
		parse = func(o *output, i int, s string) (ok bool) {
			o.col.Int[i], ok = parseTime(s)
			return ok
		}
	case types.Duration:
		parse = func(o *output, i int, s string) (ok bool) {
			o.col.Int[i], ok = parseDuration(s)
			return ok
		}
	default:
		return nil, refuse(e.X, "%s cannot be converted to %s: it is %s", e.X, e.T, e.X.Type())
	}
	return newRowNode(e.T, []node{x}, func(o *output, args []*batch.Column, i int) error {
		if !parse(o, i, strings.TrimSpace(text(args[0], i))) {
			o.setNull(i)
		}
		return nil
	}), nil
}

func parseBool(s string) (v, ok bool) {
	switch strings.ToLower(s) {
	case "true", "t", "yes", "on", "1":
		return true, true
	case "false", "f", "no", "off", "0":
		return false, true
	}
	return false, false
}
