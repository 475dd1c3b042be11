package columnar

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Form selects among the Arrow representations of a value.
type Form uint8

const (
	// Plain is readable by every Arrow client: strings without a dictionary, LIST as
	// JSON text, ENCODING as its text.
	Plain Form = iota
	// Coded is Plain with dictionary-encoded strings.
	Coded
	// Exact is Coded with lossless LIST and ENCODING, for [Decoder].
	Exact
)

// typeKey is the key of a field's metadata that names its SQL type.
const typeKey = "endoscope.type"

// boundKey is the key that says, low or high, that a field bounds the estimate of another,
// whose name its own has in parentheses.
const boundKey = "endoscope.bound"

// boundNames are the values of boundKey.
var boundNames = map[types.Bound]string{types.Low: "low", types.High: "high"}

var (
	timestampType = &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}
	durationType  = &arrow.DurationType{Unit: arrow.Nanosecond}
	// Indexes are signed, as the Arrow format recommends; codes have 31 bits.
	codedText  = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	codedBytes = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.Binary}
)

// Schema returns the Arrow schema of a result.
func Schema(cols []wire.Column, f Form) *arrow.Schema {
	fields := make([]arrow.Field, len(cols))
	for i, c := range cols {
		keys, values := []string{typeKey}, []string{c.Type.String()}
		if c.Bound != types.NoBound {
			keys, values = append(keys, boundKey), append(values, boundNames[c.Bound])
		}
		fields[i] = arrow.Field{Name: c.Name, Type: arrowType(c.Type, f), Nullable: true, Metadata: arrow.NewMetadata(keys, values)}
	}
	return arrow.NewSchema(fields, nil)
}

func arrowType(t types.Type, f Form) arrow.DataType {
	switch t {
	case types.Boolean:
		return arrow.FixedWidthTypes.Boolean
	case types.Bigint:
		return arrow.PrimitiveTypes.Int64
	case types.Ubigint:
		return arrow.PrimitiveTypes.Uint64
	case types.Double:
		return arrow.PrimitiveTypes.Float64
	case types.Timestamp:
		return timestampType
	case types.Duration:
		return durationType
	case types.Varchar:
		if f == Plain {
			return arrow.BinaryTypes.String
		}
		return codedText
	case types.Bytes:
		if f == Plain {
			return arrow.BinaryTypes.Binary
		}
		return codedBytes
	case types.List, types.Encoding:
		if f == Exact {
			return arrow.BinaryTypes.Binary
		}
		return arrow.BinaryTypes.String
	}
	return arrow.Null
}

// typesByName are the types that columns of results can have.
var typesByName = map[string]types.Type{}

func init() {
	for t := types.Null; t <= types.Ubigint; t++ {
		typesByName[t.String()] = t
	}
}

// ParseType returns the column type with that name, as Type.String prints it.
func ParseType(name string) (types.Type, bool) {
	t, ok := typesByName[name]
	return t, ok
}

// Columns returns the columns of a schema in the form Exact.
func Columns(s *arrow.Schema) ([]wire.Column, error) {
	var cols []wire.Column
	for _, f := range s.Fields() {
		name, _ := f.Metadata.GetValue(typeKey)
		t, ok := typesByName[name]
		if !ok || !arrow.TypeEqual(f.Type, arrowType(t, Exact)) {
			return nil, fmt.Errorf("column %s has an unknown type: %s %s", f.Name, name, f.Type)
		}
		c := wire.Column{Name: f.Name, Type: t}
		for b, text := range boundNames {
			if value, ok := f.Metadata.GetValue(boundKey); ok && value == text {
				c.Bound = b
			}
		}
		cols = append(cols, c)
	}
	return cols, nil
}
