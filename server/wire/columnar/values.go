package columnar

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"endoscope/planner/types"
)

// EncodeValues encodes the values of parameters.
func EncodeValues(vs []types.Value) []byte {
	var out []byte
	for _, v := range vs {
		out = appendExact(out, v)
	}
	return out
}

// DecodeValues decodes the output of EncodeValues.
func DecodeValues(src []byte) (vs []types.Value, err error) {
	for len(src) > 0 {
		var v types.Value
		if v, src, err = readExact(src, 0); err != nil {
			return nil, err
		}
		vs = append(vs, v)
	}
	return vs, nil
}

// appendExact appends a lossless encoding of a value of a LIST or ENCODING column: a
// byte for its type, and its content.
func appendExact(dst []byte, v types.Value) []byte {
	if v.IsNull {
		return append(dst, byte(types.Null), byte(v.Type))
	}
	dst = append(dst, byte(v.Type))
	switch v.Type {
	case types.Boolean, types.Bigint, types.Ubigint, types.Timestamp, types.Duration:
		return binary.AppendVarint(dst, v.I)
	case types.Double:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.F))
	case types.Varchar, types.Bytes:
		return appendBytes(dst, v.S)
	case types.List:
		vs, _ := v.A.([]types.Value)
		dst = binary.AppendUvarint(dst, uint64(len(vs)))
		for _, e := range vs {
			dst = appendExact(dst, e)
		}
		return dst
	case types.Encoding:
		return appendBytes(appendBytes(dst, encodingText(v.A)), encodingJSON(v.A))
	}
	return dst
}

func appendBytes(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

var errValue = errors.New("a value is malformed")

// maxNesting is the maximum depth of nested lists.
const maxNesting = 64

// readExact decodes a value written by appendExact and returns the remaining bytes.
func readExact(src []byte, depth int) (types.Value, []byte, error) {
	if len(src) == 0 || depth > maxNesting {
		return types.Value{}, nil, errValue
	}
	v := types.Value{Type: types.Type(src[0])}
	src = src[1:]
	switch v.Type {
	case types.Null:
		if len(src) == 0 {
			return v, nil, errValue
		}
		return types.NullOf(types.Type(src[0])), src[1:], nil
	case types.Boolean, types.Bigint, types.Ubigint, types.Timestamp, types.Duration:
		i, n := binary.Varint(src)
		if n <= 0 {
			return v, nil, errValue
		}
		v.I = i
		return v, src[n:], nil
	case types.Double:
		if len(src) < 8 {
			return v, nil, errValue
		}
		v.F = math.Float64frombits(binary.LittleEndian.Uint64(src))
		return v, src[8:], nil
	case types.Varchar, types.Bytes:
		text, rest, err := readBytes(src)
		v.S = string(text)
		return v, rest, err
	case types.List:
		n, size := binary.Uvarint(src)
		if src = src[max(size, 0):]; size <= 0 || n > uint64(len(src)) {
			return v, nil, errValue
		}
		vs := make([]types.Value, n)
		var err error
		for i := range vs {
			if vs[i], src, err = readExact(src, depth+1); err != nil {
				return v, nil, err
			}
		}
		v.A = vs
		return v, src, nil
	case types.Encoding:
		text, rest, err := readBytes(src)
		if err != nil {
			return v, nil, err
		}
		structure, rest, err := readBytes(rest)
		v.A = &encoded{text: string(text), json: append([]byte(nil), structure...)}
		return v, rest, err
	}
	return v, nil, errValue
}

func readBytes(src []byte) (text, rest []byte, err error) {
	n, size := binary.Uvarint(src)
	if size <= 0 || n > uint64(len(src)-size) {
		return nil, nil, errValue
	}
	src = src[size:]
	return src[:n], src[n:], nil
}

// encoded is an encoding at a client: only its representations.
type encoded struct {
	text string
	json []byte // nil: it has none
}

func (e *encoded) String() string { return e.text }

// MarshalJSON returns the JSON that the original encoding produced.
func (e *encoded) MarshalJSON() ([]byte, error) {
	if e.json == nil {
		return json.Marshal(e.text)
	}
	return e.json, nil
}

func encodingText(a any) string {
	if s, ok := a.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

func encodingJSON(a any) string {
	if m, ok := a.(json.Marshaler); ok {
		if text, err := m.MarshalJSON(); err == nil {
			return string(text)
		}
	}
	return ""
}

// appendText appends the text of a value of a LIST or ENCODING column for clients
// that support neither: JSON of a list, the text of an encoding.
func appendText(dst []byte, v types.Value) []byte {
	if v.Type == types.Encoding {
		return append(dst, encodingText(v.A)...)
	}
	return appendJSON(dst, v)
}

func appendJSON(dst []byte, v types.Value) []byte {
	var of any
	switch {
	case v.IsNull:
	case v.Type == types.Boolean:
		of = v.I != 0
	case v.Type == types.Bigint, v.Type == types.Duration:
		of = v.I
	case v.Type == types.Ubigint:
		of = uint64(v.I)
	case v.Type == types.Timestamp:
		of = time.Unix(0, v.I).UTC()
	case v.Type == types.Double && !math.IsNaN(v.F) && !math.IsInf(v.F, 0):
		of = v.F
	case v.Type == types.Varchar:
		of = v.S
	case v.Type == types.Bytes:
		of = `\x` + hex.EncodeToString([]byte(v.S))
	case v.Type == types.Encoding:
		of = encodingText(v.A)
	case v.Type == types.List:
		vs, _ := v.A.([]types.Value)
		dst = append(dst, '[')
		for i, e := range vs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, e)
		}
		return append(dst, ']')
	}
	text, err := json.Marshal(of)
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}
