package flight

import (
	"context"
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"endoscope/planner/types"
	"endoscope/server/wire"
	"endoscope/server/wire/columnar"
)

// The maximum number of prepared statements per session, and of the bytes of their texts and
// of the values bound to them.
const (
	maxPrepared      = 1024
	maxPreparedBytes = 8 << 20
)

// prepared is a prepared statement.
type prepared struct {
	text string
	args []types.Value // last bound values; guarded by session.mu
}

// CreatePreparedStatement returns the columns of a statement's result, and the
// types of its parameters by their positions; VARCHAR if any type is accepted.
// A client may still send values of other types.
func (s *Service) CreatePreparedStatement(ctx context.Context, r flightsql.ActionCreatePreparedStatementRequest) (out flightsql.ActionCreatePreparedStatementResult, err error) {
	x, err := s.session(ctx)
	if err != nil {
		return out, err
	}
	d, err := x.Describe(ctx, r.GetQuery())
	if err != nil {
		return out, statusOf(err, r.GetQuery())
	}
	name := newName()
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.prepared) >= maxPrepared {
		return out, status.Errorf(codes.ResourceExhausted, "%d statements are prepared: close some", maxPrepared)
	}
	if x.preparedBytes()+len(r.GetQuery()) > maxPreparedBytes {
		return out, status.Errorf(codes.ResourceExhausted, "the prepared statements have more than %d MiB: close some", maxPreparedBytes>>20)
	}
	x.prepared[name] = &prepared{text: r.GetQuery()}
	out.Handle = []byte(name)
	out.DatasetSchema = columnar.Schema(d.Columns, columnar.Plain)
	out.ParameterSchema = columnar.Schema(parameters(d), columnar.Plain)
	return out, nil
}

// preparedBytes returns the bytes of the prepared statements and of their values; the caller
// holds mu.
func (x *session) preparedBytes() (n int) {
	for _, p := range x.prepared {
		n += len(p.text)
		for _, v := range p.args {
			n += len(v.S)
		}
	}
	return n
}

// parameters returns the parameters of a statement, as columns.
func parameters(d wire.Description) []wire.Column {
	params := make([]wire.Column, d.Params)
	for i := range params {
		params[i] = wire.Column{Name: "$" + strconv.Itoa(i+1), Type: types.Varchar}
		if i < len(d.ParamTypes) && d.ParamTypes[i] != types.Null {
			params[i].Type = d.ParamTypes[i]
		}
	}
	return params
}

// ClosePreparedStatement removes a statement.
func (s *Service) ClosePreparedStatement(ctx context.Context, r flightsql.ActionClosePreparedStatementRequest) error {
	x, err := s.session(ctx)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.prepared, string(r.GetPreparedStatementHandle()))
	return nil
}

// statement returns the session of a call and the text of a statement prepared
// in it.
func (s *Service) statement(ctx context.Context, handle []byte) (x *session, text string, args []types.Value, err error) {
	if x, err = s.session(ctx); err != nil {
		return nil, "", nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.prepared[string(handle)]
	if p == nil {
		return nil, "", nil, status.Error(codes.NotFound, "there is no such prepared statement in this session")
	}
	return x, p.text, p.args, nil
}

// GetFlightInfoPreparedStatement executes a statement with the last bound
// values.
func (s *Service) GetFlightInfoPreparedStatement(ctx context.Context, c flightsql.PreparedStatementQuery, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	x, text, args, err := s.statement(ctx, c.GetPreparedStatementHandle())
	if err != nil {
		return nil, err
	}
	res, err := x.Execute(ctx, text, args...)
	if err != nil {
		return nil, statusOf(err, text)
	}
	return x.info(res, text, d)
}

// GetSchemaPreparedStatement returns the columns of a statement's result.
func (s *Service) GetSchemaPreparedStatement(ctx context.Context, c flightsql.PreparedStatementQuery, _ *flight.FlightDescriptor) (*flight.SchemaResult, error) {
	x, text, _, err := s.statement(ctx, c.GetPreparedStatementHandle())
	if err != nil {
		return nil, err
	}
	return x.schemaOf(ctx, text)
}

// GetSchemaStatement returns the columns of a statement's result.
func (s *Service) GetSchemaStatement(ctx context.Context, c flightsql.StatementQuery, _ *flight.FlightDescriptor) (*flight.SchemaResult, error) {
	x, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	return x.schemaOf(ctx, c.GetQuery())
}

func (x *session) schemaOf(ctx context.Context, text string) (*flight.SchemaResult, error) {
	d, err := x.Describe(ctx, text)
	if err != nil {
		return nil, statusOf(err, text)
	}
	return &flight.SchemaResult{Schema: flight.SerializeSchema(columnar.Schema(d.Columns, columnar.Plain), memory.DefaultAllocator)}, nil
}

// DoPutPreparedStatementQuery binds values to parameters.
func (s *Service) DoPutPreparedStatementQuery(ctx context.Context, c flightsql.PreparedStatementQuery, r flight.MessageReader, _ flight.MetadataWriter) ([]byte, error) {
	return c.GetPreparedStatementHandle(), s.bind(ctx, c.GetPreparedStatementHandle(), r)
}

// DoPutPreparedStatementUpdate executes a statement and returns when it has
// ended.
func (s *Service) DoPutPreparedStatementUpdate(ctx context.Context, c flightsql.PreparedStatementUpdate, r flight.MessageReader) (int64, error) {
	if err := s.bind(ctx, c.GetPreparedStatementHandle(), r); err != nil {
		return 0, err
	}
	x, text, args, err := s.statement(ctx, c.GetPreparedStatementHandle())
	if err != nil {
		return 0, err
	}
	res, err := x.Execute(ctx, text, args...)
	if err != nil {
		return 0, statusOf(err, text)
	}
	n, err := drain(ctx, res)
	return n, statusOf(err, text)
}

// bind stores the parameter values that a client sends: one row.
func (s *Service) bind(ctx context.Context, handle []byte, r flight.MessageReader) error {
	x, _, _, err := s.statement(ctx, handle)
	if err != nil {
		return err
	}
	var args []types.Value
	rows := int64(0)
	for r.Next() {
		rec := r.RecordBatch()
		if rows += rec.NumRows(); rows > 1 {
			return status.Error(codes.InvalidArgument, "a statement is executed with one row of values at a time")
		}
		for i := range int(rec.NumCols()) {
			if rec.NumRows() == 0 {
				break
			}
			v, err := valueOf(rec.Column(i), 0)
			if err != nil {
				return status.Errorf(codes.InvalidArgument, "the value of $%d: %v", i+1, err)
			}
			args = append(args, v)
		}
	}
	if err := r.Err(); err != nil {
		return status.Error(codes.InvalidArgument, "the values of parameters cannot be read")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.prepared[string(handle)]
	if p == nil {
		return nil
	}
	before := p.args
	if p.args = args; x.preparedBytes() > maxPreparedBytes {
		p.args = before
		return status.Errorf(codes.ResourceExhausted, "the prepared statements and their values have more than %d MiB: close some", maxPreparedBytes>>20)
	}
	return nil
}

// valueOf converts a value of Arrow to one of a statement.
func valueOf(a arrow.Array, row int) (types.Value, error) {
	if a.IsNull(row) {
		return types.NullOf(types.Null), nil
	}
	switch a := a.(type) {
	case *array.Boolean:
		return types.Bool(a.Value(row)), nil
	case *array.Int8:
		return types.Int(int64(a.Value(row))), nil
	case *array.Int16:
		return types.Int(int64(a.Value(row))), nil
	case *array.Int32:
		return types.Int(int64(a.Value(row))), nil
	case *array.Int64:
		return types.Int(a.Value(row)), nil
	case *array.Uint8:
		return types.Int(int64(a.Value(row))), nil
	case *array.Uint16:
		return types.Int(int64(a.Value(row))), nil
	case *array.Uint32:
		return types.Int(int64(a.Value(row))), nil
	case *array.Uint64:
		return types.Uint(a.Value(row)), nil
	case *array.Float32:
		return types.Float(float64(a.Value(row))), nil
	case *array.Float64:
		return types.Float(a.Value(row)), nil
	case *array.String:
		return types.Str(a.Value(row)), nil
	case *array.LargeString:
		return types.Str(a.Value(row)), nil
	case *array.Binary:
		return types.Value{Type: types.Bytes, S: a.ValueString(row)}, nil
	case *array.Timestamp:
		unit := a.DataType().(*arrow.TimestampType).Unit
		return types.Time(a.Value(row).ToTime(unit).UnixNano()), nil
	case *array.Duration:
		unit := a.DataType().(*arrow.DurationType).Unit
		return types.Dur(int64(a.Value(row)) * int64(unit.Multiplier())), nil
	case *array.Dictionary:
		return valueOf(a.Dictionary(), a.GetValueIndex(row))
	case *array.DenseUnion:
		return valueOf(a.Field(a.ChildID(row)), int(a.ValueOffset(row)))
	}
	return types.Value{}, fmt.Errorf("values of type %s are not supported", a.DataType())
}
