package client

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

func init() { sql.Register("endoscope", sqlDriver{}) }

// sqlDriver is the database/sql driver "endoscope". The data source name is
// an address, as for Connect, or a URL with options:
//
//	endoscope://db1.example.org:7440?ca=/etc/endoscope/ca.pem&token=/run/token&process=postgres
//	endoscope:///run/endoscope.sock?pid=4711
//
// Each connection of the pool is a session. USE and SET apply to that connection
// only; use sql.DB.Conn to execute them.
type sqlDriver struct{}

// Open implements driver.Driver.
func (d sqlDriver) Open(name string) (driver.Conn, error) {
	c, err := d.OpenConnector(name)
	if err != nil {
		return nil, err
	}
	return c.Connect(context.Background())
}

// OpenConnector implements driver.DriverContext.
func (d sqlDriver) OpenConnector(name string) (driver.Connector, error) {
	c := &connector{addr: name}
	u, err := url.Parse(name)
	if err != nil || u.Scheme != "endoscope" {
		return c, nil
	}
	if c.addr = u.Host; c.addr == "" {
		c.addr = u.Path
	}
	for key, vs := range u.Query() {
		v := vs[len(vs)-1]
		switch key {
		case "ca":
			c.o.CA = v
		case "cert":
			c.o.Cert = v
		case "key":
			c.o.Key = v
		case "token":
			c.o.Token = v
		case "insecure":
			c.o.Insecure = v != "false"
		case "process":
			c.o.Process = v
		case "exe":
			c.o.Exe = v
		case "pid":
			if c.o.PID, err = strconv.Atoi(v); err != nil {
				return nil, fmt.Errorf("pid=%s is not a process id", v)
			}
		default:
			return nil, fmt.Errorf("unknown option %s=: the options are ca, cert, key, token, insecure, process, exe and pid", key)
		}
	}
	return c, nil
}

type connector struct {
	addr string
	o    Options
}

func (c *connector) Driver() driver.Driver { return sqlDriver{} }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := Connect(ctx, c.addr, c.o)
	if err != nil {
		return nil, err
	}
	return &sqlConn{conn}, nil
}

// sqlConn is a driver.Conn.
type sqlConn struct{ c *Conn }

func (c *sqlConn) Close() error { return c.c.Close() }

// Begin implements driver.Conn.
func (c *sqlConn) Begin() (driver.Tx, error) {
	return nil, errors.New("transactions are not supported")
}

func (c *sqlConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext implements driver.ConnPrepareContext. It reports errors in the
// statement.
func (c *sqlConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if _, err := c.c.session.Describe(ctx, query); err != nil {
		return nil, err
	}
	return &sqlStmt{c: c, text: query, params: parser.Params(query)}, nil
}

// QueryContext implements driver.QueryerContext.
func (c *sqlConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	values, err := arguments(args)
	if err != nil {
		return nil, err
	}
	// database/sql closes the rows, also when ctx is done.
	rows, err := c.c.query(ctx, query, values)
	if err != nil {
		return nil, err
	}
	return &sqlRows{rows}, nil
}

// ExecContext implements driver.ExecerContext.
func (c *sqlConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	values, err := arguments(args)
	if err != nil {
		return nil, err
	}
	rows, err := c.c.query(ctx, query, values)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
	}
	return sqlResult{rows.Summary()}, errors.Join(rows.Err(), rows.Close())
}

// CheckNamedValue implements driver.NamedValueChecker; it accepts durations
// unchanged.
func (c *sqlConn) CheckNamedValue(v *driver.NamedValue) error {
	if v.Name != "" {
		return errors.New("named parameters are not supported: use $1")
	}
	if _, err := valueOf(v.Value); err == nil {
		return nil
	}
	var err error
	v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value)
	return err
}

func arguments(args []driver.NamedValue) ([]types.Value, error) {
	out := make([]types.Value, len(args))
	for i, a := range args {
		v, err := valueOf(a.Value)
		if err != nil {
			return nil, fmt.Errorf("the value of $%d: %w", i+1, err)
		}
		out[i] = v
	}
	return out, nil
}

// sqlStmt is a driver.Stmt.
type sqlStmt struct {
	c      *sqlConn
	text   string
	params int
}

func (s *sqlStmt) Close() error  { return nil }
func (s *sqlStmt) NumInput() int { return s.params }

func (s *sqlStmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

func (s *sqlStmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

func (s *sqlStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.c.ExecContext(ctx, s.text, args)
}

func (s *sqlStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.QueryContext(ctx, s.text, args)
}

func named(args []driver.Value) []driver.NamedValue {
	out := make([]driver.NamedValue, len(args))
	for i, a := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return out
}

// sqlResult is a driver.Result.
type sqlResult struct{ sum wire.Summary }

func (r sqlResult) LastInsertId() (int64, error) { return 0, errors.New("rows have no insert ids") }
func (r sqlResult) RowsAffected() (int64, error) { return int64(r.sum.Rows), nil }

// sqlRows is a driver.Rows.
type sqlRows struct{ r *Rows }

func (s *sqlRows) Close() error { return s.r.Close() }

func (s *sqlRows) Columns() []string {
	names := make([]string, len(s.r.Columns()))
	for i, c := range s.r.Columns() {
		names[i] = c.Name
	}
	return names
}

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName.
func (s *sqlRows) ColumnTypeDatabaseTypeName(i int) string { return s.r.Columns()[i].Type.String() }

func (s *sqlRows) Next(dest []driver.Value) error {
	if !s.r.Next() {
		if err := s.r.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	for i := range dest {
		dest[i] = s.r.Value(i)
	}
	return nil
}
