package client

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"endoscope/parser"
	"endoscope/server"
	"endoscope/server/flight"
)

// serve runs the real engine on a socket.
func serve(t *testing.T) (path string) {
	t.Helper()
	e, err := server.New(server.Options{ModelDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := flight.New(e, flight.Options{})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Stop(ctx)
		if err := errors.Join(<-done, e.Close()); err != nil {
			t.Error(err)
		}
	})
	return path
}

func TestQuery(t *testing.T) {
	c, err := Connect(t.Context(), serve(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if said, err := c.Exec(t.Context(), "SET lateness = 1s"); err != nil || said != "lateness is 1s" {
		t.Errorf("%q, %v", said, err)
	}
	rows, err := c.Query(t.Context(), `SELECT n, n * 0.5, 'r' || n::VARCHAR, n * 1ms, CASE WHEN n > 1 THEN n END, n > 1, TOPK(n, 1)
		FROM series(2000) WHERE n <= $1 GROUP BY n ORDER BY n`, 2)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		n    int
		f    float64
		s    string
		d    time.Duration
		some *int64
		b    bool
		top  []any
	}
	var got []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.n, &r.f, &r.s, &r.d, &r.some, &r.b, &r.top); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].some != nil || *got[1].some != 2 || got[1].f != 1 || got[1].s != "r2" || got[1].d != 2*time.Millisecond || !got[1].b ||
		got[1].top[0].([]any)[0] != int64(2) {
		t.Errorf("%+v", got)
	}
	if s := rows.Summary(); s.Rows != 2 || rows.Lost() != 0 {
		t.Errorf("%+v", s)
	}
	rows, err = c.Query(t.Context(), "SELECT n, 'x' FROM series(1)")
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	for _, wrong := range [][]any{{new(int)}, {new(int), new(int)}, {new(bool), new(string)}} {
		if rows.Scan(wrong...) == nil {
			t.Errorf("%d columns and %T are taken", len(wrong), wrong[0])
		}
	}
	var mistake *parser.Error
	if _, err := c.Query(t.Context(), "SELECT nope FROM series(1)"); !errors.As(err, &mistake) || mistake.Pos.Start != 7 {
		t.Errorf("%v", err)
	}
}

// An unbounded query can be read while it runs, and ends when it is closed or its
// context is cancelled.
func TestEndlessQuery(t *testing.T) {
	c, err := Connect(t.Context(), serve(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	running := func() (n int) {
		rows, err := c.Query(t.Context(), "SHOW QUERIES")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			n++
		}
		return n
	}
	rows, err := c.Query(t.Context(), "SELECT timestamp, percent_busy FROM SAMPLE(cpu_usage, 10ms)")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var at time.Time
		var busy float64
		if !rows.Next() {
			t.Fatal(rows.Err())
		}
		if err := rows.Scan(&at, &busy); err != nil || time.Since(at) > time.Minute {
			t.Errorf("%v, %v", at, err)
		}
	}
	if n := running(); n != 1 {
		t.Errorf("%d queries run", n)
	}
	if err := rows.Close(); err != nil || running() != 0 {
		t.Errorf("%v, %d queries run after Close", err, running())
	}
	ctx, cancel := context.WithCancel(t.Context())
	rows, err = c.Query(ctx, "SELECT timestamp FROM SAMPLE(cpu_usage, 10ms)")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	for rows.Next() {
	}
	if !errors.Is(rows.Err(), context.Canceled) {
		t.Error(rows.Err())
	}
	_ = rows.Close()
}

func TestDatabaseSQL(t *testing.T) {
	db, err := sql.Open("endoscope", "endoscope://"+serve(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("SET lateness = 1s"); err != nil {
		t.Error(err)
	}
	stmt, err := db.Prepare("SELECT n, 'x' || n::VARCHAR FROM series(100) WHERE n > $1 AND n * 1ns < $2")
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	for _, above := range []int{95, 97} {
		rows, err := stmt.Query(above, 100*time.Nanosecond)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for rows.Next() {
			var i int
			var s string
			if err := rows.Scan(&i, &s); err != nil || i != above+1+n {
				t.Errorf("%d %s %v", i, s, err)
			}
			n++
		}
		if rows.Err() != nil || n != 99-above {
			t.Errorf("%d rows, %v", n, rows.Err())
		}
	}
	var count int
	if err := db.QueryRow("SELECT COUNT(*) FROM series(7)").Scan(&count); err != nil || count != 7 {
		t.Errorf("%d, %v", count, err)
	}
	var mistake *parser.Error
	if _, err := db.Prepare("SELECT nope FROM series(1)"); !errors.As(err, &mistake) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rows, err := db.QueryContext(ctx, "SELECT timestamp FROM SAMPLE(cpu_usage, 10ms)")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		cancel()
	}
	if rows.Err() == nil {
		t.Error("the query outlives its context")
	}
	if err := db.QueryRow("SELECT COUNT(*) FROM sys.queries WHERE statement LIKE '%cpu_usage%' AND statement NOT LIKE '%sys%'").Scan(&count); err != nil || count != 0 {
		t.Errorf("%d queries run on, %v", count, err)
	}
	for _, wrong := range []string{"endoscope:///x?pid=many", "endoscope:///x?what=else"} {
		if c, err := sql.Open("endoscope", wrong); err == nil && c.Ping() == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
