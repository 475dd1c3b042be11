package encode

import (
	"time"

	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/operators/encoders/structure"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// DefaultEncoderBudget is the default limit of the memory of one aggregate's
// encoders.
const DefaultEncoderBudget = 64 << 20

// encoderMaker creates encoders of one kind; the encoders of a group with several
// sequences have the same kind, and their encodings can be merged.
type encoderMaker func(a *encoders.Alphabet) (encoders.Encoder, error)

// encoderMakers are the encoders of plan.Encoders, by name. moments means that
// calls are passed with the times at which they happened.
var encoderMakers = map[string]struct {
	moments bool
	create  func(f *plan.Agg) encoderMaker
}{
	"callstring": {moments: true, create: func(*plan.Agg) encoderMaker {
		return func(a *encoders.Alphabet) (encoders.Encoder, error) {
			return encoders.NewCallStringEncoder(a, encoders.Limits{}), nil
		}
	}},
	"nlevel": {moments: true, create: func(f *plan.Agg) encoderMaker {
		n := int(option(f, "n", 1))
		return func(a *encoders.Alphabet) (encoders.Encoder, error) {
			return encoders.NewNLevelEncoder(a, n, encoders.Limits{}), nil
		}
	}},
	"intervals": {moments: true, create: func(f *plan.Agg) encoderMaker {
		n := int(option(f, "n", encoders.DefaultIntervals))
		return func(a *encoders.Alphabet) (encoders.Encoder, error) {
			return encoders.NewIntervalEncoder(a, n, encoders.Limits{}), nil
		}
	}},
	"calldag": {moments: true, create: func(f *plan.Agg) encoderMaker {
		k := int(option(f, "rle", 0))
		return func(a *encoders.Alphabet) (encoders.Encoder, error) {
			return structure.NewDAGEncoder(a, k, encoders.Limits{}), nil
		}
	}},
	"rle": {create: func(f *plan.Agg) encoderMaker {
		o := structure.RLEOptions{Cutoff: int(option(f, "k", 0)), Groups: int(option(f, "groups", 0))}
		return func(a *encoders.Alphabet) (encoders.Encoder, error) {
			return structure.NewRunLengths(a, o, encoders.Limits{}), nil
		}
	}},
	"grammar": {create: func(f *plan.Agg) encoderMaker {
		_, runs := f.Option("rle")
		o := structure.GrammarOptions{Runs: runs, Cutoff: int(option(f, "rle", 0))}
		switch word(f, "balanced") {
		case "restricted":
			o.Balance = structure.Restricted
		case "full":
			o.Balance = structure.FullyBalanced
		}
		return func(a *encoders.Alphabet) (encoders.Encoder, error) {
			return structure.NewGrammarEncoder(a, o, encoders.Limits{}), nil
		}
	}},
	"automaton":           {create: makeAutomata},
	"locality":            {create: makeLocalities},
	"loop":                {create: makeLoops},
	"consecutive":         {create: makeLoops},
	"succession":          {create: makeSuccessions},
	plan.HierarchyEncoder: {create: makeHierarchies},
	"invocation_graph":    {moments: true, create: makeInvocationGraphs},
	"conforms":            {create: makeConformances},
	"anomaly":             {create: makeConformances},
}

// option returns a numeric option of an encoder.
func option(f *plan.Agg, name string, otherwise int64) int64 {
	if v, ok := f.Option(name); ok {
		return v.I
	}
	return otherwise
}

// word returns the option of an encoder that is a word; "" if it is missing.
func word(f *plan.Agg, name string) string {
	v, _ := f.Option(name)
	return v.S
}

// Encoding is an aggregate whose result is an ENCODING (package encoders). Each
// group is one sequence, or several, which an argument distinguishes; each
// sequence has an encoder. All have one alphabet and one budget: when it is
// exhausted all stop, and count what they do not encode.
type Encoding struct {
	f         *plan.Agg
	create    encoderMaker
	calls     bool // the arguments are an event and a function
	clock     bool // rows have the time when they happened
	moments   bool // the encoders need the times of calls
	took      int  // index, among the arguments after the first, of the duration of a token, or -1
	by        int  // index of the argument that distinguishes sequences, or -1
	born      int  // index of the argument that begins a sequence, or -1
	dies      int  // index of the argument that ends a sequence, or -1
	waits     int  // index of the argument that marks a call as waiting, or -1
	allocated int  // index of the argument with the number of bytes allocated, or -1
	within    int  // index of the argument with the thread on which nested calls are included, or -1
	lineage   int  // index of the argument with the base classes, or -1

	alphabet    *encoders.Alphabet
	groups      []sequences
	all         []*sequence // of all groups
	held        int64       // by them
	budget      int64
	full        bool
	nextPreview time.Time // until then previews are not recomputed
	refused     uint64    // rows that were not encoded and not yet reported
	noEvent     *string   // the text of an invalid event; nil if there was none

	reader *states.RowsReader // of states; nil until there is one
	origin uint64             // of the rows that are folded
	begun  uint64             // sequences so far

	inner     innerCalls          // used if within is present
	hierarchy *encoders.Hierarchy // of those classes
	cycle     error               // a class is its own base, by the rows
	lineages  symbolCache         // lineages that the hierarchy contains

	tokens, events symbolCache
	symbols        []encoders.Symbol // scratch: of the rows of one sequence
	times          []int64           // scratch: as symbols
}

// EncoderFull is the loss of what an encoder has no room for.
const EncoderFull = "encoder budget used up"

// New creates the state of f. clock is set if the rows have a time.
func New(f *plan.Agg, budget int64, clock bool) (fold.Accumulator, error) {
	m, ok := encoderMakers[f.Fn]
	if !ok || len(f.Args) == 0 {
		return nil, plan.Errorf(-1, -1, "there is no encoder %s", f)
	}
	if budget <= 0 {
		budget = DefaultEncoderBudget
	}
	e := &Encoding{
		f: f, create: m.create(f), moments: m.moments, clock: clock, budget: budget,
		took: after(f, plan.TimeArgument), by: after(f, plan.SequenceArgument),
		born: after(f, plan.BornArgument), dies: after(f, plan.DiesArgument), lineage: after(f, plan.LineageArgument), within: after(f, plan.InnerArgument),
		waits: after(f, plan.WaitsArgument), allocated: after(f, plan.BytesArgument),
		calls: len(f.Args) > 1 && f.ArgNames[1] == "",
	}
	e.Reset()
	x, err := e.create(e.alphabet)
	if h, ok := x.(*encoders.HierarchyEncoder); ok {
		e.hierarchy = h.Hierarchy()
	}
	return e, err
}

// after returns the index of the argument with this name among the arguments after
// the first, or -1.
func after(f *plan.Agg, name string) int { return max(f.Named(name), 0) - 1 }

func (e *Encoding) Grow(n int) { e.groups = rowstore.Extended(e.groups, n) }

func (e *Encoding) Reset() {
	clear(e.groups)
	e.groups, e.all = e.groups[:0], nil
	e.held, e.full, e.noEvent = 0, false, nil
	e.alphabet = encoders.NewAlphabet()
	e.inner = innerCalls{}
	e.origin, e.begun = 0, 0
	e.tokens, e.events, e.lineages = symbolCache{}, symbolCache{}, symbolCache{}
}

// Merge folds the rows of states. Sequences with one key but different origins differ.
func (e *Encoding) Merge(in *fold.Input, state []batch.Column) error {
	if e.reader == nil {
		e.reader = states.NewRowsReader(e.f)
	}
	defer func() { e.origin = 0 }()
	return e.reader.Read(in, state, func(in *fold.Input, origin uint64) {
		e.origin = origin
		e.Update(in)
	})
}

// ResetRefused returns the number of rows not encoded since the last call.
func (e *Encoding) ResetRefused() uint64 {
	n := e.refused
	e.refused = 0
	return n
}

// Bytes implements valueHolder.
func (e *Encoding) Bytes() int64 { return e.held }

// Update appends the rows to their sequences: as many at a time as belong to
// the same.
func (e *Encoding) Update(in *fold.Input) {
	names := in.Arg
	if e.calls {
		names = in.More[0]
	}
	to := e.tokens.lookup(names)
	var what []encoders.Symbol
	if e.calls {
		what = e.events.lookup(in.Arg)
		for i, s := range what {
			if s == unknown {
				what[i] = eventOf(in.Arg.Values[i])
			}
		}
	}
	if e.within >= 0 && e.by >= 0 && e.calls {
		e.updateInner(in, names, to, what)
		return
	}
	var s *sequence
	for _, r := range in.Rows {
		enters := !e.calls
		if e.calls {
			event := what[in.Arg.Code[r]]
			if event == gap {
				e.append(s)
				s = nil
				e.cut(in, r)
			}
			if event == allocates && e.allocated >= 0 {
				e.append(s)
				s = e.allocate(in, r, names)
				continue
			}
			if event >= allocates && e.noEvent == nil {
				e.noEvent = &in.Arg.Values[in.Arg.Code[r]]
			}
			if enters = event == entered; event >= gap || enters && names.Nulls.Get(int(r)) {
				continue
			}
		}
		if next := e.sequence(in, r); next != s {
			e.append(s)
			s = next
		}
		if s == nil {
			continue // the row begins no sequence
		}
		symbol := encoders.Return
		if enters {
			c := names.Code[r]
			if symbol = to[c]; symbol == unknown {
				symbol = e.symbolOf(names.Values[c])
				to[c] = symbol
			}
		}
		if e.lineage >= 0 {
			e.learn(in.More[e.lineage], r)
		}
		e.symbols = append(e.symbols, symbol)
		switch {
		case e.took >= 0:
			t := int64(encoders.NoTime)
			if c := in.More[e.took]; !c.Nulls.Get(int(r)) {
				t = c.Int[r]
			}
			e.times = append(e.times, t)
		case (e.calls || e.moments) && e.clock:
			e.times = append(e.times, s.elapsed(in.Times[r], e.moments))
		}
		if e.waits >= 0 && enters && isTrue(in.More[e.waits], r) {
			e.append(s)
			if x, ok := s.encoder.(activityEncoder); ok {
				x.Waits()
			}
		}
		if e.dies >= 0 && isTrue(in.More[e.dies], r) {
			e.append(s)
			e.set(in, r, nil)
			e.died(&e.groups[in.Groups[r]], s)
			s = nil
		}
	}
	e.append(s)
}

// append passes the collected symbols to the encoder of their sequence.
func (e *Encoding) append(s *sequence) {
	if len(e.symbols) == 0 {
		return
	}
	var times []int64
	if len(e.times) == len(e.symbols) {
		times = e.times
	}
	if e.full {
		e.refused += uint64(len(e.symbols))
	}
	before := s.encoder.Bytes()
	s.encoder.Append(e.symbols, times)
	e.held += s.encoder.Bytes() - before
	e.symbols, e.times = e.symbols[:0], e.times[:0]
	if e.held > e.budget && !e.full {
		e.full = true
		for _, s := range e.all {
			s.encoder.Freeze()
		}
	}
}

// activityEncoder is an encoder that accepts more than calls about threads.
type activityEncoder interface {
	Waits()
	Allocate(class encoders.Symbol, bytes, at int64)
}

// allocate notes the allocation of row r, and returns its sequence.
func (e *Encoding) allocate(in *fold.Input, r uint16, names *batch.Column) *sequence {
	s := e.sequence(in, r)
	bytes := in.More[e.allocated]
	if s == nil || names.Nulls.Get(int(r)) || bytes.Nulls.Get(int(r)) || !e.clock {
		return s
	}
	if x, ok := s.encoder.(activityEncoder); ok {
		before := s.encoder.Bytes()
		x.Allocate(e.symbolOf(names.Values[names.Code[r]]), bytes.Int[r], in.Times[r])
		e.held += s.encoder.Bytes() - before
	}
	return s
}

func (e *Encoding) symbolOf(name string) encoders.Symbol {
	if e.calls {
		return e.alphabet.Function(name)
	}
	return e.alphabet.Symbol(name)
}

// The values of the first argument of a call, as a Symbol.
const (
	entered encoders.Symbol = iota
	returned
	gap       // events of the thread are missing
	allocates // if an argument has the number of bytes
	ignored   // no call
)

func eventOf(event string) encoders.Symbol {
	switch event {
	case "ENTER":
		return entered
	case "LEAVE", "UNWIND":
		return returned
	case "GAP":
		return gap
	case "ALLOCATE":
		return allocates
	}
	return ignored
}

// Output sets each group's encoding, merged from those of its sequences, which are
// verified to decode to the input.
func (e *Encoding) Output(groups []uint32, out *batch.Column, at fold.Instant) error {
	if e.noEvent != nil {
		return plan.Errorf(-1, -1, "%s encodes calls: '%s' is no ENTER, LEAVE, UNWIND or GAP", e.f, *e.noEvent)
	}
	if e.cycle != nil {
		return plan.Errorf(-1, -1, "%s: %v", e.f, e.cycle)
	}
	for i, g := range groups {
		if e.groups[g].empty() {
			out.Append(i, types.NullOf(e.f.T))
			continue
		}
		x, err := e.shown(&e.groups[g], at.Preview)
		if err != nil {
			return err
		}
		e.put(out, i, &e.groups[g], x)
	}
	return nil
}

// previewRest is the minimum time between two previews, as a multiple of the time
// that one took: a large encoding takes a while, in which events queue.
const previewRest = 50

// shown returns the encoding of a group. A preview may be an older one.
func (e *Encoding) shown(g *sequences, preview bool) (encoders.Encoding, error) {
	if !preview {
		g.preview = nil
		return e.encode(g, true)
	}
	now := time.Now()
	if g.preview != nil && now.Before(e.nextPreview) {
		return g.preview, nil
	}
	x, err := e.encode(g, false)
	if err != nil {
		return nil, err
	}
	g.preview = x
	if e.nextPreview.Before(now) {
		e.nextPreview = now
	}
	e.nextPreview = e.nextPreview.Add(previewRest * time.Since(now))
	return x, nil
}

func (e *Encoding) encode(g *sequences, verify bool) (encoders.Encoding, error) {
	parts := make([]encoders.Encoding, 0, 1+len(g.order))
	if g.past != nil {
		parts = append(parts, g.past)
	}
	for _, s := range g.sorted() {
		parts = append(parts, s.encoder.Encode())
	}
	x := parts[0]
	if len(parts) > 1 {
		m, ok := x.(encoders.Mergeable)
		if !ok {
			return nil, plan.Errorf(-1, -1, "%s encodes one sequence at a time", e.f).WithHint("group by the columns that distinguish the sequences")
		}
		var err error
		if x, err = m.Merge(parts[1:]); err != nil {
			return nil, plan.Errorf(-1, -1, "%s: %v", e.f, err)
		}
	}
	if l, ok := x.(encoders.Lossless); ok && verify && l.Exact() {
		if err := encoders.Verify(l); err != nil {
			return nil, plan.Errorf(-1, -1, "%s is wrong: %v", e.f, err)
		}
	}
	return x, nil
}

// symbolCache caches the symbols of dictionary values.
type symbolCache struct {
	dict    *batch.Dict
	symbols []encoders.Symbol // by code
	known   map[*batch.Dict][]encoders.Symbol
}

// unknown marks a symbol that was not looked up yet.
const unknown = encoders.End

// lookup returns the symbols by code of c's dictionary. Codes that no row has used
// yet are unknown.
func (s *symbolCache) lookup(c *batch.Column) []encoders.Symbol {
	if c.Dict != s.dict || c.Dict == nil {
		if s.known == nil || len(s.known) > maxCachedDicts {
			s.known = map[*batch.Dict][]encoders.Symbol{}
		}
		if s.dict != nil {
			s.known[s.dict] = s.symbols
		}
		s.dict, s.symbols = c.Dict, s.known[c.Dict]
		if c.Dict == nil { // no identity: a dictionary of this column alone
			s.symbols = nil
		}
	}
	for len(s.symbols) < len(c.Values) {
		s.symbols = append(s.symbols, unknown)
	}
	return s.symbols
}

// maxCachedDicts is how many dictionaries a cache remembers.
const maxCachedDicts = 64
