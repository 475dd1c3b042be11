package web

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Limits of what a page gets of a value.
const (
	mostWords = 1 << 16 // texts of a column, before the dictionary begins again
	mostText  = 16 << 10
	exactInt  = 1 << 53 // of JavaScript's numbers
)

// encoder encodes the rows of a result for the page, by column:
//
//	BIGINT, DOUBLE    a number; outside of ±2^53 its digits as text
//	DURATION          ns, as BIGINT
//	TIMESTAMP         ns since the epoch, as BIGINT
//	BOOLEAN           true, false
//	VARCHAR, BYTES    the number of a text, which was sent as one of the words
//	LIST              a stack: the number of a word, which is a list of functions, root
//	                  first; a histogram: {"h": [[low, high, count], ...], "type": of the
//	                  bounds}; else text
//	ENCODING          {"text": ..., "picture": its number, if it can be drawn}
//
// A VARCHAR that is an SVG is as an ENCODING. NULL is null.
type encoder struct {
	cols    []wire.Column
	epoch   int64
	replace bool
	dicts   []map[string]int
}

// words are new texts of a column. First is the number of the first; 0: the dictionary
// begins again.
type words struct {
	Column int   `json:"c"`
	First  int   `json:"first"`
	Texts  []any `json:"w"`
}

type cells = []any

type picturedText struct {
	Text    string `json:"text"`
	Picture int    `json:"picture,omitempty"`
}

type histogram struct {
	Buckets [][3]any `json:"h"`
	Type    string   `json:"type"` // of the bounds
}

func newEncoder(cols []wire.Column, epoch int64) *encoder {
	return &encoder{cols: cols, epoch: epoch, dicts: make([]map[string]int, len(cols))}
}

func (e *encoder) columns() (out []column) {
	of := func(name, fn string, b types.Bound) int {
		return max(0, slices.IndexFunc(e.cols, func(c wire.Column) bool { return c.Bound == b && c.Name == fn+"("+name+")" }))
	}
	for _, c := range e.cols {
		out = append(out, column{Name: shown(c.Name), Type: c.Type.String(), Bound: c.Bound != types.NoBound,
			Low: of(c.Name, plan.LowBound, types.Low), High: of(c.Name, plan.HighBound, types.High)})
	}
	return out
}

func (e *encoder) encode(b *batch.Batch, pics *pictures) (news []words, all []cells) {
	n := b.Len()
	for c := range e.cols {
		col := &b.Cols[c]
		out := make(cells, n)
		fresh := words{Column: c, First: len(e.dicts[c])}
		if e.dicts[c] == nil || len(e.dicts[c]) >= mostWords {
			e.dicts[c], fresh.First = map[string]int{}, 0
		}
		for i := range n {
			out[i] = e.cell(c, col.Value(b.Row(i)), &fresh, pics)
		}
		if len(fresh.Texts) > 0 {
			news = append(news, fresh)
		}
		all = append(all, out)
	}
	return news, all
}

func (e *encoder) cell(c int, v types.Value, fresh *words, pics *pictures) any {
	if v.IsNull {
		return nil
	}
	switch v.Type {
	case types.Boolean:
		return v.I != 0
	case types.Bigint, types.Duration:
		return integer(v.I)
	case types.Ubigint:
		return unsigned(v.I)
	case types.Timestamp:
		return integer(v.I - e.epoch)
	case types.Double:
		return float(v.F)
	case types.Varchar:
		if strings.HasPrefix(v.S, "<svg") {
			text := v.S
			return picturedText{"picture", pics.add(func() string { return text })}
		}
		return e.word(c, v.S, fresh, func() any { return shown(v.S) })
	case types.Bytes:
		return e.word(c, v.S, fresh, func() any { return shown(`\x` + hex.EncodeToString([]byte(v.S))) })
	case types.Encoding:
		out := picturedText{Text: "?"}
		if x, ok := v.A.(fmt.Stringer); ok {
			out.Text = shown(x.String())
		}
		if d, ok := v.A.(encoders.Drawing); ok {
			out.Picture = pics.add(d.SVG)
		}
		return out
	case types.List:
		vs, _ := v.A.([]types.Value)
		if h := histogramOf(vs); h != nil {
			return h
		}
		if frames := framesOf(vs); frames != nil {
			return e.word(c, strings.Join(frames, "\x00"), fresh, func() any { return frames })
		}
		text, _ := json.Marshal(plain(v))
		return shown(string(text))
	}
	return nil
}

// word returns the number of a text in the dictionary of a column.
func (e *encoder) word(c int, key string, fresh *words, text func() any) any {
	d := e.dicts[c]
	n, ok := d[key]
	if !ok {
		n = len(d)
		d[key] = n
		fresh.Texts = append(fresh.Texts, text())
	}
	return n
}

// shown returns a text as the page shows it: valid and not too long.
func shown(s string) string {
	if len(s) > mostText {
		s = s[:mostText] + "…"
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

func integer(n int64) any {
	if n > -exactInt && n < exactInt {
		return n
	}
	return fmt.Sprint(n)
}

// unsigned is integer for the bits of a UBIGINT.
func unsigned(bits int64) any {
	if bits >= 0 {
		return integer(bits)
	}
	return fmt.Sprint(uint64(bits))
}

func float(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprint(f)
	}
	return f
}

// histogramOf returns a list with the shape of a histogram, or nil.
func histogramOf(vs []types.Value) *histogram {
	h := &histogram{Type: types.Bigint.String()}
	for _, v := range vs {
		b, ok := v.A.([]types.Value)
		if !ok || len(b) != 3 || b[2].Type != types.Bigint || b[2].IsNull {
			return nil
		}
		for _, bound := range b[:2] {
			if bound.IsNull {
				continue
			}
			if !bound.Type.Numeric() {
				return nil
			}
			h.Type = bound.Type.String()
		}
		h.Buckets = append(h.Buckets, [3]any{plain(b[0]), plain(b[1]), plain(b[2])})
	}
	if len(vs) == 0 {
		return nil
	}
	return h
}

// framesOf returns the functions of a list with the shape of a stack, root first, or nil.
func framesOf(vs []types.Value) []string {
	frames := make([]string, len(vs))
	for i, v := range vs {
		f, ok := v.A.([]types.Value)
		if !ok || len(f) == 0 || f[0].Type != types.Varchar {
			return nil
		}
		frames[len(vs)-1-i] = shown(f[0].S)
	}
	if len(vs) == 0 {
		return nil
	}
	return frames
}

// plain returns a value for JSON.
func plain(v types.Value) any {
	if v.IsNull {
		return nil
	}
	switch v.Type {
	case types.Boolean:
		return v.I != 0
	case types.Bigint, types.Duration, types.Timestamp:
		return integer(v.I)
	case types.Ubigint:
		return unsigned(v.I)
	case types.Double:
		return float(v.F)
	case types.List:
		vs, _ := v.A.([]types.Value)
		out := make([]any, len(vs))
		for i := range vs {
			out[i] = plain(vs[i])
		}
		return out
	case types.Encoding:
		if x, ok := v.A.(fmt.Stringer); ok {
			return x.String()
		}
	}
	return strings.ToValidUTF8(v.S, "\ufffd")
}
