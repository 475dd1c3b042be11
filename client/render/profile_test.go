package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gpprof "github.com/google/pprof/profile"
	"pgregory.net/rapid"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// stackOf returns a value of the column stack, leaf first.
func stackOf(functions ...string) types.Value {
	var frames []types.Value
	for i, f := range functions {
		frames = append(frames, types.ListOf([]types.Value{types.Str(f), types.Str("app"), types.Str("user"), types.Str("main.c"), types.Int(int64(10 + i)), types.Bool(false)}))
	}
	return types.ListOf(frames)
}

// stackRows is a result with a timestamp, so that every format can represent it.
func stackRows() ([]wire.Column, *batch.Batch) {
	cols := []wire.Column{{Name: "timestamp", Type: types.Timestamp}, {Name: "stack", Type: types.List}, {Name: "tid", Type: types.Bigint}, {Name: "state", Type: types.Varchar},
		{Name: "count", Type: types.Bigint}, {Name: "sum_duration", Type: types.Duration}, {Name: "read_bytes", Type: types.Bigint}}
	b := batch.New([]types.Type{types.Timestamp, types.List, types.Bigint, types.Varchar, types.Bigint, types.Duration, types.Bigint})
	at := func(n int64) types.Value { return types.Time(1_760_000_000_000_000_000 + n) }
	b.AppendRow(at(0), stackOf("parse", "serve", "main"), types.Int(7), types.Str("RUN"), types.Int(3), types.Dur(3000), types.Int(512))
	b.AppendRow(at(1), stackOf("parse", "serve", "main"), types.Int(8), types.Str("RUN"), types.Int(4), types.Dur(5000), types.NullOf(types.Bigint))
	b.AppendRow(at(2), stackOf("serve", "main"), types.NullOf(types.Bigint), types.Str("bad\xff"), types.Int(1), types.Dur(10), types.Int(0))
	b.AppendRow(at(3), types.NullOf(types.List), types.Int(7), types.NullOf(types.Varchar), types.Int(2), types.Dur(20), types.Int(1))
	return cols, b
}

func TestFoldedAddsUp(t *testing.T) {
	cols, b := stackRows()
	data, _ := write(t, Folded, cols, Options{}, b)
	if want := "main;serve;parse 7\nmain;serve 1\n(no stack) 2\n"; string(data) != want {
		t.Errorf("%s, want %s", data, want)
	}
}

// A profile says the same as `go tool pprof` says of it, for each type of sample.
func TestPprofHasTheSameTotals(t *testing.T) {
	cols, b := stackRows()
	data, _ := write(t, Pprof, cols, Options{About: About{Query: "SELECT stack", Footer: func() string { return "4 rows, lost 3" }}}, b)
	p, err := gpprof.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, s := range p.SampleType {
		types = append(types, s.Type+"/"+s.Unit)
	}
	if got := strings.Join(types, " "); got != "count/count sum_duration/nanoseconds read_bytes/bytes" {
		t.Errorf("types of samples: %s", got)
	}
	s := p.Sample[0]
	if fmt.Sprint(s.Value, s.NumLabel, s.Label, len(s.Location)) != "[3 3000 512] map[tid:[7]] map[state:[RUN] timestamp:[2025-10-09T08:53:20.000000000Z]] 3" {
		t.Errorf("%v %v %v", s.Value, s.NumLabel, s.Label)
	}
	if l := s.Location[0].Line[0]; l.Function.Name != "parse" || l.Line != 10 || l.Function.Filename != "main.c" || s.Location[0].Mapping.File != "app" {
		t.Errorf("%+v", l)
	}
	if !slices.Equal(p.Comments, []string{"query: SELECT stack", "result: 4 rows, lost 3"}) {
		t.Errorf("comments %q", p.Comments)
	}
	name := filepath.Join(t.TempDir(), "x.pb.gz")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"count": `8 80\.00% .* serve`, "sum_duration": `8\.01us 99\.75% .* serve`, "read_bytes": `512B .* parse`} {
		out, err := exec.Command("go", "tool", "pprof", "-top", "-cum", "-sample_index="+kind, name).CombinedOutput()
		if err != nil || !regexp.MustCompile(want).Match(bytes.Join(bytes.Fields(out), []byte(" "))) {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
}

// Without a number each row is a sample; a folded text is a stack or, with numbers, several.
func TestProfilesOfTexts(t *testing.T) {
	for name, c := range map[string]struct{ column, text, want string }{
		"stacks":  {"folded_stack", "main;f", "main;f 1\n"},
		"counted": {"folded", "main;f 12\nmain 3", "main;f 12\nmain 3\n"},
	} {
		b := batch.New([]types.Type{types.Varchar})
		b.AppendRow(types.Str(c.text))
		if data, _ := write(t, Folded, []wire.Column{{Name: c.column, Type: types.Varchar}}, Options{}, b); string(data) != c.want {
			t.Errorf("%s: %q, want %q", name, data, c.want)
		}
	}
}

// trie is an encoding with folded stacks.
type trie struct{}

func (trie) Folded() string { return "main;f 2\nmain;g 1" }

func TestProfilesOfTries(t *testing.T) {
	b := batch.New([]types.Type{types.Encoding})
	b.AppendRow(types.Value{Type: types.Encoding, A: trie{}})
	cols := []wire.Column{{Name: "trie", Type: types.Encoding}}
	if data, _ := write(t, Folded, cols, Options{}, b); string(data) != "main;f 2\nmain;g 1\n" {
		t.Errorf("%q", data)
	}
	b = batch.New([]types.Type{types.Encoding})
	b.AppendRow(types.Value{Type: types.Encoding, A: 1})
	if err := renderTo(Pprof, &counter{}, cols, b); err == nil || !strings.Contains(err.Error(), "trie is not a TRIE") {
		t.Error(err)
	}
}

// Sums that do not fit are the largest number, not a negative one.
func TestProfileSumsDoNotOverflow(t *testing.T) {
	b := batch.New([]types.Type{types.Varchar, types.Bigint})
	for range 2 {
		b.AppendRow(types.Str("main"), types.Int(math.MaxInt64))
	}
	data, _ := write(t, Folded, []wire.Column{{Name: "stack", Type: types.Varchar}, {Name: "n", Type: types.Bigint}}, Options{}, b)
	if string(data) != "main 9223372036854775807\n" {
		t.Errorf("%s", data)
	}
}

// The totals of EMIT EVERY replace each other; windows add up.
func TestTotalsReplaceEachOther(t *testing.T) {
	cols, b := stackRows()
	for emit, want := range map[string]string{"EVERY": "parse 7\n", "": "parse 14\n"} {
		data, _ := write(t, Folded, cols, Options{About: About{Emit: emit}}, b, b)
		if !strings.Contains(string(data), want) {
			t.Errorf("EMIT %s: %s", emit, data)
		}
	}
	if _, err := New(Folded, &counter{}, cols, Options{About: About{Emit: "CHANGES"}}); err == nil {
		t.Error("EMIT CHANGES is accepted")
	}
}

// speedscopeFile is what speedscope reads, by its published schema.
type speedscopeFile struct {
	Schema string `json:"$schema"`
	Name   string
	Shared struct {
		Frames []struct {
			Name, File string
			Line       int
		}
	}
	Profiles []struct {
		Type, Name, Unit     string
		StartValue, EndValue int64
		Samples              [][]int
		Weights              []int64
	}
}

// Whatever the names: folded, speedscope and pprof show the same stacks with the same sums.
func TestProfilesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := batch.New([]types.Type{types.List, types.Bigint})
		name := rapid.OneOf(rapid.SampledFrom([]string{"a", "b;c", "operator<< <int>", "x\ny", "\xff", "世界", `"\`, "</script>"}), rapid.String())
		total := int64(0)
		for range rapid.IntRange(1, 8).Draw(t, "rows") {
			n := rapid.Int64Range(0, 1000).Draw(t, "n")
			total += n
			b.AppendRow(stackOf(rapid.SliceOfN(name, 1, 4).Draw(t, "stack")...), types.Int(n))
		}
		cols := []wire.Column{{Name: "stack", Type: types.List}, {Name: "count", Type: types.Bigint}}
		folded, _ := write(t, Folded, cols, Options{}, b)
		sum := int64(0)
		lines := 0
		for line := range strings.Lines(string(folded)) {
			_, n, ok := cutCount(strings.TrimSuffix(line, "\n"))
			if !ok {
				t.Fatalf("line %q", line)
			}
			sum += n
			lines++
		}
		var s speedscopeFile
		data, _ := write(t, Speedscope, cols, Options{}, b)
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		weights := int64(0)
		for _, w := range s.Profiles[0].Weights {
			weights += w
		}
		for _, stack := range s.Profiles[0].Samples {
			for _, f := range stack {
				_ = s.Shared.Frames[f]
			}
		}
		data, _ = write(t, Pprof, cols, Options{}, b)
		p, err := gpprof.ParseData(data)
		if err != nil {
			t.Fatal(err)
		}
		values := int64(0)
		for _, x := range p.Sample {
			values += x.Value[0]
		}
		if sum != total || weights != total || values != total || s.Profiles[0].EndValue != total || lines != len(p.Sample) || lines != len(s.Profiles[0].Samples) {
			t.Fatalf("sums %d, %d, %d of %d; stacks %d, %d, %d", sum, weights, values, total, lines, len(s.Profiles[0].Samples), len(p.Sample))
		}
	})
}

func TestSpeedscopeFrames(t *testing.T) {
	cols, b := stackRows()
	data, _ := write(t, Speedscope, cols, Options{About: About{Query: "q"}}, b)
	var s speedscopeFile
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if s.Name != "q" || !strings.HasSuffix(s.Schema, "file-format-schema.json") || len(s.Profiles) != 3 || s.Profiles[1].Unit != "nanoseconds" || s.Profiles[1].EndValue != 8030 {
		t.Errorf("%+v", s)
	}
	first := s.Profiles[0].Samples[0]
	var names []string
	for _, f := range first {
		names = append(names, s.Shared.Frames[f].Name)
	}
	if strings.Join(names, ";") != "main;serve;parse" || s.Shared.Frames[first[2]].Line != 10 || s.Shared.Frames[first[2]].File != "main.c" {
		t.Errorf("%v %+v", names, s.Shared.Frames)
	}
}

// A result without what a format needs is refused with the columns that it needs.
func TestMisfitsNameTheColumns(t *testing.T) {
	cols := []wire.Column{{Name: "n", Type: types.Bigint}}
	for _, f := range []Format{Pprof, Folded, Speedscope, Perfetto, SVG, HTML} {
		_, err := New(f, &counter{}, cols, Options{})
		hint, ok := err.(interface{ Hint() string })
		if !ok || !strings.HasPrefix(err.Error(), string(f)+": ") || !strings.HasPrefix(hint.Hint(), "it needs ") {
			t.Errorf("%s: %v", f, err)
		}
	}
}
