package flight

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/schema_ref"
)

// Types as ODBC numbers them, in the order that its answers have.
var xdbcTypes = []struct {
	name           string
	number         int32
	size           int32 // digits or characters; 0: no limit
	prefix, suffix string
}{
	{name: "BOOLEAN", number: -7, size: 1},
	{name: "BIGINT", number: -5, size: 19},
	{name: "UBIGINT", number: -5, size: 20},
	{name: "DURATION", number: -5, size: 19}, // of ns
	{name: "BYTES", number: -3},
	{name: "DOUBLE", number: 8, size: 53},
	{name: "VARCHAR", number: 12, prefix: "'", suffix: "'"},
	{name: "LIST", number: 12},
	{name: "ENCODING", number: 12},
	{name: "TIMESTAMP", number: 93, size: 29, prefix: "'", suffix: "'"},
}

func (s *Service) GetFlightInfoXdbcTypeInfo(_ context.Context, _ flightsql.GetXdbcTypeInfo, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	return fixed(d, schema_ref.XdbcTypeInfo)
}

func (s *Service) DoGetXdbcTypeInfo(_ context.Context, c flightsql.GetXdbcTypeInfo) (*arrow.Schema, <-chan flight.StreamChunk, error) {
	return table(schema_ref.XdbcTypeInfo, func(b *array.RecordBuilder) {
		number := func(column int, n int32) { b.Field(column).(*array.Int32Builder).Append(n) }
		truth := func(column int, is bool) { b.Field(column).(*array.BooleanBuilder).Append(is) }
		for _, t := range xdbcTypes {
			if only := c.GetDataType(); only != nil && *only != t.number {
				continue
			}
			for i := range schema_ref.XdbcTypeInfo.NumFields() {
				switch name := schema_ref.XdbcTypeInfo.Field(i).Name; {
				case name == "type_name", name == "local_type_name":
					texts(b, i).Append(t.name)
				case name == "data_type", name == "sql_data_type":
					number(i, t.number)
				case name == "column_size" && t.size > 0:
					number(i, t.size)
				case name == "literal_prefix" && t.prefix != "":
					texts(b, i).Append(t.prefix)
				case name == "literal_suffix" && t.suffix != "":
					texts(b, i).Append(t.suffix)
				case name == "nullable":
					number(i, 1)
				case name == "searchable":
					number(i, 3)
				case name == "case_sensitive":
					truth(i, t.name == "VARCHAR")
				case name == "fixed_prec_scale":
					truth(i, false)
				default:
					b.Field(i).AppendNull()
				}
			}
		}
	})
}
