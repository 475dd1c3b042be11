package graph_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"endoscope/operators"
	"endoscope/operators/graph"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
)

// everyType has one column of each type that a file can hold.
const everyType = "t:timestamp d:duration i:bigint f:double b:boolean s:varchar y:bytes l:list"

func insertFile(t *testing.T, name, columns, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	n := &plan.Insert{Input: testplan.Relation(columns), Path: path}
	out, err := play.Perform(n, operators.Options{}, script, true)
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
	testplan.Expect(t, insertFile(t, "out.csv", everyType, everyRow), `
		t,d,i,f,b,s,y,l
		2023-11-14T22:13:20.123456789Z,1500,-7,0.25,true,plain,6869,"[""p"",""q""]"
		,,,,,,,
		1970-01-01T00:00:00.000000000Z,0,9223372036854775807,NaN,false,"a,""b",,"[""x""]"`)
}

func TestInsertJSONL(t *testing.T) {
	testplan.Expect(t, insertFile(t, "out.jsonl", everyType, everyRow), `
		{"t":"2023-11-14T22:13:20.123456789Z","d":1500,"i":-7,"f":0.25,"b":true,"s":"plain","y":"6869","l":["p","q"]}
		{"t":null,"d":null,"i":null,"f":null,"b":null,"s":null,"y":null,"l":null}
		{"t":"1970-01-01T00:00:00.000000000Z","d":0,"i":9223372036854775807,"f":"NaN","b":false,"s":"a,\"b","y":"","l":["x"]}`)
}

// A reader must see the row, and the difference between NULL and the empty
// text where the row has more columns.
func TestInsertCSVOneColumn(t *testing.T) {
	testplan.Expect(t, insertFile(t, "out.csv", "s:varchar", "null\n''\nx\nclose"), `
		s
		""
		""
		x`)
	testplan.Expect(t, insertFile(t, "out.csv", "s:varchar i:bigint", "null 1\n'' 2\nx null\nclose"), `
		s,i
		,1
		"",2
		x,`)
}

// A file holds what a query gave, not what it showed in between.
func TestInsertWritesNoPreview(t *testing.T) {
	var file testplan.MemoryFile
	s := testplan.OrderBy(testplan.Relation("x:bigint"), "x desc")
	out, err := play.Perform(&plan.Insert{Input: s, Path: "x.csv"}, operators.Options{OpenFile: file.Open}, "1\n2\npreview 5\nclose", false)
	if err != nil {
		t.Fatal(err)
	}
	testplan.Expect(t, out, "2\nclose")
	testplan.Expect(t, file.String(), "x\n2\n1")
	if !file.Closed {
		t.Error("the file is still open")
	}
}

// A file that cannot be written ends the query at its first sign of life, in
// words about the file; a refused statement has not touched it.
func TestInsertErrors(t *testing.T) {
	n := &plan.Insert{Input: testplan.Relation("x:bigint"), Path: "/no/such/dir/x.csv"}
	testplan.Expect(t, play.Run(t, n, operators.Options{}, "wm 1"), "error: cannot write '/no/such/dir/x.csv': no such file or directory")

	full := &testplan.MemoryFile{Err: &fs.PathError{Op: "write", Path: "x.csv", Err: syscall.ENOSPC}}
	n.Path = "x.csv"
	testplan.Expect(t, play.Run(t, n, operators.Options{OpenFile: full.Open}, "1\nclose"), "error: cannot write 'x.csv': no space left on device")

	n.Path = "x.parquet"
	_, err := graph.Build(n, &testplan.Recorder{}, &operators.Options{})
	var pe *plan.Error
	if !errors.As(err, &pe) || pe.Hint == "" {
		t.Errorf("error %v", err)
	}

	path := filepath.Join(t.TempDir(), "x.csv")
	n.Path = path
	if _, err := graph.Build(n, &testplan.Recorder{}, &operators.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Build made the file: %v", err)
	}
}

// A query that ends with an error closes its file.
func TestAbandonClosesFile(t *testing.T) {
	var file testplan.MemoryFile
	n := &plan.Insert{Input: testplan.Relation("x:bigint"), Path: "x.csv"}
	if _, err := play.Perform(n, operators.Options{OpenFile: file.Open}, "1\n--", false); err != nil {
		t.Fatal(err)
	}
	if !file.Closed {
		t.Error("the file is still open")
	}
}

// With Append what the file has stays, and its header stands once.
func TestInsertAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.csv")
	for _, script := range []string{"1\n2\nclose", "close", "3\nclose"} {
		if _, err := play.Perform(&plan.Insert{Input: testplan.Relation("x:bigint"), Path: path, Append: true}, operators.Options{}, script, true); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if want := "x\n1\n2\n3\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
