package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"

	"golang.org/x/sys/unix"
)

// write creates a file for the test.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// columnsOf prints a schema, with a star at event time.
func columnsOf(s types.Schema) string {
	var out []string
	for i, f := range s.Fields {
		c := f.Name + " " + f.Type.String()
		if i == s.Time {
			c += "*"
		}
		out = append(out, c)
	}
	return strings.Join(out, ", ")
}

func TestDescribe(t *testing.T) {
	many := strings.Repeat("1\n", SampleRows)
	for _, c := range []struct{ name, file, text, want string }{
		{"types", "a.csv", "i,f,b,t,s\n1,1.5,true,2024-02-29T12:00:00Z,x\n-2,2,FALSE,2024-01-01T00:00:00.5+01:00,1\n",
			"i BIGINT, f DOUBLE, b BOOLEAN, t TIMESTAMP, s VARCHAR, line BIGINT*"},
		{"empty fields tell nothing", "a.csv", "i,s\n,\n7,\n", "i BIGINT, s VARCHAR, line BIGINT*"},
		{"quotes, BOM, CRLF", "a.csv", "\ufeff\"i\",\"a \"\"b\"\"\"\r\n\"1\",\"x\ny\"\r\n", `i BIGINT, a "b" VARCHAR, line BIGINT*`},
		{"names", "a.csv", " a ,,b\n1,2,3\n", "a BIGINT, column2 BIGINT, b BIGINT, line BIGINT*"},
		{"header only", "a.csv", "a,b", "a VARCHAR, b VARCHAR, line BIGINT*"},
		{"has a line", "a.csv", "line\n1\n", "line BIGINT, line_number BIGINT*"},
		{"too large for BIGINT", "a.csv", "a,b,c,d\n9223372036854775807,9223372036854775808,18446744073709551616,-1\n1,0,0,9223372036854775808\n", "a BIGINT, b UBIGINT, c VARCHAR, d VARCHAR, line BIGINT*"},
		{"no numbers", "a.csv", "a,b,c,d\nnan,inf,0x10,1_000\n", "a VARCHAR, b VARCHAR, c VARCHAR, d VARCHAR, line BIGINT*"},
		{"only the first rows count", "a.csv", "a\n" + many + "x\n", "a BIGINT, line BIGINT*"},
		{"the last of them counts", "a.csv", "a\n" + many[2:] + "x\n", "a VARCHAR, line BIGINT*"},
		{"time as text", "a.csv", "timestamp,a\n2024-01-01T00:00:00Z,1\n", "timestamp TIMESTAMP*, a BIGINT"},
		{"time in ns", "a.csv", "a,timestamp\n1,1700000000000000000\n", "a BIGINT, timestamp TIMESTAMP*"},
		{"time in seconds", "a.csv", "timestamp\n1700000000\n1700000000.5\n", "timestamp TIMESTAMP*"},
		{"no time", "a.csv", "timestamp\nnoon\n", "timestamp VARCHAR, line BIGINT*"},
		{"ragged", "a.csv", "a,b\n1\n1,2,3\n", "a BIGINT, b BIGINT, line BIGINT*"},

		{"JSON types", "a.jsonl", `{"i":1,"f":1,"b":true,"t":"2024-01-01T00:00:00Z","s":"1","n":[1,{"a":2}],"z":null}` + "\n" + `{"f":1.5,"i":2}` + "\n",
			"i BIGINT, f DOUBLE, b BOOLEAN, t TIMESTAMP, s VARCHAR, n VARCHAR, z VARCHAR, line BIGINT*"},
		{"JSON union of keys", "a.jsonl", "{\"a\":1}\n\n{\"b\":2}\nno json\n{\"a\":3,\"c\":\"\"}\n", "a BIGINT, b BIGINT, c VARCHAR, line BIGINT*"},
		{"JSON mixed", "a.jsonl", `{"a":1,"b":"true"}` + "\n" + `{"a":"x","b":false}`, "a VARCHAR, b VARCHAR, line BIGINT*"},
		{"JSON time in seconds", "a.jsonl", `{"timestamp":1.5e9}`, "timestamp TIMESTAMP*"},
		{"JSON time in ns", "a.jsonl", `{"timestamp":1700000000000000000}`, "timestamp TIMESTAMP*"},
		{"JSON time as digits in a string", "a.jsonl", `{"timestamp":"1700000000"}`, "timestamp VARCHAR, line BIGINT*"},
		{"JSON empty", "a.jsonl", "", "line BIGINT*"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Describe(write(t, c.file, c.text))
			if err != nil {
				t.Fatal(err)
			}
			got := columnsOf(s)
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestDescribeRefuses(t *testing.T) {
	dir := t.TempDir()
	os.Mkdir(filepath.Join(dir, "d.csv"), 0o755)
	if err := unix.Mkfifo(filepath.Join(dir, "f.csv"), 0o644); err != nil {
		t.Fatal(err)
	}
	os.Symlink("/dev/zero", filepath.Join(dir, "z.jsonl"))
	for name, text := range map[string]string{
		"empty.csv": "", "blank.csv": "\n\n", "twice.csv": "a,b, a\n", "bad.jsonl": "\n[1]\n", "long.csv": "a\n" + strings.Repeat("x", MaxLine+1),
	} {
		os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
	}
	for name, want := range map[string]string{
		"none.csv":    "%s: no such file",
		"a.txt":       "%s: a file must be called .csv or .jsonl",
		"csv":         "%s: a file must be called .csv or .jsonl",
		"d.csv":       "%s is a directory",
		"f.csv":       "%s is not a regular file",
		"z.jsonl":     "%s is not a regular file",
		"empty.csv":   "%s is empty: a CSV file begins with the names of its columns",
		"blank.csv":   "%s is empty: a CSV file begins with the names of its columns",
		"twice.csv":   "%s has two columns called a",
		"bad.jsonl":   "%s: line 2 is not a JSON object",
		"long.csv":    "%s: line 2 is longer than 16 MiB",
		"d.csv/x.csv": "%s: no such file",
	} {
		path := filepath.Join(dir, name)
		_, err := Describe(path)
		var pe *plan.Error
		if !errors.As(err, &pe) {
			t.Errorf("%s: %v", name, err)
		} else if pe.Msg != fmt.Sprintf(want, path) {
			t.Errorf("got  %s\nwant "+want, pe.Msg, path)
		}
	}
}
