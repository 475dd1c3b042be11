package optest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Planner turns a statement over the relations of an input into a plan.
type Planner func(statement string, in *Input) (plan.Node, error)

// RunScript runs one script (see the package comment) on an engine.
func RunScript(t *testing.T, path string, e Engine, p Planner) {
	t.Helper()
	var in *Input
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "load":
			var err error
			if in, err = ParseInput(d.Input); err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			return ""
		case "eval":
			if in == nil {
				t.Fatalf("%s: nothing is loaded", d.Pos)
			}
			return evalCase(t, d, in, e, p)
		}
		t.Fatalf("%s: no command %s", d.Pos, d.Cmd)
		return ""
	})
}

func evalCase(t *testing.T, d *datadriven.TestData, in *Input, e Engine, p Planner) string {
	root, err := p(d.Input, in)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	got, err := e.Run(root, in)
	text := FormatOutput(root, got)
	if err != nil {
		text += "error: " + err.Error() + "\n"
	}
	want, oracleErr := Oracle{}.Run(root, in)
	switch {
	case (err != nil) != (oracleErr != nil):
		t.Errorf("%s: the engine's error is %v, the oracle's %v", d.Pos, err, oracleErr)
	case err == nil:
		if diff := Compare(root, got, want); diff != "" {
			t.Errorf("%s: the oracle does not agree: %s", d.Pos, diff)
		}
	}
	return text
}

// ParseInput parses the input of a load command.
func ParseInput(text string) (*Input, error) {
	p := &inputParser{in: &Input{Relations: map[string]types.Schema{}}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	p.endBatch()
	return p.in, nil
}

type inputParser struct {
	in     *Input
	stream string
	rows   [][]types.Value
}

func (p *inputParser) endBatch() {
	if len(p.rows) > 0 {
		p.in.Steps = append(p.in.Steps, Step{Stream: p.stream, Kind: Rows, Rows: p.rows})
		p.rows = nil
	}
}

func (p *inputParser) line(line string) error {
	words := cells(line)
	if words[0] != "stream" && p.stream == "" {
		return fmt.Errorf("%q before the first stream", line)
	}
	step := Step{Stream: p.stream}
	var err error
	switch words[0] {
	case "stream":
		p.endBatch()
		return p.declare(words[1:])
	case "--":
		p.endBatch()
		return nil
	case "watermark", "tick", "preview":
		step.Kind = map[string]StepKind{"watermark": Watermark, "tick": Tick, "preview": Preview}[words[0]]
		step.Time, err = parsePoint(strings.Join(words[1:], ""))
	case "lost":
		step.Kind, step.Cause = Gap, strings.Join(words[2:], " ")
		step.N, err = strconv.ParseUint(words[1], 10, 64)
	case "end":
		step.Kind = End
	default:
		row, err := parseRow(words, p.in.Relations[p.stream])
		p.rows = append(p.rows, row)
		return err
	}
	p.endBatch()
	p.in.Steps = append(p.in.Steps, step)
	return err
}

// declare parses "name column:type ..."; the column timestamp is a TIMESTAMP and event
// time, and so is the BIGINT line of a stream without one.
func (p *inputParser) declare(words []string) error {
	p.stream = words[0]
	if len(words) == 1 {
		if _, ok := p.in.Relations[p.stream]; !ok {
			return fmt.Errorf("no stream %s", p.stream)
		}
		return nil
	}
	s := types.Schema{Time: -1}
	for _, w := range words[1:] {
		name, typ, ok := strings.Cut(w, ":")
		t := types.Timestamp
		if ok {
			if t, ok = types.ParseType(typ); !ok {
				return fmt.Errorf("no type %s", typ)
			}
		}
		if name == "timestamp" || name == "line" {
			s.Time = len(s.Fields)
		}
		s.Fields = append(s.Fields, types.Field{Name: name, Type: t})
	}
	p.in.Relations[p.stream] = s
	return nil
}

// cells splits a line at blanks outside '...'.
func cells(line string) []string {
	var out []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		end := strings.IndexAny(line, " \t")
		if line[0] == '\'' {
			if i := strings.IndexByte(line[1:], '\''); i >= 0 {
				end = i + 2
			}
		}
		if end < 0 || end > len(line) {
			end = len(line)
		}
		out = append(out, line[:end])
		line = line[end:]
	}
	return out
}

func parseRow(words []string, s types.Schema) ([]types.Value, error) {
	if len(words) != len(s.Fields) {
		return nil, fmt.Errorf("%d cells for %d columns", len(words), len(s.Fields))
	}
	row := make([]types.Value, len(words))
	for i, w := range words {
		t := s.Fields[i].Type
		switch {
		case w == "null":
			row[i] = types.NullOf(t)
			continue
		case t == types.Varchar || t == types.Bytes:
			row[i] = types.Value{Type: t, S: strings.Trim(w, "'")}
			continue
		case t == types.Timestamp:
			ns, err := parsePoint(w)
			if err != nil {
				return nil, err
			}
			row[i] = types.Time(ns)
			continue
		}
		if row[i] = parsed(w, t); row[i].IsNull {
			return nil, fmt.Errorf("%s is no %s", w, t)
		}
	}
	return row, nil
}

// parsePoint parses a time since the epoch, or a line number.
func parsePoint(s string) (int64, error) {
	if ns, ok := parsedDuration(s); ok {
		return ns, nil
	}
	return strconv.ParseInt(s, 10, 64)
}

// FormatInput formats an input as a load command.
func FormatInput(in *Input) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(in.Relations)) {
		b.WriteString("stream " + name)
		for _, f := range in.Relations[name].Fields {
			b.WriteString(" " + f.Name + ":" + strings.ToLower(f.Type.String()))
		}
		b.WriteByte('\n')
	}
	stream := ""
	for _, s := range in.Steps {
		if s.Stream != stream {
			stream = s.Stream
			b.WriteString("stream " + stream + "\n")
		}
		switch s.Kind {
		case Rows:
			for _, vs := range s.Rows {
				b.WriteString(rowText(vs) + "\n")
			}
			b.WriteString("--\n")
		case Gap:
			fmt.Fprintf(&b, "lost %d %s\n", s.N, s.Cause)
		case End:
			b.WriteString("end\n")
		default:
			word := map[StepKind]string{Watermark: "watermark", Tick: "tick", Preview: "preview"}[s.Kind]
			fmt.Fprintf(&b, "%s %s\n", word, printedDuration(s.Time))
		}
	}
	return b.String()
}

// FormatOutput formats the output of a plan as in scripts.
func FormatOutput(root plan.Node, o *Output) string {
	var b strings.Builder
	var names []string
	for _, f := range root.Schema().Fields {
		names = append(names, f.Name)
	}
	b.WriteString(strings.Join(names, " ") + "\n")
	for _, r := range o.Results {
		lines := make([]string, len(r.Rows))
		for i, vs := range r.Rows {
			lines[i] = rowText(vs)
		}
		if !Ordered(root) {
			slices.Sort(lines)
		}
		for _, l := range lines {
			b.WriteString(l + "\n")
		}
		switch {
		case r.Preview:
			b.WriteString("flush preview\n")
		case r.Flushed:
			b.WriteString("flush\n")
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(o.Lost)) {
		fmt.Fprintf(&b, "lost %d %s\n", o.Lost[cause], cause)
	}
	for _, s := range o.Drained {
		fmt.Fprintf(&b, "drained %s\n", s)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Files)) {
		fmt.Fprintf(&b, "file %s\n%s", name, o.Files[name])
	}
	return b.String()
}

func rowText(vs []types.Value) string {
	texts := make([]string, len(vs))
	for i, v := range vs {
		switch texts[i] = printed(v); {
		case v.IsNull:
			texts[i] = "null"
		case v.Type == types.Timestamp:
			texts[i] = printedDuration(v.I)
		case v.Type == types.Varchar && (v.S == "" || strings.ContainsAny(v.S, " \t\n'")):
			texts[i] = "'" + v.S + "'"
		}
	}
	return strings.Join(texts, " ")
}
