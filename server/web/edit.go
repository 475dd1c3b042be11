package web

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"endoscope/parser"
	"endoscope/planner/completion"
	"endoscope/server/wire"
	"endoscope/server/wire/explained"
)

// Limits of the help for an editor.
const (
	mostCandidates = 60
	checkFor       = 2 * time.Second
)

// edited is what the editor shows of a text. Positions are UTF-16 units.
type edited struct {
	Tokens     [][3]int    `json:"tokens"`     // start, stop, kind (parser.TokenKind)
	Statements [][2]int    `json:"statements"` // start, stop
	Word       int         `json:"word"`       // where the word before the cursor begins
	Candidates []candidate `json:"candidates,omitempty"`
	Error      *failure    `json:"error,omitempty"`
}

type candidate struct {
	Text string `json:"text"`
	Kind string `json:"kind"`
}

// edit returns the tokens and statements of a text, and what in.Want asks for: completions
// of the word at the cursor, or the first error.
func (p *page) edit(ctx context.Context, in ask) (any, error) {
	at := newOffsets(in.Text)
	out := edited{Tokens: [][3]int{}, Statements: [][2]int{}}
	for _, t := range parser.Highlight(in.Text) {
		if t.Kind != parser.TokenName && t.Kind != parser.TokenOperator {
			out.Tokens = append(out.Tokens, [3]int{at.units(t.Start), at.units(t.Stop), int(t.Kind)})
		}
	}
	pieces := parser.Split(in.Text)
	for _, piece := range pieces {
		out.Statements = append(out.Statements, [2]int{units(in.Text[:piece.Offset]), units(in.Text[:piece.Offset+len(piece.Text)])})
	}
	switch in.Want {
	case "complete":
		cursor := bytesOf(in.Text, in.Cursor)
		word, found := completion.At(ctx, p.session, in.Text, cursor)
		out.Word = units(in.Text[:cursor-len(word)])
		for _, c := range found {
			if len(out.Candidates) == mostCandidates {
				break
			}
			if text := shown(c.Text); strings.HasPrefix(strings.ToLower(text), strings.ToLower(word)) {
				out.Candidates = append(out.Candidates, candidate{text, c.Kind})
			}
		}
	case "check":
		ctx, cancel := context.WithTimeout(ctx, checkFor)
		defer cancel()
		out.Error = p.check(ctx, in.Text, pieces)
	}
	return out, nil
}

// defines matches statements after which others may mean something else: they are not
// executed while a text is edited.
var defines = regexp.MustCompile(`(?i)^\s*(CREATE|DROP|USE|SET)\b`)

// check returns the first error of a text. Statements are parsed, and described up to the
// first that defines something.
func (p *page) check(ctx context.Context, text string, pieces []parser.Piece) *failure {
	plain := true
	for _, piece := range pieces {
		if _, err := parser.Parse(piece.Text); err != nil {
			return failureOf(err, text, piece.Offset)
		}
		if plain = plain && !defines.MatchString(piece.Text); !plain {
			continue
		}
		if _, err := p.session.Describe(ctx, piece.Text); err != nil && ctx.Err() == nil {
			return failureOf(err, text, piece.Offset)
		}
	}
	return nil
}

// offsets converts ascending positions in bytes to UTF-16 units.
type offsets struct {
	text        string
	bytes, unit int
}

func newOffsets(text string) *offsets { return &offsets{text: text} }

func (o *offsets) units(at int) int {
	if at < o.bytes {
		o.bytes, o.unit = 0, 0
	}
	o.unit += units(o.text[o.bytes:at])
	o.bytes = at
	return o.unit
}

// plan explains a statement, and runs it with in.Analyze.
func (p *page) plan(ctx context.Context, in ask) (any, error) {
	start := bytesOf(in.Text, in.Start)
	statement := in.Text[start:bytesOf(in.Text, in.Cursor)]
	prefix := "EXPLAIN "
	if in.Analyze {
		prefix = "EXPLAIN ANALYZE "
	}
	if m := explains.FindString(statement); m != "" { // as the user has written it
		prefix = ""
		in.Analyze = strings.Contains(strings.ToUpper(m), "ANALYZE")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(p.ctx, cancel)() // it ends with the page, too
	defer cancel()
	res, err := p.session.Execute(ctx, prefix+statement)
	if err != nil {
		f := failureOf(err, prefix+statement, 0)
		if f.Start >= 0 {
			shift := units(in.Text[:start]) - units(prefix)
			f.Start, f.Stop = max(f.Start+shift, 0), max(f.Stop+shift, 0)
		}
		return nil, f
	}
	defer func() { _ = res.Close() }()
	lines, notices, err := linesOf(ctx, res)
	if err != nil {
		return nil, failureOf(err, "", 0)
	}
	if len(lines) == 0 {
		return nil, failed(http.StatusBadRequest, "the statement has no plan")
	}
	out := explained.Read(lines)
	out.Notices, out.Analyzed = notices, in.Analyze
	return out, nil
}

// rates returns the plan of a result with what was measured so far.
func (p *page) rates(_ context.Context, in ask) (any, error) {
	r, err := p.result(in.Query)
	if err != nil {
		return nil, err
	}
	explain := r.Info().Plan
	if explain == nil {
		return nil, failed(http.StatusNotFound, "this result has no plan")
	}
	out := explained.Read(strings.Split(strings.TrimSuffix(explain(), "\n"), "\n"))
	elapsed := r.Summary().Elapsed // 0: it runs
	if elapsed == 0 {
		elapsed = time.Duration(p.s.now().UnixNano() - r.enc.epoch)
	}
	out.Analyzed, out.Seconds = true, elapsed.Seconds()
	return out, nil
}

var explains = regexp.MustCompile(`(?i)^\s*EXPLAIN\s+(ANALYZE\b)?`)

// linesOf reads a result of one text column.
func linesOf(ctx context.Context, res wire.Result) (lines, notices []string, err error) {
	for {
		ev, err := res.Next(ctx)
		if err == io.EOF {
			return lines, notices, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if ev.Kind == wire.Notice {
			notices = append(notices, ev.Text)
		}
		if ev.Batch == nil {
			continue
		}
		for i := range ev.Batch.Len() {
			lines = append(lines, ev.Batch.Cols[0].Value(ev.Batch.Row(i)).S)
		}
		ev.Batch.Release()
	}
}
