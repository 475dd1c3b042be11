package flight

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	_ "github.com/apache/arrow-go/v18/arrow/flight/flightsql/driver"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// records reads the result of a FlightInfo, and returns each record's rows as
// text, with the application metadata.
func records(t testing.TB, c *flightsql.Client, info *flight.FlightInfo) (rows []string, frames []wire.Frame) {
	t.Helper()
	r, err := c.DoGet(t.Context(), info.Endpoint[0].Ticket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	for r.Next() {
		rec := r.RecordBatch()
		if meta := r.LatestAppMetadata(); len(meta) > 0 {
			f, err := wire.DecodeFrame(meta)
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, f)
		}
		for i := range int(rec.NumRows()) {
			cells := make([]string, rec.NumCols())
			for c := range cells {
				cells[c] = rec.Column(c).ValueStr(i)
			}
			rows = append(rows, strings.Join(cells, "|"))
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return rows, frames
}

// Tables of other users are browsed with their owners, by a user who sees them.
func TestTablesOfOwners(t *testing.T) {
	e := engine(t).(*server.Engine)
	t.Cleanup(func() { e.Close() })
	for _, user := range []string{"alice", "root"} {
		s, err := e.As(&grant.Grant{User: user}).NewSession(t.Context(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r, err := s.Execute(t.Context(), "CREATE STREAM own AS SELECT n AS "+user+" FROM series(1)")
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	pattern := "%own"
	for _, c := range []struct {
		user  string
		admin bool
		want  string
	}{{"alice", false, "own:alice"}, {"root", true, "alice.own:alice root.own:root"}} {
		client := foreign(t, serve(t, e.As(&grant.Grant{User: c.user, Admin: c.admin}), Options{}))
		info, err := client.GetTables(t.Context(), &flightsql.GetTablesOpts{TableNameFilterPattern: &pattern, IncludeSchema: true})
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.DoGet(t.Context(), info.Endpoint[0].Ticket)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for r.Next() {
			rec := r.RecordBatch()
			for i := range int(rec.NumRows()) {
				schema, err := flight.DeserializeSchema(rec.Column(4).(*array.Binary).Value(i), memory.DefaultAllocator)
				if err != nil || schema.NumFields() != 1 {
					t.Fatalf("%s has %v, %v", rec.Column(2).ValueStr(i), schema, err)
				}
				got = append(got, rec.Column(2).ValueStr(i)+":"+schema.Field(0).Name)
			}
		}
		r.Release()
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s sees %q, want %s", c.user, got, c.want)
		}
	}
}

func TestForeignClientBrowses(t *testing.T) {
	c := foreign(t, serve(t, engine(t), Options{Version: "v1"}))
	ctx := t.Context()
	pattern := "cpu%"
	info, err := c.GetTables(ctx, &flightsql.GetTablesOpts{TableNameFilterPattern: &pattern, TableTypes: []string{"VALUE"}, IncludeSchema: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.DoGet(ctx, info.Endpoint[0].Ticket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var names []string
	for r.Next() {
		rec := r.RecordBatch()
		for i := range int(rec.NumRows()) {
			names = append(names, rec.Column(2).ValueStr(i))
			schema, err := flight.DeserializeSchema(rec.Column(4).(*array.Binary).Value(i), memory.DefaultAllocator)
			if err != nil || schema.NumFields() < 2 || schema.Field(0).Name != "timestamp" || schema.Field(0).Type.ID() != arrow.TIMESTAMP {
				t.Errorf("%s has %v, %v", names[len(names)-1], schema, err)
			}
		}
	}
	if !slices.Contains(names, "cpu_usage") || slices.ContainsFunc(names, func(n string) bool { return !strings.HasPrefix(n, "cpu") }) {
		t.Errorf("tables are %v", names)
	}
	for what, ask := range map[string]func() (*flight.FlightInfo, error){
		"catalogs":    func() (*flight.FlightInfo, error) { return c.GetCatalogs(ctx) },
		"schemas":     func() (*flight.FlightInfo, error) { return c.GetDBSchemas(ctx, &flightsql.GetDBSchemasOpts{}) },
		"table types": func() (*flight.FlightInfo, error) { return c.GetTableTypes(ctx) },
		"types":       func() (*flight.FlightInfo, error) { return c.GetXdbcTypeInfo(ctx, nil) },
		"information": func() (*flight.FlightInfo, error) { return c.GetSqlInfo(ctx, nil) },
		"primary keys": func() (*flight.FlightInfo, error) {
			return c.GetPrimaryKeys(ctx, flightsql.TableRef{Table: "cpu_usage"})
		},
		"imported keys": func() (*flight.FlightInfo, error) {
			return c.GetImportedKeys(ctx, flightsql.TableRef{Table: "cpu_usage"})
		},
		"exported keys": func() (*flight.FlightInfo, error) {
			return c.GetExportedKeys(ctx, flightsql.TableRef{Table: "cpu_usage"})
		},
		"cross reference": func() (*flight.FlightInfo, error) {
			return c.GetCrossReference(ctx, flightsql.TableRef{}, flightsql.TableRef{})
		},
	} {
		info, err := ask()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		rows, _ := records(t, c, info)
		want := map[string]string{"table types": "STREAM", "types": "VARCHAR", "information": "Endoscope"}[what]
		if !strings.Contains(strings.Join(rows, "\n"), want) {
			t.Errorf("%s: %v", what, rows)
		}
	}
}

func TestForeignClientPrepares(t *testing.T) {
	c := foreign(t, serve(t, engine(t), Options{}))
	ctx := t.Context()
	p, err := c.Prepare(ctx, "SELECT n, $2 || 'x' AS s FROM series(10) WHERE n > $1")
	if err != nil {
		t.Fatal(err)
	}
	if s := p.DatasetSchema(); s.NumFields() != 2 || s.Field(1).Name != "s" {
		t.Errorf("it would give %v", s)
	}
	if s := p.ParameterSchema(); s.NumFields() != 2 || s.Field(0).Type.ID() != arrow.INT64 || s.Field(1).Type.ID() != arrow.STRING {
		t.Errorf("its parameters are %v", s)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "1", Type: arrow.PrimitiveTypes.Int64}, {Name: "2", Type: arrow.BinaryTypes.String}}, nil))
	for _, above := range []int64{8, 7} { // executed twice
		b.Field(0).(*array.Int64Builder).Append(above)
		b.Field(1).(*array.StringBuilder).Append("it's")
		p.SetParameters(b.NewRecordBatch())
		info, err := p.Execute(ctx)
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := records(t, c, info)
		if len(rows) != int(10-above) || rows[len(rows)-1] != "10|it'sx" {
			t.Errorf("above %d: %v", above, rows)
		}
	}
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := c.Prepare(ctx, "SELECT nope FROM series(1)"); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "no column nope") {
		t.Errorf("%v", err)
	}
}

// A connection is a session; notices and the summary come with the records.
func TestForeignClientsSession(t *testing.T) {
	addr := serve(t, engine(t), Options{})
	c, other := foreign(t, addr), foreign(t, addr)
	if _, err := c.ExecuteUpdate(t.Context(), "SET lateness = 3s"); err != nil {
		t.Fatal(err)
	}
	setting := func(c *flightsql.Client) string {
		info, err := c.Execute(t.Context(), "SHOW SETTINGS LIKE 'lateness'")
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := records(t, c, info)
		return rows[0]
	}
	if got := setting(c); !strings.Contains(got, "3s") {
		t.Errorf("it is %s", got)
	}
	if got := setting(other); strings.Contains(got, "3s") {
		t.Errorf("another session's is %s", got)
	}
	info, err := c.Execute(t.Context(), "SELECT n, 'a' AS s FROM series(5)")
	if err != nil {
		t.Fatal(err)
	}
	rows, frames := records(t, c, info)
	last := frames[len(frames)-1]
	if len(rows) != 5 || frames[0].Kind != wire.FrameBegin || last.Kind != wire.FrameEnd || last.Summary.Rows != 5 || last.Row != 5 {
		t.Errorf("%v, %+v", rows, frames)
	}
	// A client cannot get another's result, nor a result twice.
	info, err = c.Execute(t.Context(), "SELECT n FROM series(5)")
	if err != nil {
		t.Fatal(err)
	}
	for _, thief := range []*flightsql.Client{other, c, c} {
		r, err := thief.DoGet(t.Context(), info.Endpoint[0].Ticket)
		if err == nil {
			for r.Next() {
			}
			err = r.Err()
			r.Release()
		}
		if thief == other && status.Code(err) != codes.NotFound {
			t.Errorf("somebody else gets it: %v", err)
		}
	}
	if _, err := c.DoGet(t.Context(), info.Endpoint[0].Ticket); status.Code(err) != codes.NotFound {
		t.Errorf("it is there again: %v", err)
	}
}

func TestForeignClientCancels(t *testing.T) {
	c := foreign(t, serve(t, engine(t), Options{ClientTimeout: 10 * time.Second}))
	running := func() int {
		info, err := c.Execute(t.Context(), "SHOW QUERIES")
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := records(t, c, info)
		return len(rows)
	}
	const endless = "SELECT timestamp FROM SAMPLE(cpu_usage, 10ms)"
	info, err := c.Execute(t.Context(), endless)
	if err != nil || running() != 1 {
		t.Fatalf("%v, %d queries", err, running())
	}
	res, err := c.CancelFlightInfo(t.Context(), &flight.CancelFlightInfoRequest{Info: info})
	if err != nil || res.GetStatus() != flight.CancelStatusCancelled || running() != 0 {
		t.Errorf("%v, %v, %d queries", res.GetStatus(), err, running())
	}
	// A result that is not requested ends, too.
	if _, err := c.Execute(t.Context(), endless); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the query has ended", func() bool { return running() == 0 })
}

// Strings are dictionary-encoded for clients that request it.
func TestStringsAsCodes(t *testing.T) {
	c := foreign(t, serve(t, engine(t), Options{}))
	info, err := c.Execute(t.Context(), "SELECT 'a' || (n % 3)::VARCHAR AS s FROM series(2000)")
	if err != nil {
		t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), wire.StringsHeader, wire.StringsCoded)
	r, err := c.DoGet(ctx, info.Endpoint[0].Ticket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	n := 0
	for r.Next() {
		d, ok := r.RecordBatch().Column(0).(*array.Dictionary)
		if !ok {
			t.Fatalf("it is %v", r.RecordBatch().Column(0))
		}
		for i := range d.Len() {
			n++
			if want := "a" + string(rune('0'+n%3)); d.Dictionary().ValueStr(d.GetValueIndex(i)) != want {
				t.Fatalf("row %d is not %s", n, want)
			}
		}
	}
	if n != 2000 || r.Err() != nil {
		t.Errorf("%d rows, %v", n, r.Err())
	}
}

// The database/sql driver that is part of Arrow.
func TestArrowsDatabaseDriver(t *testing.T) {
	db, err := sql.Open("flightsql", "flightsql://"+serve(t, engine(t), Options{})+"?timeout=10s")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT n, 'r' || n::VARCHAR AS s, n * 1ms AS d, n * 0.5 AS f FROM series(3000) WHERE n > $1", 10)
	if err != nil {
		t.Fatal(err)
	}
	want := int64(11)
	for rows.Next() {
		var n int64
		var s string
		var d time.Duration
		var f float64
		if err := rows.Scan(&n, &s, &d, &f); err != nil || n != want || d != time.Duration(n)*time.Millisecond || f != float64(n)/2 {
			t.Fatalf("%d %s %v %v %v", n, s, d, f, err)
		}
		want++
	}
	if rows.Err() != nil || want != 3001 {
		t.Errorf("up to %d, %v", want, rows.Err())
	}
}

// After a record with a watermark no earlier row follows.
func TestWatermarks(t *testing.T) {
	c := foreign(t, serve(t, engine(t), Options{}))
	ms := 0
	testenv.Once(t, func() error {
		ms += 1500
		info, err := c.Execute(t.Context(), fmt.Sprintf("SELECT timestamp FROM SAMPLE(cpu_usage, 10ms) FOR %dms", ms))
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.DoGet(t.Context(), info.Endpoint[0].Ticket)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		mark, marks, rows := int64(0), 0, 0
		for r.Next() {
			rec := r.RecordBatch()
			for i := range int(rec.NumRows()) {
				rows++
				if at := int64(rec.Column(0).(*array.Timestamp).Value(i)); at < mark {
					t.Fatalf("row %d is of %d, after the watermark %d", rows, at, mark)
				}
			}
			f, err := wire.DecodeFrame(r.LatestAppMetadata())
			if err != nil {
				t.Fatal(err)
			}
			if f.Watermark > mark {
				marks++
			}
			if f.Watermark < mark {
				t.Fatalf("a watermark goes back: %d, %d", mark, f.Watermark)
			}
			mark = f.Watermark
		}
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		if rows == 0 || marks == 0 {
			return fmt.Errorf("%d rows, %d watermarks", rows, marks)
		}
		return nil
	})
	// Line numbers are not times.
	path := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(path, []byte("n\n1\n2\n3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := c.Execute(t.Context(), "SELECT n FROM file('"+path+"')")
	if err != nil {
		t.Fatal(err)
	}
	_, frames := records(t, c, info)
	for _, f := range frames {
		if f.Watermark != 0 {
			t.Errorf("the watermark of a file without times: %+v", f)
		}
	}
}
