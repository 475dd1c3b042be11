package render

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// clock formats timestamps. Rows arrive in order of time, so the date and second are
// formatted once and reused.
type clock struct {
	sec  int64
	text []byte // "2006-01-02T15:04:05" of sec
}

// append writes ns since the epoch as RFC 3339 in UTC with the given number of
// decimals (6 or 9).
func (c *clock) append(dst []byte, ns int64, decimals int) []byte {
	sec, frac := ns/1e9, ns%1e9
	if frac < 0 {
		sec, frac = sec-1, frac+1e9
	}
	if sec != c.sec || c.text == nil {
		c.sec = sec
		c.text = time.Unix(sec, 0).UTC().AppendFormat(c.text[:0], "2006-01-02T15:04:05")
	}
	dst = append(dst, c.text...)
	dst = append(dst, '.')
	for i := decimals; i < 9; i++ {
		frac /= 10
	}
	n := len(dst)
	dst = append(dst, "000000000"[:decimals]...)
	for i := n + decimals - 1; i >= n; i-- {
		dst[i] = byte('0' + frac%10)
		frac /= 10
	}
	return append(dst, 'Z')
}

// appendFloat writes the shortest text that parses to f.
func appendFloat(dst []byte, f float64) []byte {
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// appendJSON writes row i of a column as a JSON value.
func (c *clock) appendJSON(dst []byte, col *batch.Column, i int) []byte {
	if col.Nulls.Get(i) {
		return append(dst, "null"...)
	}
	switch col.Type.Physical() {
	case types.PhysInt:
		if col.Type != types.Timestamp {
			return col.Type.AppendInt(dst, col.Int[i])
		}
		dst = c.append(append(dst, '"'), col.Int[i], 9)
		return append(dst, '"')
	case types.PhysBool:
		return strconv.AppendBool(dst, col.Bool[i])
	case types.PhysFloat:
		return appendJSONFloat(dst, col.Float[i])
	case types.PhysCode:
		s := col.Values[col.Code[i]]
		if col.Type == types.Bytes {
			return append(appendHex(append(dst, `"\`...), s), '"')
		}
		return appendJSONString(dst, s)
	}
	return c.appendJSONValue(dst, col.Value(i))
}

// appendJSONValue is appendJSON for a single value: an element of a list.
func (c *clock) appendJSONValue(dst []byte, v types.Value) []byte {
	if v.IsNull {
		return append(dst, "null"...)
	}
	switch v.Type {
	case types.Boolean:
		return strconv.AppendBool(dst, v.I != 0)
	case types.Bigint, types.Ubigint, types.Duration:
		return v.Type.AppendInt(dst, v.I)
	case types.Timestamp:
		return append(c.append(append(dst, '"'), v.I, 9), '"')
	case types.Double:
		return appendJSONFloat(dst, v.F)
	case types.Varchar:
		return appendJSONString(dst, v.S)
	case types.Bytes:
		return append(appendHex(append(dst, `"\`...), v.S), '"')
	case types.List:
		vs, _ := v.A.([]types.Value)
		dst = append(dst, '[')
		for i, e := range vs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = c.appendJSONValue(dst, e)
		}
		return append(dst, ']')
	case types.Encoding:
		if m, ok := v.A.(json.Marshaler); ok {
			if text, err := m.MarshalJSON(); err == nil {
				return append(dst, text...)
			}
		}
		return appendJSONString(dst, encodingText(v))
	}
	return append(dst, "null"...)
}

// appendJSONFloat is appendFloat with null for values that JSON cannot represent.
func appendJSONFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	return appendFloat(dst, f)
}

const hexDigits = "0123456789abcdef"

// appendJSONString quotes s. Invalid UTF-8 becomes U+FFFD, since JSON cannot
// represent it. DEL and the C1 controls are escaped although JSON permits them: some
// terminals interpret U+009B as ESC [.
func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= ' ' && b < 0x7f && b != '"' && b != '\\' {
			i++
			continue
		}
		r, n := rune(b), 1
		if b >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[i:])
			if (r != utf8.RuneError || n > 1) && r > 0x9f {
				i += n
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, "\ufffd"...)
		case r == '"' || r == '\\':
			dst = append(dst, '\\', b)
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[r>>4], hexDigits[r&15])
		}
		i += n
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// appendHex writes bytes as PostgreSQL does: \x and two digits for each.
func appendHex(dst []byte, s string) []byte {
	dst = append(dst, `\x`...)
	return hex.AppendEncode(dst, []byte(s))
}

func encodingText(v types.Value) string {
	if s, ok := v.A.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}
