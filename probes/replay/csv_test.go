package replay

import (
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
)

func readCSV(r io.Reader) ([][]string, error) {
	c := newCSVReader(r)
	var all [][]string
	for {
		fields, err := c.next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		var row []string
		for _, f := range fields {
			row = append(row, string(f))
		}
		all = append(all, row)
	}
}

func TestCSVAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"a", "bc", ",", ",", `"`, `"`, `""`, "\n", "\r\n", "\r", " ", "é", "\x00",
		})).Draw(t, "text"), "")
		oracle := csv.NewReader(strings.NewReader(text))
		oracle.LazyQuotes, oracle.FieldsPerRecord = true, -1
		want, err := oracle.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]io.Reader{
			"whole":         strings.NewReader(text),
			"byte by byte":  iotest.OneByteReader(strings.NewReader(text)),
			"with late EOF": iotest.DataErrReader(strings.NewReader(text)),
		} {
			got, err := readCSV(r)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
				t.Fatalf("%q, %s:\ngot  %q\nwant %q", text, name, got, want)
			}
		}
	})
}

func TestCSVReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// The header comes first: a mark at the very beginning is no data.
		want := append([][]string{{"a", "b"}}, rapid.SliceOf(rapid.SliceOfN(rapid.String(), 2, 5)).Draw(t, "rows")...)
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		w.WriteAll(want)
		for _, row := range want {
			for i := range row { // like any CSV reader
				row[i] = strings.ReplaceAll(row[i], "\r\n", "\n")
			}
		}
		got, err := readCSV(&b)
		if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Fatalf("got %q, %v\nwant %q", got, err, want)
		}
	})
}

func TestCSVBounds(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for _, c := range []struct{ text, want string }{
		{"a\n" + long, ""},
		{"a\n" + long + "\nb", ""},
		{"a\n" + long + "y", "line 2 is longer than 16 MiB"},
		{"a\n" + long + long + "\n", "line 2 is longer than 16 MiB"},
		{"a\n\"" + strings.Repeat(strings.Repeat("x", 1<<20)+"\n", 17), `the record on line 2 is longer than 16 MiB: is a quote not closed?`},
	} {
		_, err := readCSV(strings.NewReader(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestLineNumbers(t *testing.T) {
	c := newCSVReader(strings.NewReader("\ufeffa,b\r\n\r\n1,\"x\ny\"\n\n\n2,z"))
	var got []int64
	for {
		fields, err := c.next()
		if err != nil {
			break
		}
		got = append(got, c.line)
		if c.line == 1 && string(fields[0]) != "a" {
			t.Errorf("first field is %q", fields[0])
		}
	}
	if want := []int64{1, 3, 7}; !slices.Equal(got, want) {
		t.Errorf("records begin on lines %v, want %v", got, want)
	}
}
