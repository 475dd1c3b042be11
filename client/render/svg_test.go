package render

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// checkXML fails if a text is not well-formed XML, or, unless it may have one, has a script.
func checkXML(t *testing.T, text string, script bool) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if e.Name.Local == "script" && !script {
			t.Error("there is a script")
		}
		for _, a := range e.Attr {
			if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
				t.Errorf("there is an attribute %s", a.Name.Local)
			}
		}
	}
}

const hostile = "<script>alert(1)</script>\"'&\x1b[2J\xff\u202e"

var aboutHostile = About{Query: "SELECT '" + hostile + "'", Target: func() string { return hostile }, Footer: func() string { return "1 row, lost 3 (late 3)" }}

func TestSVGOfStacksIsAFlameGraph(t *testing.T) {
	cols, b := stackRows()
	cols, b = cols[1:], batch.Of(b.N, b.Cols[1:]) // without the time
	b.AppendRow(stackOf(hostile, "main"), types.Int(1), types.Str("RUN"), types.Int(30), types.Dur(1), types.Int(1))
	data, _ := write(t, SVG, cols, Options{About: aboutHostile}, b)
	checkXML(t, string(data), true)
	for _, want := range []string{"flame graph of count", "lost 3 (late 3)", "main", "&lt;script&gt;alert(1)&lt;/script&gt;", "prefers-color-scheme:dark", "parse\n7 count, 17.50%"} {
		if !strings.Contains(strings.ReplaceAll(string(data), "&#xA;", "\n"), want) {
			t.Errorf("%q is missing in\n%s", want, data)
		}
	}
	if strings.Contains(string(data), "<script>alert") {
		t.Error("a name became an element")
	}
}

func TestSVGOfOneValueIsThatPicture(t *testing.T) {
	const inner = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 50 20" width="50" height="20"><rect width="5" height="5"/></svg>`
	b := batch.New([]types.Type{types.Varchar})
	b.AppendRow(types.Str(inner))
	cols := []wire.Column{{Name: "svg", Type: types.Varchar}}
	data, _ := write(t, SVG, cols, Options{About: aboutHostile}, b)
	checkXML(t, string(data), false)
	if !strings.Contains(string(data), `<rect width="5" height="5"/>`) || !strings.Contains(string(data), "lost 3") {
		t.Errorf("%s", data)
	}
	// Without anything to say about it the picture is not changed.
	if data, _ := write(t, SVG, cols, Options{}, b); string(data) != inner {
		t.Errorf("%s", data)
	}
	b.AppendRow(types.Str(inner))
	if err := renderTo(SVG, &counter{}, cols, b); err == nil || err.Error() != "svg: the result has 2 pictures, and a file holds one" {
		t.Error(err)
	}
	data, _ = write(t, HTML, cols, Options{}, b)
	if strings.Count(string(data), "<figure>") != 2 {
		t.Errorf("%s", data)
	}
	for _, text := range []string{"no picture", "", "<svg><b></svg"} {
		b := batch.New([]types.Type{types.Varchar})
		b.AppendRow(types.Str(text))
		if err := renderTo(SVG, &counter{}, cols, b); err == nil || !strings.HasPrefix(err.Error(), "svg: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSVGOfHistogramsAndNumbers(t *testing.T) {
	bucket := func(low, high, n int64) types.Value {
		return types.ListOf([]types.Value{types.Dur(low), types.Dur(high), types.Int(n)})
	}
	b := batch.New([]types.Type{types.Varchar, types.List})
	b.AppendRow(types.Str("f"), types.ListOf([]types.Value{bucket(1000, 2000, 1), bucket(2000, 4000, 4)}))
	b.AppendRow(types.Str(hostile), types.ListOf([]types.Value{bucket(1000, 2000, 7)}))
	data, _ := write(t, SVG, []wire.Column{{Name: "function_name", Type: types.Varchar}, {Name: "histogram", Type: types.List}}, Options{}, b)
	checkXML(t, string(data), false)
	for _, want := range []string{"function_name f", "[1us, 2us): 1", "[2us, 4us): 4", "histogram"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%q is missing in\n%s", want, data)
		}
	}
	b = batch.New([]types.Type{types.Timestamp, types.Varchar, types.Bigint, types.Bigint})
	for i := range int64(5) {
		b.AppendRow(types.Time(1_760_000_000_000_000_000+i*1e9), types.Str("f"), types.Int(i*i), types.Int(4711))
	}
	data, _ = write(t, SVG, []wire.Column{{Name: "window_start", Type: types.Timestamp}, {Name: "function_name", Type: types.Varchar}, {Name: "count", Type: types.Bigint}, {Name: "tid", Type: types.Bigint}}, Options{}, b)
	checkXML(t, string(data), false)
	for _, want := range []string{">count<", "f: 16 at 08:53:24.000000", "from 2025-10-09T08:53:20.000000Z to 2025-10-09T08:53:24.000000Z"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%q is missing in\n%s", want, data)
		}
	}
	if strings.Contains(string(data), "4711") {
		t.Error("an identifier is drawn as a number")
	}
}

// A result without rows has a picture that says so; samples with their times are a flame graph.
func TestSVGOfNoRowsAndOfSamples(t *testing.T) {
	cols, b := stackRows()
	data, _ := write(t, SVG, cols, Options{})
	checkXML(t, string(data), false)
	if !strings.Contains(string(data), "the result has no rows") {
		t.Errorf("%s", data)
	}
	if data, _ = write(t, SVG, cols, Options{}, b); !strings.Contains(string(data), "flame graph") {
		t.Errorf("%s", data)
	}
}

// The page permits its own script and no other, and refers to nothing outside.
func TestHTMLStandsAlone(t *testing.T) {
	cols, b := stackRows()
	cols, b = cols[1:], batch.Of(b.N, b.Cols[1:])
	b.AppendRow(stackOf(hostile, "main"), types.Int(1), types.Str("RUN"), types.Int(30), types.Dur(1), types.Int(1))
	data, _ := write(t, HTML, cols, Options{About: aboutHostile}, b)
	if bytes.Count(data, []byte("<script>")) != 1 || bytes.Contains(data, []byte("<script>alert")) {
		t.Error("scripts other than the page's own")
	}
	if !bytes.Contains(data, []byte("default-src 'none'; style-src 'sha256-")) || !bytes.Contains(data, []byte("script-src 'sha256-")) {
		t.Error("there is no policy")
	}
	text := strings.ReplaceAll(string(data), "http://www.w3.org/2000/svg", "")
	if strings.Contains(text, "http:") || strings.Contains(text, "https:") || strings.Contains(text, "\x1b") {
		t.Error("something outside is referred to, or a control character is there")
	}
}
