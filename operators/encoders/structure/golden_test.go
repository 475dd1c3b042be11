package structure

import (
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"endoscope/operators/encoders"
)

// TestGolden encodes the sequences in testdata/golden, one per line, with tokens
// separated by spaces. A^9 is nine times A, and . is nothing; names in double
// quotes are allowed ("A B"). The first line of each case has the encoder:
//
//	rle [cutoff=n] [groups=n]
//	grammar [rle | rle=n] [balanced=restricted|full]
//	callstring
//	dag [rle=n]
//	nlevel n=n
//
// Several sequences are encoded separately and merged. [times] numbers the
// symbols' times from 1; [json] prints the JSON.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			a := encoders.NewAlphabet()
			var all []encoders.Encoding
			for line := range strings.Lines(d.Input) {
				in := tokens(t, a, strings.TrimSuffix(line, "\n"))
				e := goldenEncoder(t, d, a)
				var times []int64
				if d.HasArg("times") {
					for i := range in {
						times = append(times, int64(i+1))
					}
				}
				e.Append(in, times)
				all = append(all, e.Encode())
			}
			enc := all[0]
			if len(all) > 1 {
				m, err := enc.(encoders.Mergeable).Merge(all[1:])
				if err != nil {
					t.Fatal(err)
				}
				enc = m
			}
			if e, ok := enc.(encoders.Lossless); ok && e.Exact() {
				if err := encoders.Verify(e); err != nil {
					t.Error(err)
				}
			}
			if d.HasArg("json") {
				text, err := enc.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				return strings.ReplaceAll(strings.ReplaceAll(string(text), `{"name"`, "\n{\"name\""), `{"symbol":"`, "\n{\"symbol\":\"") + "\n"
			}
			return enc.String() + "\n"
		})
	})
}

func goldenEncoder(t *testing.T, d *datadriven.TestData, a *encoders.Alphabet) encoders.Encoder {
	number := func(key string) int {
		for _, arg := range d.CmdArgs {
			if arg.Key == key && len(arg.Vals) > 0 {
				n, _ := strconv.Atoi(arg.Vals[0])
				return n
			}
		}
		return 0
	}
	l := encoders.Limits{Budget: int64(number("budget"))}
	switch d.Cmd {
	case "callstring":
		return encoders.NewCallStringEncoder(a, l)
	case "dag":
		return NewDAGEncoder(a, number("rle"), l)
	case "nlevel":
		return encoders.NewNLevelEncoder(a, number("n"), l)
	case "rle":
		return NewRunLengths(a, RLEOptions{number("cutoff"), number("groups")}, l)
	case "grammar":
		o := GrammarOptions{Runs: d.HasArg("rle"), Cutoff: number("rle")}
		var balanced string
		d.MaybeScanArgs(t, "balanced", &balanced)
		switch balanced {
		case "restricted":
			o.Balance = Restricted
		case "full":
			o.Balance = FullyBalanced
		}
		return NewGrammarEncoder(a, o, l)
	}
	panic("no encoder called " + d.Cmd)
}

func tokens(t *testing.T, a *encoders.Alphabet, line string) (s []encoders.Symbol) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		token, rest, _ := strings.Cut(line, " ")
		if line[0] == '"' {
			q, err := strconv.QuotedPrefix(line)
			if err != nil {
				t.Fatal(err)
			}
			token, _ = strconv.Unquote(q)
			rest = line[len(q):]
			s = append(s, a.Function(token))
			line = rest
			continue
		}
		n := 1
		if token == "." {
			n = 0
		}
		if name, count, ok := strings.Cut(token, "^"); ok {
			token = name
			n, _ = strconv.Atoi(count)
		}
		for range n {
			s = append(s, a.Symbol(token))
		}
		line = rest
	}
	return s
}
