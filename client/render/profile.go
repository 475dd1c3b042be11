package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"endoscope/operators/batch"
	"endoscope/operators/encoders/pprof"
	pictures "endoscope/operators/encoders/render"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// profile adds up the stacks of a result: the part that pprof, folded, speedscope and flame
// graphs share. It holds each stack once.
//
// The stack is the column stack, or else the first LIST, TRIE, or VARCHAR whose name says
// that it is a folded stack. DURATION, DOUBLE and BIGINT columns are values, except those
// that identify something, such as tid, and these are labels like all other columns. Without
// a value a row counts as one sample.
type profile struct {
	cols   []wire.Column
	about  About
	stack  int
	values []int // columns
	labels []int // columns

	frames  []pprof.Frame
	frameAt map[pprof.Frame]int32
	nodes   []stackNode
	nodeAt  map[stackNode]int32
	samples []stackSample
	at      map[sampleKey]int32

	seen  map[*types.Value]int32 // nodes of lists, by their first element
	texts map[string]int32       // nodes of texts
	label []byte                 // scratch
	ended bool                   // a result has been emitted
	clock clock
}

// stackNode is a frame called along the path to it. Node 0 is the root, without a frame.
type stackNode struct{ parent, frame int32 }

type sampleKey struct {
	node   int32
	labels string
}

type stackSample struct {
	node   int32
	values []int64
	labels []stackLabel
}

// stackLabel is the value of another column: a number or a text.
type stackLabel struct {
	col    int
	number bool
	n      int64
	text   string
}

// identifying are the BIGINT columns that identify something; a sum of them means nothing.
var identifying = []string{"pid", "tid", "goroutine", "parent_pid", "parent_tid", "cpu", "line", "depth", "address", "receiver", "retval", "exit_code",
	"arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "query_id", "activation", "var_value", "var_unsigned"}

// stackHint names the columns that a format of stacks needs.
const stackHint = "it needs a stack and, if rows are not samples, a number: SELECT stack, COUNT(*) FROM ... GROUP BY stack; or folded_stack(stack), or TRIE(stack)"

func newProfile(f Format, cols []wire.Column, a About) (*profile, error) {
	p := &profile{cols: cols, about: a, stack: stackColumn(cols)}
	if p.stack < 0 {
		return nil, misfitf(stackHint, "%s: no column of the result is a stack", f)
	}
	if a.Emit == "CHANGES" {
		return nil, misfitf("without it the totals come at the end", "%s: with EMIT CHANGES the rows of a stack do not add up", f)
	}
	for i, c := range cols {
		switch {
		case i == p.stack:
		case c.Type.Numeric() && !slices.Contains(identifying, c.Name):
			p.values = append(p.values, i)
		default:
			p.labels = append(p.labels, i)
		}
	}
	p.reset()
	return p, nil
}

// stackColumn returns the column of stacks, or -1.
func stackColumn(cols []wire.Column) int {
	first := func(is func(c wire.Column) bool) int { return slices.IndexFunc(cols, is) }
	for _, at := range []int{
		first(func(c wire.Column) bool {
			return c.Name == "stack" && (c.Type == types.List || c.Type == types.Varchar)
		}),
		first(func(c wire.Column) bool {
			return c.Type == types.List && c.Name != "argv" && !strings.HasPrefix(c.Name, "histogram")
		}),
		first(func(c wire.Column) bool { return c.Type == types.Encoding }),
		first(func(c wire.Column) bool {
			return c.Type == types.Varchar && (strings.Contains(c.Name, "stack") || strings.Contains(c.Name, "folded"))
		}),
	} {
		if at >= 0 {
			return at
		}
	}
	return -1
}

func (p *profile) reset() {
	p.frames, p.frameAt = nil, map[pprof.Frame]int32{}
	p.nodes, p.nodeAt = []stackNode{{parent: -1, frame: -1}}, map[stackNode]int32{}
	p.samples, p.at = nil, map[sampleKey]int32{}
	p.seen, p.texts = map[*types.Value]int32{}, map[string]int32{}
}

// Tick, Clear: nothing is shown before the end.
func (p *profile) Tick() error  { return nil }
func (p *profile) Clear() error { return nil }

func (p *profile) Flush(preview bool) error {
	p.ended = p.ended || !preview
	return nil
}

// valueNames returns the names and units of the values.
func (p *profile) valueNames() (names, units []string) {
	if len(p.values) == 0 {
		return []string{"samples"}, []string{"count"}
	}
	for _, i := range p.values {
		c, unit := p.cols[i], "count"
		switch {
		case c.Type == types.Duration:
			unit = "nanoseconds"
		case strings.Contains(c.Name, "bytes"), strings.Contains(c.Name, "size"):
			unit = "bytes"
		}
		names, units = append(names, c.Name), append(units, unit)
	}
	return names, units
}

func (p *profile) Rows(b *batch.Batch, preview bool) error {
	if preview {
		return nil
	}
	if p.ended && p.about.Emit == "EVERY" { // these rows replace those of the last result
		p.reset()
	}
	p.ended = false
	values := make([]int64, max(1, len(p.values)))
	for i := range b.Len() {
		row := b.Row(i)
		values[0] = 1
		for k, c := range p.values {
			values[k] = number(&b.Cols[c], row)
		}
		if err := p.row(b, row, values); err != nil {
			return err
		}
	}
	return nil
}

// number returns a value of a profile: an integer. NULL counts as nothing.
func number(col *batch.Column, row int) int64 {
	switch {
	case col.Nulls.Get(row):
		return 0
	case col.Type == types.Double:
		return int64(math.Round(col.Float[row]))
	}
	if col.Type.Unsigned() && col.Int[row] < 0 {
		return math.MaxInt64
	}
	return col.Int[row]
}

// row adds one row: a stack, or all stacks of a folded text.
func (p *profile) row(b *batch.Batch, row int, values []int64) error {
	col := &b.Cols[p.stack]
	if col.Nulls.Get(row) {
		p.add(p.child(0, pprof.Frame{Function: "(no stack)"}), b, row, values)
		return nil
	}
	switch col.Type {
	case types.List:
		frames, _ := col.Any[row].([]types.Value)
		p.add(p.list(frames), b, row, values)
	case types.Encoding:
		t, ok := col.Any[row].(interface{ Folded() string })
		if !ok {
			return misfitf("svg(x), dot(x), json(x) and text(x) show others; over a connection select folded(x)", "%s is not a TRIE, or comes from another machine", p.cols[p.stack].Name)
		}
		p.folded(t.Folded(), b, row)
	default:
		text := col.Values[col.Code[row]]
		if _, _, counted := cutCount(text); len(p.values) == 0 && counted {
			p.folded(text, b, row)
		} else {
			p.add(p.text(text), b, row, values)
		}
	}
	return nil
}

// folded adds the lines "caller;callee 12".
func (p *profile) folded(lines string, b *batch.Batch, row int) {
	for line := range strings.Lines(lines) {
		if stack, n, ok := cutCount(strings.TrimSuffix(line, "\n")); ok {
			p.add(p.text(stack), b, row, []int64{n})
		}
	}
}

// cutCount splits the last line of a folded text.
func cutCount(text string) (stack string, n int64, ok bool) {
	at := strings.LastIndexByte(text, ' ')
	if at <= 0 {
		return text, 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text[at+1:]), 10, 64)
	return text[:at], n, err == nil
}

// mostSeen is the largest number of lists and texts whose nodes are remembered.
const mostSeen = 1 << 14

// list returns the node of a stack, leaf first. Equal stacks often share their memory.
func (p *profile) list(frames []types.Value) int32 {
	if len(frames) == 0 {
		return p.child(0, pprof.Frame{Function: "(no stack)"})
	}
	if n, ok := p.seen[&frames[0]]; ok {
		return n
	}
	n := int32(0)
	for _, f := range slices.Backward(frames) {
		n = p.child(n, pprof.FrameOf(f))
	}
	if len(p.seen) >= mostSeen {
		clear(p.seen)
	}
	p.seen[&frames[0]] = n
	return n
}

// text returns the node of a folded stack.
func (p *profile) text(stack string) int32 {
	if n, ok := p.texts[stack]; ok {
		return n
	}
	n := int32(0)
	for name := range strings.SplitSeq(stack, ";") {
		if name == "" {
			name = "(unknown)"
		}
		n = p.child(n, pprof.Frame{Function: name})
	}
	if len(p.texts) >= mostSeen {
		clear(p.texts)
	}
	p.texts[stack] = n
	return n
}

func (p *profile) child(parent int32, f pprof.Frame) int32 {
	frame, ok := p.frameAt[f]
	if !ok {
		frame = int32(len(p.frames))
		p.frames = append(p.frames, f)
		p.frameAt[f] = frame
	}
	key := stackNode{parent, frame}
	n, ok := p.nodeAt[key]
	if !ok {
		n = int32(len(p.nodes))
		p.nodes = append(p.nodes, key)
		p.nodeAt[key] = n
	}
	return n
}

// add adds values to the sample of a stack and the row's labels.
func (p *profile) add(node int32, b *batch.Batch, row int, values []int64) {
	p.label = p.label[:0]
	for _, c := range p.labels {
		p.label = append(p.clock.appendJSON(p.label, &b.Cols[c], row), ',')
	}
	at, ok := p.at[sampleKey{node, string(p.label)}]
	if !ok {
		at = int32(len(p.samples))
		p.samples = append(p.samples, stackSample{node: node, values: make([]int64, len(values)), labels: p.labelsOf(b, row)})
		p.at[sampleKey{node, string(p.label)}] = at
	}
	for i, v := range values {
		p.samples[at].values[i] = addClamped(p.samples[at].values[i], v)
	}
}

// addClamped adds numbers; what does not fit is the nearest that does.
func addClamped(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

func (p *profile) labelsOf(b *batch.Batch, row int) (labels []stackLabel) {
	for _, c := range p.labels {
		col := &b.Cols[c]
		l := stackLabel{col: c, number: col.Type == types.Bigint || col.Type == types.Ubigint && col.Int[row] >= 0}
		switch {
		case col.Nulls.Get(row):
			continue
		case l.number:
			l.n = col.Int[row]
		case col.Type == types.Varchar:
			l.text = col.Values[col.Code[row]]
		default:
			l.text = strings.Trim(string(p.clock.appendJSON(nil, col, row)), `"`)
		}
		labels = append(labels, l)
	}
	return labels
}

// path returns the frames of a node, leaf first.
func (p *profile) path(dst []int32, node int32) []int32 {
	for n := node; n > 0; n = p.nodes[n].parent {
		dst = append(dst, p.nodes[n].frame)
	}
	return dst
}

// totals returns, for each stack, the sums of its values over all labels, in the order in
// which stacks were first seen.
func (p *profile) totals() []stackSample {
	at := map[int32]int{}
	var out []stackSample
	for _, s := range p.samples {
		i, ok := at[s.node]
		if !ok {
			i = len(out)
			at[s.node] = i
			out = append(out, stackSample{node: s.node, values: make([]int64, len(s.values))})
		}
		for k, v := range s.values {
			out[i].values[k] = addClamped(out[i].values[k], v)
		}
	}
	return out
}

// heading returns the lines that say what a profile shows.
func (a *About) heading() (lines []string) {
	started := ""
	if !a.Start.IsZero() {
		started = a.Start.UTC().Format(time.RFC3339)
	}
	for _, l := range []struct{ name, text string }{{"query", a.Query}, {"target", a.target()}, {"started", started}, {"result", a.footer()}} {
		if l.text != "" {
			lines = append(lines, fmt.Sprintf("%s: %s", l.name, strings.Join(strings.Fields(l.text), " ")))
		}
	}
	return lines
}

// flame returns the flame graph of the first number of a profile.
func (p *profile) flame() *pictures.Flame {
	names, units := p.valueNames()
	frames := make([]*pictures.FlameFrame, len(p.nodes))
	frames[0] = &pictures.FlameFrame{Name: "all"}
	for i := 1; i < len(p.nodes); i++ { // callers are before what they call
		n := p.nodes[i]
		f := p.frames[n.frame]
		frames[i] = &pictures.FlameFrame{Name: f.Function, Tip: f.Module}
		if f.Line > 0 {
			frames[i].Tip += fmt.Sprintf(" %s:%d", f.File, f.Line)
		}
		frames[n.parent].Children = append(frames[n.parent].Children, frames[i])
	}
	for _, s := range p.samples {
		for n := s.node; n >= 0; n = p.nodes[n].parent {
			frames[n].Value += float64(max(0, s.values[0]))
		}
	}
	for _, f := range frames {
		slices.SortStableFunc(f.Children, func(a, b *pictures.FlameFrame) int { return cmp.Compare(a.Name, b.Name) })
	}
	return &pictures.Flame{Title: "flame graph of " + names[0], About: []string{fmt.Sprintf("%d stacks", len(p.totals()))}, Root: frames[0], Unit: func(x float64) string {
		if units[0] == "nanoseconds" {
			return HumanDuration(int64(x))
		}
		return fmt.Sprintf("%s %s", appendHumanFloat(nil, x), names[0])
	}}
}
