package graph

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// csvHeader is the first line of a CSV file.
func csvHeader(names []string) []byte {
	var buf []byte
	for i, n := range names {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = appendCSVText(buf, n)
	}
	return append(buf, '\n')
}

// appendCSV writes a row in the format of RFC 4180, except that lines end in LF, which
// every reader accepts and grep needs. NULL is empty and the empty text is "", except that
// a NULL alone in its row is "" too: readers skip empty lines.
func appendCSV(buf []byte, b *batch.Batch, row int) []byte {
	for i := range b.Cols {
		if i > 0 {
			buf = append(buf, ',')
		}
		v := b.Cols[i].Value(row)
		switch {
		case v.IsNull && len(b.Cols) == 1:
			buf = append(buf, `""`...)
		case v.IsNull:
		case v.Type == types.Varchar:
			buf = appendCSVText(buf, v.S)
		case v.Type == types.List || v.Type == types.Encoding:
			buf = appendCSVText(buf, string(appendText(nil, v)))
		default:
			buf = appendText(buf, v)
		}
	}
	return append(buf, '\n')
}

func appendCSVText(buf []byte, s string) []byte {
	if s != "" && !strings.ContainsAny(s, ",\"\r\n") && s[0] != ' ' && s[len(s)-1] != ' ' {
		return append(buf, s...)
	}
	buf = append(buf, '"')
	for i := 0; i < len(s); i++ {
		if s[i] == '"' {
			buf = append(buf, '"')
		}
		buf = append(buf, s[i])
	}
	return append(buf, '"')
}

// jsonRows returns a function that writes a row as one JSON object on a line.
func jsonRows(names []string) func([]byte, *batch.Batch, int) []byte {
	object := JSON(names)
	return func(buf []byte, b *batch.Batch, row int) []byte { return append(object(buf, b, row), '\n') }
}

// JSON returns a function that appends a row of a batch as one JSON object, with keys in
// the order of the columns; there are as many columns as names.
func JSON(names []string) func(buf []byte, b *batch.Batch, row int) []byte {
	keys := make([][]byte, len(names))
	for i, n := range names {
		if i > 0 {
			keys[i] = append(keys[i], ',')
		}
		keys[i] = append(appendJSONText(keys[i], n), ':')
	}
	return func(buf []byte, b *batch.Batch, row int) []byte {
		buf = append(buf, '{')
		for i := range keys {
			buf = append(buf, keys[i]...)
			buf = appendJSON(buf, b.Cols[i].Value(row))
		}
		return append(buf, '}')
	}
}

// appendJSON writes a value. Numbers that JSON cannot represent (NaN, infinity) become
// strings.
func appendJSON(buf []byte, v types.Value) []byte {
	switch {
	case v.IsNull:
		return append(buf, "null"...)
	case v.Type == types.Double && (math.IsNaN(v.F) || math.IsInf(v.F, 0)):
	case v.Type == types.Boolean, v.Type == types.Bigint, v.Type == types.Ubigint, v.Type == types.Duration, v.Type == types.Double:
		return appendText(buf, v)
	case v.Type == types.List:
		vs, _ := v.A.([]types.Value)
		buf = append(buf, '[')
		for i := range vs {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = appendJSON(buf, vs[i])
		}
		return append(buf, ']')
	case v.Type == types.Varchar:
		return appendJSONText(buf, v.S)
	case v.Type == types.Encoding:
		return appendJSONText(buf, fmt.Sprint(v.A))
	}
	buf = append(buf, '"')
	buf = appendText(buf, v) // needs no escaping
	return append(buf, '"')
}

// appendText writes a value that is not NULL as plain text: durations in ns, times in UTC
// as in RFC 3339, bytes in hexadecimal.
func appendText(buf []byte, v types.Value) []byte {
	switch v.Type {
	case types.Boolean:
		return strconv.AppendBool(buf, v.I != 0)
	case types.Bigint, types.Ubigint, types.Duration:
		return v.Type.AppendInt(buf, v.I)
	case types.Double:
		return strconv.AppendFloat(buf, v.F, 'g', -1, 64)
	case types.Timestamp:
		return time.Unix(0, v.I).UTC().AppendFormat(buf, types.TimeFormat)
	case types.Varchar:
		return append(buf, v.S...)
	case types.Bytes:
		return hex.AppendEncode(buf, []byte(v.S))
	case types.List:
		return appendJSON(buf, v)
	}
	return fmt.Append(buf, v.A)
}

// appendJSONText writes a JSON string. Bytes that are not UTF-8 become U+FFFD, because a
// reader would reject them.
func appendJSONText(buf []byte, s string) []byte {
	buf = append(buf, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			buf = append(buf, '\\', byte(r))
		case r == '\n':
			buf = append(buf, `\n`...)
		case r == '\r':
			buf = append(buf, `\r`...)
		case r == '\t':
			buf = append(buf, `\t`...)
		case r < ' ' || r == '\u2028' || r == '\u2029':
			buf = fmt.Appendf(buf, `\u%04x`, r)
		default:
			buf = utf8.AppendRune(buf, r)
		}
	}
	return append(buf, '"')
}
