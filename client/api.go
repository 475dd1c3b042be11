package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"endoscope/client/remote"
	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Options of a connection. Files that are not set default to those of the endoscope
// command, if they exist: ca.pem, client.pem, client.key and token in the user's
// configuration directory. $ENDOSCOPE_TOKEN may contain a token.
type Options struct {
	CA        string // file: the CA of the server's certificate
	Cert, Key string // files: the client certificate; Key "": Cert with the extension .key
	Token     string // file: contains a token
	Insecure  bool   // do not encrypt, whatever the network
	// The target of queries that do not name one; at most one of these. USE changes
	// it.
	PID     int
	Process string
	Exe     string
	// Notify is called with the messages of the connection's triggers. It must not
	// block.
	Notify func(text string)
}

// Conn is a connection to an engine with its own session: USE, SET and CREATE apply
// to it. It is safe for concurrent use.
type Conn struct {
	engine  wire.Engine
	session wire.Session
}

// Connect connects to the engine at addr: host:port, or the path of a socket.
func Connect(ctx context.Context, addr string, o Options) (*Conn, error) {
	how, err := credentials{ca: o.CA, cert: o.Cert, key: o.Key, token: o.Token, insecure: o.Insecure}.options(addr, configDir())
	if err != nil {
		return nil, err
	}
	engine, err := remote.Dial(addr, how)
	if err != nil {
		return nil, err
	}
	return open(ctx, engine, o)
}

func open(ctx context.Context, engine wire.Engine, o Options) (*Conn, error) {
	session, err := engine.NewSession(ctx, wire.Options{PID: o.PID, Process: o.Process, Exe: o.Exe, Notify: o.Notify})
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &Conn{engine: engine, session: session}, nil
}

// Close ends the connection and the queries that run over it.
func (c *Conn) Close() error { return errors.Join(c.session.Close(), c.engine.Close()) }

// Query executes a statement; args are the values of its parameters $1, $2, ... It
// returns when everything that the statement needs is acquired. The error of a
// rejected statement is a *parser.Error with its position.
//
// Rows end when the query does. A query with neither FOR nor LIMIT runs until the
// rows are closed or stopped, or ctx is done.
func (c *Conn) Query(ctx context.Context, statement string, args ...any) (*Rows, error) {
	values := make([]types.Value, len(args))
	for i, a := range args {
		v, err := valueOf(a)
		if err != nil {
			return nil, fmt.Errorf("the value of $%d: %w", i+1, err)
		}
		values[i] = v
	}
	return c.query(ctx, statement, values)
}

func (c *Conn) query(ctx context.Context, statement string, args []types.Value) (*Rows, error) {
	res, err := c.session.Execute(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return &Rows{ctx: ctx, res: res}, nil
}

// Exec executes a statement, waits for its end, and returns its message, for example
// that a setting was set or a stream created.
func (c *Conn) Exec(ctx context.Context, statement string, args ...any) (message string, err error) {
	rows, err := c.Query(ctx, statement, args...)
	if err != nil {
		return "", err
	}
	for rows.Next() {
	}
	return rows.res.Message(), errors.Join(rows.Err(), rows.Close())
}

// Rows are a query's result, row by row:
//
//	for rows.Next() {
//		err := rows.Scan(&name, &calls)
//	}
//	err := errors.Join(rows.Err(), rows.Close())
//
// One goroutine reads them; Stop and Close may be called by others.
type Rows struct {
	ctx     context.Context
	res     wire.Result
	b       *batch.Batch
	row     int
	err     error
	ended   bool
	notices []string
}

// Columns returns the columns of the result.
func (r *Rows) Columns() []wire.Column { return r.res.Columns() }

// Next waits for the next row. It returns false at the end of the result and on an
// error; see Err.
func (r *Rows) Next() bool {
	for !r.ended {
		if r.b != nil {
			if r.row++; r.row < r.b.Len() {
				return true
			}
			r.let()
		}
		ev, err := r.res.Next(r.ctx)
		if err != nil {
			r.ended = true
			if err != io.EOF {
				r.err = err
				_ = r.res.Close() // the remaining rows are not wanted
			}
			return false
		}
		switch {
		case ev.Kind == wire.Notice:
			r.notices = append(r.notices, ev.Text)
		case ev.Batch != nil && (ev.Preview || ev.Batch.Len() == 0):
			ev.Batch.Release()
		case ev.Batch != nil:
			r.b, r.row = ev.Batch, -1
		}
	}
	return false
}

func (r *Rows) let() {
	if r.b != nil {
		r.b.Release()
		r.b = nil
	}
}

// Err returns the error that ended the rows; nil at the end of the result.
func (r *Rows) Err() error { return r.err }

// Value returns column i of the current row: nil (NULL), bool, int64, uint64
// (UBIGINT), float64, string, time.Time, time.Duration, []byte, []any (a list), or the text of an
// encoding.
func (r *Rows) Value(i int) any { return goValue(r.b.Cols[i].Value(r.b.Row(r.row))) }

// Scan stores the values of the current row in the variables that dest points to: the
// types of Value, any, int, or a pointer to one of them, which is set to nil for
// NULL.
func (r *Rows) Scan(dest ...any) error {
	if r.b == nil || r.row < 0 {
		return errors.New("Scan called without a successful Next")
	}
	if len(dest) != len(r.b.Cols) {
		return fmt.Errorf("the row has %d columns, but Scan has %d arguments", len(r.b.Cols), len(dest))
	}
	for i, d := range dest {
		if err := assign(d, r.Value(i)); err != nil {
			return fmt.Errorf("column %s: %w", r.res.Columns()[i].Name, err)
		}
	}
	return nil
}

// Stop asks the query to end and return what it has: rows follow until Next returns
// false.
func (r *Rows) Stop() { r.res.Stop() }

// Close abandons the query if it still runs, and returns when all its probes are
// detached.
func (r *Rows) Close() error {
	if r.ended {
		r.let()
		return nil
	}
	err := r.res.Close()
	r.ended = true
	r.let()
	return err
}

// Summary returns the number of rows, the elapsed time and the losses so far; final
// at the end of the result.
func (r *Rows) Summary() wire.Summary { return r.res.Summary() }

// Notices returns the engine's notices so far.
func (r *Rows) Notices() []string { return r.notices }

// Lost returns the number of events that did not become rows.
func (r *Rows) Lost() (n uint64) {
	for _, l := range r.Summary().Losses {
		n += l.N
	}
	return n
}

// valueOf converts a Go value to a value of a parameter.
func valueOf(a any) (types.Value, error) {
	switch a := a.(type) {
	case nil:
		return types.NullOf(types.Null), nil
	case bool:
		return types.Bool(a), nil
	case int:
		return types.Int(int64(a)), nil
	case int32:
		return types.Int(int64(a)), nil
	case int64:
		return types.Int(a), nil
	case uint64:
		return types.Uint(a), nil
	case float64:
		return types.Float(a), nil
	case string:
		return types.Str(a), nil
	case []byte:
		return types.Value{Type: types.Bytes, S: string(a)}, nil
	case time.Time:
		return types.Time(a.UnixNano()), nil
	case time.Duration:
		return types.Dur(int64(a)), nil
	}
	return types.Value{}, fmt.Errorf("a %T cannot be the value of a parameter", a)
}

// goValue converts a value to its Go type.
func goValue(v types.Value) any {
	if v.IsNull {
		return nil
	}
	switch v.Type {
	case types.Boolean:
		return v.I != 0
	case types.Bigint:
		return v.I
	case types.Ubigint:
		return uint64(v.I)
	case types.Double:
		return v.F
	case types.Varchar:
		return v.S
	case types.Bytes:
		return []byte(v.S)
	case types.Timestamp:
		return time.Unix(0, v.I).UTC()
	case types.Duration:
		return time.Duration(v.I)
	case types.List:
		vs, _ := v.A.([]types.Value)
		out := make([]any, len(vs))
		for i, e := range vs {
			out[i] = goValue(e)
		}
		return out
	}
	if s, ok := v.A.(fmt.Stringer); ok {
		return s.String()
	}
	return nil
}
