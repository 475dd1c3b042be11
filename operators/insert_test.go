package operators

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// everyType has one column of each type that a file can hold.
const everyType = "t:timestamp d:duration i:bigint f:double b:boolean s:varchar y:bytes l:list"

func insertFile(t *testing.T, name, columns, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	n := &plan.Insert{Input: relation(columns), Path: path}
	out, err := perform(n, Options{}, script, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := "3\nclose\n"; out != want {
		t.Errorf("result %q, want %q", out, want)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

const everyRow = `
	1700000000123456789 1500 -7 0.25 true plain hi p,q
	null null null null null null null null
	0 0 9223372036854775807 NaN false 'a,"b' '' x
	close`

func TestInsertCSV(t *testing.T) {
	expect(t, insertFile(t, "out.csv", everyType, everyRow), `
		t,d,i,f,b,s,y,l
		2023-11-14T22:13:20.123456789Z,1500,-7,0.25,true,plain,6869,"[""p"",""q""]"
		,,,,,,,
		1970-01-01T00:00:00Z,0,9223372036854775807,NaN,false,"a,""b",,"[""x""]"`)
}

func TestInsertJSONL(t *testing.T) {
	expect(t, insertFile(t, "out.jsonl", everyType, everyRow), `
		{"t":"2023-11-14T22:13:20.123456789Z","d":1500,"i":-7,"f":0.25,"b":true,"s":"plain","y":"6869","l":["p","q"]}
		{"t":null,"d":null,"i":null,"f":null,"b":null,"s":null,"y":null,"l":null}
		{"t":"1970-01-01T00:00:00Z","d":0,"i":9223372036854775807,"f":"NaN","b":false,"s":"a,\"b","y":"","l":["x"]}`)
}

// A reader must see the row, and the difference between NULL and the empty
// text where the row has more columns.
func TestInsertCSVOneColumn(t *testing.T) {
	expect(t, insertFile(t, "out.csv", "s:varchar", "null\n''\nx\nclose"), `
		s
		""
		""
		x`)
	expect(t, insertFile(t, "out.csv", "s:varchar i:bigint", "null 1\n'' 2\nx null\nclose"), `
		s,i
		,1
		"",2
		x,`)
}

func TestFileTexts(t *testing.T) {
	for _, c := range []struct{ in, csv, json string }{
		{"", `""`, `""`},
		{"plain é", `plain é`, `"plain é"`},
		{"a\nb\r\t", "\"a\nb\r\t\"", `"a\nb\r\t"`},
		{` x`, `" x"`, `" x"`},
		{`\"`, `"\"""`, `"\\\""`},
		{"\x01\u2028", "\x01\u2028", `"\u0001\u2028"`},
		{"\xff", "\xff", "\"\ufffd\""},
	} {
		if got := string(appendCSVText(nil, c.in)); got != c.csv {
			t.Errorf("CSV %q: %s", c.in, got)
		}
		if got := string(appendJSONText(nil, c.in)); got != c.json {
			t.Errorf("JSON %q: %s", c.in, got)
		}
	}
}

// A file holds what a query gave, not what it showed in between.
func TestInsertWritesNoPreview(t *testing.T) {
	var file memoryFile
	s := orderBy(relation("x:bigint"), "x desc")
	out, err := perform(&plan.Insert{Input: s, Path: "x.csv"}, Options{OpenFile: file.open}, "1\n2\npreview 5\nclose", false)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, out, "2\nclose")
	expect(t, file.String(), "x\n2\n1")
	if !file.closed {
		t.Error("the file is still open")
	}
}

// Somebody who follows the file sees rows at most a second late, as long as
// signals come, which they do when idle too.
func TestInsertFlushesEachSecond(t *testing.T) {
	var file memoryFile
	in := relation("x:bigint")
	f, err := newInsert(&plan.Insert{Input: in, Path: "x.jsonl"}, &recorder{}, file.open)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(1000, 0)
	f.now = func() time.Time { return clock }
	b := batch.New(in.Out.Types())
	b.AppendRow(types.Int(1))
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{999 * time.Millisecond, ""},
		{time.Millisecond, "{\"x\":1}\n{\"x\":1}\n"},
		{999 * time.Millisecond, "{\"x\":1}\n{\"x\":1}\n"},
	} {
		if _, err := f.Push(t.Context(), 0, b); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(step.after)
		if _, err := f.Signal(t.Context(), 0, Signal{Kind: Watermark}); err != nil {
			t.Fatal(err)
		}
		if got := file.String(); got != step.want {
			t.Errorf("after %v the file is %q", step.after, got)
		}
	}
}

// A file that cannot be written ends the query at its first sign of life, in
// words about the file; a refused statement has not touched it.
func TestInsertErrors(t *testing.T) {
	n := &plan.Insert{Input: relation("x:bigint"), Path: "/no/such/dir/x.csv"}
	expect(t, play(t, n, Options{}, "wm 1"), "error: cannot write '/no/such/dir/x.csv': no such file or directory")

	full := &memoryFile{err: &fs.PathError{Op: "write", Path: "x.csv", Err: syscall.ENOSPC}}
	n.Path = "x.csv"
	expect(t, play(t, n, Options{OpenFile: full.open}, "1\nclose"), "error: cannot write 'x.csv': no space left on device")

	n.Path = "x.parquet"
	_, err := Build(n, &recorder{}, &Options{})
	var pe *plan.Error
	if !errors.As(err, &pe) || pe.Hint == "" {
		t.Errorf("error %v", err)
	}

	path := filepath.Join(t.TempDir(), "x.csv")
	n.Path = path
	if _, err := Build(n, &recorder{}, &Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Build made the file: %v", err)
	}
}

// A query that ends with an error closes its file.
func TestAbandonClosesFile(t *testing.T) {
	var file memoryFile
	n := &plan.Insert{Input: relation("x:bigint"), Path: "x.csv"}
	if _, err := perform(n, Options{OpenFile: file.open}, "1\n--", false); err != nil {
		t.Fatal(err)
	}
	if !file.closed {
		t.Error("the file is still open")
	}
}

type memoryFile struct {
	bytes.Buffer
	closed bool
	err    error
}

func (m *memoryFile) open(string) (io.WriteCloser, error) { return m, nil }
func (m *memoryFile) Close() error                        { m.closed = true; return nil }
func (m *memoryFile) Write(p []byte) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	return m.Buffer.Write(p)
}

// With Append what the file has stays, and its header stands once.
func TestInsertAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.csv")
	for _, script := range []string{"1\n2\nclose", "close", "3\nclose"} {
		if _, err := perform(&plan.Insert{Input: relation("x:bigint"), Path: path, Append: true}, Options{}, script, true); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if want := "x\n1\n2\n3\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
