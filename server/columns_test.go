package server_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// wideFile writes a file with these numbers of columns and rows.
func wideFile(t *testing.T, name string, columns, rows int) string {
	t.Helper()
	var b strings.Builder
	line := func(cell func(i int) string, open, end string) {
		b.WriteString(open)
		for i := range columns {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(cell(i))
		}
		b.WriteString(end)
	}
	csv := strings.HasSuffix(name, ".csv")
	if csv {
		line(func(i int) string { return fmt.Sprint("c", i) }, "", "\n")
	}
	for row := range rows {
		if csv {
			line(func(i int) string { return fmt.Sprint(row) }, "", "\n")
		} else {
			line(func(i int) string { return fmt.Sprintf(`"c%d":%d`, i, row) }, "{", "}\n")
		}
	}
	path := filepath.Join(t.TempDir(), name)
	write(t, path, b.String())
	return path
}

// A file of 100,000 columns is refused before it takes memory, also where a statement is
// only described; so is a user's statement. One with as many columns as are allowed is
// read within a user's memory, in short batches.
func TestFilesOfManyColumns(t *testing.T) {
	g := &grant.Grant{User: "alice", Anywhere: true, Account: grant.NewAccount(grant.Limits{Memory: 2 << 30})}
	ws := newShop(t).session(g)
	for _, name := range []string{"wide.csv", "wide.jsonl"} {
		path := wideFile(t, name, 100_000, 2)
		statement := "SELECT * FROM file('" + path + "')"
		want := path + " has more than 2000 columns"
		if got := refusal(t, ws, statement); !strings.Contains(got, want) {
			t.Errorf("%s: %.300s", name, got)
		}
		if _, err := ws.Describe(t.Context(), statement); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is described: %v", name, err)
		}
	}
	const rows = 300
	path := wideFile(t, "most.csv", 2000, rows)
	d, err := ws.Describe(t.Context(), "SELECT * FROM file('"+path+"')")
	if err != nil || len(d.Columns) != 2000+1 { // and the number of the line
		t.Fatalf("%d columns: %v", len(d.Columns), err)
	}
	r := start(t, ws, "SELECT * FROM file('"+path+"')")
	defer r.Close()
	n := 0
	for {
		ev, err := r.Next(t.Context())
		if err != nil {
			break
		}
		if ev.Kind != wire.Rows {
			continue
		}
		if most := batch.RowsFor(2001); ev.Batch.Len() > most {
			t.Errorf("a batch of %d rows, at most %d are wanted", ev.Batch.Len(), most)
		}
		for i := range ev.Batch.Len() {
			if v := ev.Batch.Cols[1999].Value(ev.Batch.Row(i)); v.I != int64(n) {
				t.Fatalf("row %d has %v", n, v)
			}
			n++
		}
		ev.Batch.Release()
	}
	if n != rows {
		t.Errorf("%d rows", n)
	}
	if values := batch.RowsFor(2001) * 2001; values > 32*batch.MaxRows || batch.RowsFor(32) != batch.MaxRows || batch.RowsFor(33) >= batch.MaxRows {
		t.Errorf("%d values in a batch", values)
	}
}
