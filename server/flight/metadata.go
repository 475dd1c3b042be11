package flight

import (
	"context"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/schema_ref"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"endoscope/planner/definitions"
	"endoscope/planner/types"
	"endoscope/server/wire"
	"endoscope/server/wire/columnar"
)

// tableTypes are the table types of streams. They tell how a stream can be
// read: directly, by SAMPLE or a join, or as a user defined it. There are no
// catalogs and no schemas.
var tableTypes = map[string]string{
	"enumerable":     "STREAM",
	"snapshot":       "STREAM",
	"non-enumerable": "VALUE",
	"defined":        "VIEW",
}

// chunks is the result of a DoGet: one record.
type chunks = <-chan flight.StreamChunk

// fixed returns the FlightInfo of a result with a fixed schema; its ticket is
// the command.
func fixed(d *flight.FlightDescriptor, schema *arrow.Schema) (*flight.FlightInfo, error) {
	return &flight.FlightInfo{
		Schema:           flight.SerializeSchema(schema, memory.DefaultAllocator),
		FlightDescriptor: d,
		Endpoint:         []*flight.FlightEndpoint{{Ticket: &flight.Ticket{Ticket: d.GetCmd()}}},
		TotalRecords:     -1,
		TotalBytes:       -1,
	}, nil
}

// table returns a result with the rows that build adds.
func table(schema *arrow.Schema, build func(*array.RecordBuilder)) (*arrow.Schema, chunks, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	if build != nil {
		build(b)
	}
	ch := make(chan flight.StreamChunk, 1)
	ch <- flight.StreamChunk{Data: b.NewRecordBatch()}
	close(ch)
	return schema, ch, nil
}

func texts(b *array.RecordBuilder, column int) *array.StringBuilder {
	return b.Field(column).(*array.StringBuilder)
}

// Methods GetFlightInfo* return where a result is; methods DoGet* return it.

func (s *Service) GetFlightInfoCatalogs(_ context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	return fixed(d, schema_ref.Catalogs)
}

func (s *Service) DoGetCatalogs(context.Context) (*arrow.Schema, <-chan flight.StreamChunk, error) {
	return table(schema_ref.Catalogs, nil)
}

func (s *Service) GetFlightInfoSchemas(_ context.Context, _ flightsql.GetDBSchemas, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	return fixed(d, schema_ref.DBSchemas)
}

func (s *Service) DoGetDBSchemas(context.Context, flightsql.GetDBSchemas) (*arrow.Schema, <-chan flight.StreamChunk, error) {
	return table(schema_ref.DBSchemas, nil)
}

func (s *Service) GetFlightInfoTableTypes(_ context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	return fixed(d, schema_ref.TableTypes)
}

func (s *Service) DoGetTableTypes(context.Context) (*arrow.Schema, <-chan flight.StreamChunk, error) {
	return table(schema_ref.TableTypes, func(b *array.RecordBuilder) {
		texts(b, 0).AppendStringValues([]string{"STREAM", "VALUE", "VIEW"}, nil)
	})
}

func (s *Service) GetFlightInfoTables(_ context.Context, c flightsql.GetTables, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	return fixed(d, tablesSchema(c))
}

func tablesSchema(c flightsql.GetTables) *arrow.Schema {
	if c.GetIncludeSchema() {
		return schema_ref.TablesWithIncludedSchema
	}
	return schema_ref.Tables
}

func (s *Service) DoGetTables(ctx context.Context, c flightsql.GetTables) (*arrow.Schema, <-chan flight.StreamChunk, error) {
	x, err := s.session(ctx)
	if err != nil {
		return nil, nil, err
	}
	streams, err := x.streams(ctx, c)
	if err != nil {
		return nil, nil, statusOf(err, "")
	}
	return table(tablesSchema(c), func(b *array.RecordBuilder) {
		for _, st := range streams {
			b.Field(0).AppendNull()
			b.Field(1).AppendNull()
			texts(b, 2).Append(st.name)
			texts(b, 3).Append(st.kind)
			if c.GetIncludeSchema() {
				b.Field(4).(*array.BinaryBuilder).Append(flight.SerializeSchema(columnar.Schema(st.columns, columnar.Plain), memory.DefaultAllocator))
			}
		}
	})
}

// stream is a stream in a client's request.
type stream struct {
	name, kind string
	columns    []wire.Column
}

// streams returns the requested streams, with their columns if requested.
func (x *session) streams(ctx context.Context, c flightsql.GetTables) ([]stream, error) {
	if c.GetCatalog() != nil && *c.GetCatalog() != "" {
		return nil, nil
	}
	name, schema := like(c.GetTableNameFilterPattern()), like(c.GetDBSchemaFilterPattern())
	if !schema.MatchString("") {
		return nil, nil
	}
	rows, err := x.rows(ctx, "SHOW STREAMS")
	if err != nil {
		return nil, err
	}
	var out []stream
	for _, row := range rows {
		st := stream{name: row[0].S, kind: tableTypes[row[1].S]}
		if owner := row[len(row)-1]; len(row) > 3 && !owner.IsNull { // who sees those of several users names them with the owner
			st.name = definitions.Qualify(owner.S, st.name)
		}
		if !name.MatchString(st.name) || len(c.GetTableTypes()) > 0 && !slices.Contains(c.GetTableTypes(), st.kind) {
			continue
		}
		if c.GetIncludeSchema() {
			about, err := x.rows(ctx, `DESCRIBE "`+strings.ReplaceAll(st.name, `"`, `""`)+`"`)
			if err != nil {
				continue // dropped meanwhile, or what it observes does not exist
			}
			for _, col := range about {
				if t, ok := columnar.ParseType(col[1].S); ok {
					st.columns = append(st.columns, wire.Column{Name: col[0].S, Type: t})
				}
			}
		}
		out = append(out, st)
	}
	return out, nil
}

// like compiles a LIKE pattern; nil matches everything.
func like(pattern *string) *regexp.Regexp {
	if pattern == nil {
		return regexp.MustCompile("")
	}
	var b strings.Builder
	b.WriteString("(?is)^")
	for _, c := range *pattern {
		switch c {
		case '%':
			b.WriteString(".*")
		case '_':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return regexp.MustCompile(b.String() + "$")
}

// rows returns all rows of a statement that only reads.
func (x *session) rows(ctx context.Context, statement string) (out [][]types.Value, err error) {
	res, err := x.Execute(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Close() }()
	for {
		ev, err := res.Next(ctx)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if ev.Batch == nil {
			continue
		}
		for i := range ev.Batch.Len() {
			row := make([]types.Value, len(ev.Batch.Cols))
			for c := range row {
				row[c] = ev.Batch.Cols[c].Value(ev.Batch.Row(i))
			}
			out = append(out, row)
		}
		ev.Batch.Release()
	}
}

// Streams have no keys.

func (s *Service) GetFlightInfoPrimaryKeys(_ context.Context, _ flightsql.TableRef, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	return fixed(d, schema_ref.PrimaryKeys)
}

func (s *Service) DoGetPrimaryKeys(context.Context, flightsql.TableRef) (*arrow.Schema, <-chan flight.StreamChunk, error) {
	return table(schema_ref.PrimaryKeys, nil)
}

func (s *Service) GetFlightInfoExportedKeys(_ context.Context, _ flightsql.TableRef, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	return fixed(d, schema_ref.ExportedKeys)
}

func (s *Service) DoGetExportedKeys(context.Context, flightsql.TableRef) (*arrow.Schema, <-chan flight.StreamChunk, error) {
	return table(schema_ref.ExportedKeys, nil)
}

func (s *Service) GetFlightInfoImportedKeys(_ context.Context, _ flightsql.TableRef, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	return fixed(d, schema_ref.ImportedKeys)
}

func (s *Service) DoGetImportedKeys(context.Context, flightsql.TableRef) (*arrow.Schema, <-chan flight.StreamChunk, error) {
	return table(schema_ref.ImportedKeys, nil)
}

func (s *Service) GetFlightInfoCrossReference(_ context.Context, _ flightsql.CrossTableRef, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	return fixed(d, schema_ref.CrossReference)
}

func (s *Service) DoGetCrossReference(context.Context, flightsql.CrossTableRef) (*arrow.Schema, <-chan flight.StreamChunk, error) {
	return table(schema_ref.CrossReference, nil)
}
