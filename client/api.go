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

// Options of a connection. Files that are not named are those that the endoscope
// command takes, if they are there: ca.pem, client.pem, client.key and token in
// the user's configuration directory; a token may be in $ENDOSCOPE_TOKEN.
type Options struct {
	CA        string // file: who signed the server's certificate
	Cert, Key string // files: who the user is; without Key, that of Cert with .key
	Token     string // file: with a token
	Insecure  bool   // not encrypted, whoever is on the way
	// The target of queries that name none, at most one of these; USE changes it.
	PID     int
	Process string
	Exe     string
	// Notify is told what the connection's triggers have to say. It must not
	// block.
	Notify func(text string)
}

// Conn is a connection to an engine, with a session of its own: what USE, SET and
// CREATE say holds for it. It is safe for concurrent use.
type Conn struct {
	engine  wire.Engine
	session wire.Session
}

// Connect connects to the engine at an address: host:port, or the path of a
// socket.
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

// Query executes a statement; args are the values of $1, $2, ... in it. It returns
// when what the statement needs is acquired. A statement that is refused gives a
// *parser.Error, with the place.
//
// Rows end when the query does: never, if it has neither FOR nor LIMIT, before
// they are closed, stopped, or ctx is done.
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

// Exec executes a statement, waits for its end, and gives what it has to say:
// that a setting is set, a stream created.
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

// Columns are those of the result.
func (r *Rows) Columns() []wire.Column { return r.res.Columns() }

// Next goes on to the next row, and waits for it. It is false at the end of the
// result, or when Err says why.
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
			if !errors.Is(err, io.EOF) {
				r.err = err
				_ = r.res.Close() // nobody wants what it still gives
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

// Err is why Next was false, nil at the end of the result.
func (r *Rows) Err() error { return r.err }

// Value is a value of the current row, of column i: nil (NULL), bool, int64,
// float64, string, time.Time, time.Duration, []byte, []any (a list), or the text
// of an encoding.
func (r *Rows) Value(i int) any { return goValue(r.b.Cols[i].Value(r.b.Row(r.row))) }

// Scan puts the values of the current row into what dest points to: the types of
// Value, *any, *int, or a pointer to a pointer of one of them, which is nil of
// NULL.
func (r *Rows) Scan(dest ...any) error {
	if r.b == nil || r.row < 0 {
		return errors.New("Scan comes after Next")
	}
	if len(dest) != len(r.b.Cols) {
		return fmt.Errorf("the row has %d columns, and %d are wanted", len(r.b.Cols), len(dest))
	}
	for i, d := range dest {
		if err := assign(d, r.Value(i)); err != nil {
			return fmt.Errorf("column %s: %w", r.res.Columns()[i].Name, err)
		}
	}
	return nil
}

// Stop asks the query to end and give what it has: rows follow until Next is
// false.
func (r *Rows) Stop() { r.res.Stop() }

// Close abandons the query if it still runs. Nothing of it is attached when it
// returns.
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

// Summary is how many rows there were, for how long, and what was lost; at the end
// of the result, or what holds until now.
func (r *Rows) Summary() wire.Summary { return r.res.Summary() }

// Notices are what the engine had to say beside the rows so far.
func (r *Rows) Notices() []string { return r.notices }

// Lost is how many events did not become rows.
func (r *Rows) Lost() (n uint64) {
	for _, l := range r.Summary().Losses {
		n += l.N
	}
	return n
}

// valueOf is what a value of Go means in a statement.
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
	return types.Value{}, fmt.Errorf("a %T is no value of a statement", a)
}

// goValue is a value as Go has it.
func goValue(v types.Value) any {
	if v.IsNull {
		return nil
	}
	switch v.Type {
	case types.Boolean:
		return v.I != 0
	case types.Bigint:
		return v.I
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
