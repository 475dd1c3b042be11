package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"endoscope/client/remote"
	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/flight"
	"endoscope/server/wire"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(placementServer); addr != "" {
		servePlacement(addr)
		return
	}
	goleak.VerifyTestMain(m)
}

// served is a server with an engine in this process.
type served struct {
	engine  wire.Engine
	service *flight.Service
	addr    string
}

func serve(t testing.TB, o flight.Options) *served { return serveEngine(t, o, server.Options{}) }

func serveEngine(t testing.TB, o flight.Options, of server.Options) *served {
	t.Helper()
	of.ModelDir = t.TempDir()
	e, err := server.New(of)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{e, flight.New(e, o), l.Addr().String()}
	done := make(chan error, 1)
	go func() { done <- s.service.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.service.Stop(ctx)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// session opens a session at the server.
func (s *served) session(t testing.TB, o wire.Options) wire.Session {
	t.Helper()
	e, err := remote.Dial(s.addr, remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := e.NewSession(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// local opens a session in the server's process.
func (s *served) local(t testing.TB) wire.Session {
	t.Helper()
	x, err := s.engine.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func execute(t testing.TB, x wire.Session, statement string, args ...types.Value) wire.Result {
	t.Helper()
	r, err := x.Execute(t.Context(), statement, args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return r
}

// all reads a result to its end.
func all(t testing.TB, r wire.Result) (rows [][]types.Value, kinds []wire.EventKind, notices []string) {
	t.Helper()
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return rows, kinds, notices
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, ev.Kind)
		if ev.Kind == wire.Notice {
			notices = append(notices, ev.Text)
		}
		if ev.Batch == nil {
			continue
		}
		for i := range ev.Batch.Len() {
			row := make([]types.Value, len(ev.Batch.Cols))
			for c := range row {
				row[c] = ev.Batch.Cols[c].Value(ev.Batch.Row(i))
			}
			rows = append(rows, row)
		}
		ev.Batch.Release()
	}
}

// running returns the number of running queries.
func (s *served) running(t testing.TB) int {
	rows, _, _ := all(t, execute(t, s.local(t), "SHOW QUERIES"))
	return len(rows)
}

const endless = "SELECT timestamp, percent_busy FROM SAMPLE(cpu_usage, 10ms)"

// A statement's result is the same as in the engine's own process.
func TestResultsAreTheSame(t *testing.T) {
	s := serve(t, flight.Options{})
	near, far := s.local(t), s.session(t, wire.Options{})
	for _, statement := range []string{
		"SELECT n, n * 1.5 AS f, n % 2 = 0 AS even, 'x' || n::VARCHAR AS s, CASE WHEN n % 3 = 0 THEN n END AS i, CASE WHEN n % 3 = 0 THEN 'y' END AS c FROM series(5000)",
		"SELECT n * 1us AS d, CASE WHEN n > 2500 THEN NULL ELSE n % 2 = 0 END AS b FROM series(3000) WHERE n % 7 = 3",
		"SELECT HISTOGRAM(n), TOPK(n % 3, 2), RLE(n % 2), HISTOGRAM(n * 1ms) FROM series(500)",
		"SELECT NULL AS nothing, '' AS empty FROM series(1)",
		"SELECT n FROM series(0)",
		"SHOW SETTINGS", "DESCRIBE cpu_usage", "SET placement = 'server'", "EXPLAIN SELECT COUNT(*) FROM series(3)",
		"SET placement = 'auto'", "SET lateness = 1s", "SELECT COUNT(*) FROM series(100000)",
	} {
		a, b := execute(t, near, statement), execute(t, far, statement)
		if a.Message() != b.Message() {
			t.Errorf("%s: the message is %q, remote %q", statement, a.Message(), b.Message())
		}
		for i, c := range a.Columns() {
			if b.Columns()[i] != c {
				t.Errorf("%s: column %d is %v, remote %v", statement, i, c, b.Columns()[i])
			}
		}
		rows, _, notices := all(t, a)
		again, _, others := all(t, b)
		if len(rows) != len(again) || strings.Join(notices, "\n") != strings.Join(others, "\n") {
			t.Fatalf("%s: %d rows and %q, remote %d and %q", statement, len(rows), notices, len(again), others)
		}
		for i, row := range rows {
			for c, v := range row {
				if got := again[i][c]; text(v) != text(got) {
					t.Fatalf("%s: row %d column %d is %s, remote %s", statement, i, c, text(v), text(got))
				}
			}
		}
		if a.Summary().Rows != b.Summary().Rows {
			t.Errorf("%s: the footer has %d rows, remote %d", statement, a.Summary().Rows, b.Summary().Rows)
		}
	}
}

// text returns a value with all its observable properties.
func text(v types.Value) string {
	if v.IsNull {
		return "NULL " + v.Type.String()
	}
	switch v.Type {
	case types.List:
		out := "["
		for _, e := range v.A.([]types.Value) {
			out += text(e) + ","
		}
		return out + "]"
	case types.Encoding:
		s := v.A.(interface {
			String() string
			MarshalJSON() ([]byte, error)
		})
		structure, err := s.MarshalJSON()
		return s.String() + string(structure) + errorText(err)
	}
	v.A = nil
	return strings.Join([]string{v.Type.String(), v.S, types.Float(v.F).Type.String(), time.Duration(v.I).String(), floatText(v.F)}, "|")
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func floatText(f float64) string { return time.Duration(f * 1e6).String() }

// Errors are the engine's, with their position in the statement that was sent.
func TestErrorsHaveTheirPlace(t *testing.T) {
	s := serve(t, flight.Options{})
	near, far := s.local(t), s.session(t, wire.Options{})
	for _, statement := range []string{
		"SELECT nope FROM series(3)", "SELEC 1", "SELECT * FROM cpu_usage", "SET nonsense = 1", "SELECT $1 FROM series(1)",
		"SELECT * FROM function_start", "DROP STREAM nosuch", "",
	} {
		_, want := near.Execute(t.Context(), statement)
		_, got := far.Execute(t.Context(), statement)
		var mistake *parser.Error
		if !errors.As(got, &mistake) || got.Error() != want.Error() {
			t.Errorf("%s:\n%v\nremote\n%v", statement, want, got)
		}
	}
	// An error at the end of a query.
	if _, err := far.Execute(t.Context(), "SELECT 9223372036854775807 + n AS x FROM series(3)"); err == nil {
		r := execute(t, far, "SELECT SUM(9223372036854775807 - n) FROM series(3)")
		_, err := r.Next(t.Context())
		var mistake *parser.Error
		if !errors.As(err, &mistake) {
			t.Errorf("the sum that does not fit: %v", err)
		}
	}
	if _, err := far.Describe(t.Context(), "SELECT nope FROM series(3)"); err == nil || !strings.Contains(err.Error(), "^") {
		t.Errorf("Describe: %v", err)
	}
}

func TestParameters(t *testing.T) {
	x := serve(t, flight.Options{}).session(t, wire.Options{})
	rows, _, _ := all(t, execute(t, x, "SELECT n, $2 AS s, $3 AS d FROM series(10) WHERE n > $1", types.Int(8), types.Str("it's"), types.Dur(5)))
	if len(rows) != 2 || rows[0][1].S != "it's" || rows[0][2].Type != types.Duration {
		t.Errorf("%v", rows)
	}
	if _, err := x.Execute(t.Context(), "SELECT n FROM series($1)", types.Int(1), types.Int(2)); err == nil {
		t.Error("two values for one parameter are taken")
	}
	d, err := x.Describe(t.Context(), "SELECT n, $2 || 'x' AS s FROM series(10) WHERE n > $1")
	if err != nil || d.Params != 2 || len(d.Columns) != 2 || d.Columns[1].Type != types.Varchar {
		t.Errorf("%+v, %v", d, err)
	}
}

// Stop makes a query return what it has; Close abandons it. Neither leaves anything
// attached.
func TestStopAndClose(t *testing.T) {
	s := serve(t, flight.Options{})
	x := s.session(t, wire.Options{})
	testenv.Once(t, func() error {
		r := execute(t, x, "SELECT COUNT(*) FROM SAMPLE(cpu_usage, 10ms)")
		time.AfterFunc(500*time.Millisecond, r.Stop)
		if rows, _, _ := all(t, r); len(rows) != 1 || rows[0][0].I < 2 {
			return fmt.Errorf("stopped, it gave %v", rows)
		}
		return nil
	})
	r := execute(t, x, endless)
	if _, err := r.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.running(t); n != 1 {
		t.Errorf("%d queries run", n)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if n := s.running(t); n != 0 {
		t.Errorf("%d queries run after Close", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r = execute(t, x, endless)
	cancel()
	for {
		if _, err := r.Next(ctx); err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			break
		}
	}
	_ = r.Close()
}

// A session and its queries end with the client, however that ends.
func TestQueriesEndWithTheClient(t *testing.T) {
	s := serve(t, flight.Options{ClientTimeout: 20 * time.Second})
	t.Run("closed", func(t *testing.T) {
		x := s.session(t, wire.Options{})
		execute(t, x, endless)
		if err := x.Close(); err != nil {
			t.Error(err)
		}
		if n := s.running(t); n != 0 {
			t.Errorf("%d queries run", n)
		}
	})
	for how, link := range map[string]func(*proxy){"killed": (*proxy).cut, "frozen": (*proxy).freeze} {
		t.Run(how, func(t *testing.T) {
			if how == "frozen" {
				testenv.Long(t) // the server's time limit
			}
			p := newProxy(t, s.addr)
			e, err := remote.Dial(p.addr, remote.Options{})
			if err != nil {
				t.Fatal(err)
			}
			x, err := e.NewSession(t.Context(), wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := execute(t, x, endless)
			testenv.Until(t, "the query runs", func() bool { return s.running(t) == 1 })
			link(p)
			t.Logf("ended after %v", testenv.Until(t, "the query has ended", func() bool { return s.running(t) == 0 }))
			p.cut()
			var lost *remote.LostError
			for err == nil {
				_, err = r.Next(t.Context())
			}
			if !errors.As(err, &lost) {
				t.Errorf("the client gets the error %v", err)
			}
			_ = r.Close()
			_ = x.Close()
		})
	}
}

// Rows that a client does not read are dropped where live sources would have to wait.
// The gaps that the client sees equal what the server counts.
func TestGapsAreWhatTheServerCounts(t *testing.T) {
	testenv.Long(t)
	s := serve(t, flight.Options{Unread: 4 << 10})
	x := s.session(t, wire.Options{})
	testenv.Once(t, func() error {
		// Each sample is joined with every other: few samples give very many rows.
		r := execute(t, x, "SELECT a.timestamp, b.timestamp, 'some text' AS t FROM SAMPLE(cpu_core_usage, 5ms) a WINDOW JOIN SAMPLE(cpu_core_usage, 5ms) b WINDOW 2s FOR 1500ms")
		var received, gaps, next uint64
		for {
			ev, err := r.Next(t.Context())
			if next == 0 {
				// The query does not end before its last rows are read: once its
				// sources have ended, it waits for its client.
				testenv.Until(t, "rows are lost, or the query has ended", func() bool {
					lost, _, _ := all(t, execute(t, s.local(t), "SELECT query_id FROM sys.queries WHERE lost > 0"))
					return len(lost) > 0 || s.running(t) == 0
				})
			}
			if ev.Row > next {
				gaps += ev.Row - next
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if ev.Batch == nil {
				continue
			}
			received += uint64(ev.Batch.Len())
			next = ev.Row + uint64(ev.Batch.Len())
			ev.Batch.Release()
		}
		sum := r.Summary()
		var lost uint64
		for _, l := range sum.Losses {
			if l.Cause == "not read in time" {
				lost += l.N
			}
		}
		t.Logf("received %d, lost %d", received, lost)
		if received != sum.Rows || gaps != lost {
			t.Errorf("received %d of %d, gaps of %d and %d counted as lost", received, sum.Rows, gaps, lost)
		}
		if lost == 0 {
			return errors.New("nothing was lost: the test shows nothing")
		}
		return nil
	})
}

func TestTheServersEnd(t *testing.T) {
	s := serve(t, flight.Options{})
	x := s.session(t, wire.Options{})
	r := execute(t, x, "SELECT COUNT(*) FROM SAMPLE(cpu_usage, 10ms)")
	time.AfterFunc(50*time.Millisecond, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		s.service.Stop(ctx)
	})
	if rows, _, _ := all(t, r); len(rows) != 1 || len(r.Summary().Notes) != 1 {
		t.Errorf("the query gave %v, %+v", rows, r.Summary())
	}
	_, err := x.Execute(t.Context(), "SHOW STREAMS")
	var lost *remote.LostError
	if !errors.As(err, &lost) {
		t.Errorf("after the end: %v", err)
	}
}

func TestWhatASessionSays(t *testing.T) {
	s := serve(t, flight.Options{})
	notes := make(chan string, 10)
	x := s.session(t, wire.Options{Notify: func(text string) { notes <- text }})
	execute(t, x, "CREATE TRIGGER heard ON SAMPLE(cpu_usage, 10ms) WHEN percent_busy >= 0 BEGIN NOTIFY 'it works' END")
	select {
	case n := <-notes:
		if !strings.Contains(n, "it works") {
			t.Errorf("it says %q", n)
		}
	case <-time.After(2 * time.Minute):
		t.Error("it says nothing")
	}
	ev, err := x.Triggered(true).Next(t.Context())
	if err != nil || ev.Batch.Cols[1].Value(0).S != "heard" {
		t.Errorf("%+v, %v", ev, err)
	}
	execute(t, x, "DROP TRIGGER heard")
	if got := x.Complete(t.Context(), "stream", "", "cpu_us"); len(got) != 1 {
		t.Errorf("completions are %v", got)
	}
	if got := x.Info(); len(got) < 2 || !strings.Contains(got[0], s.addr) {
		t.Errorf("Info of the connection: %v", got)
	}
}
