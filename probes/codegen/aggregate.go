package codegen

import (
	"slices"

	"github.com/cilium/ebpf/asm"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// The interface between an aggregate's programs and the C code around them
// (aggregate.h of package bpf): positions of the words that Derive fills, and
// their maximum numbers.
const (
	KeyAt    = 1 // after the words for the CPU's group and the function's
	MaxKeys  = 8
	bucketAt = KeyAt + MaxKeys + 1 // the last key word identifies a bucket
	// MaxSketches limits the sketches of a group.
	MaxSketches = 3
	sampleAt    = bucketAt + MaxSketches // the values of those for quantiles
	scratchAt   = sampleAt + MaxSketches
	maxWords    = 23
	// ExactSamples is the number of values up to which the quantiles of a group are
	// exact.
	ExactSamples = 1000
	// MaxState limits the words of a group's state.
	MaxState = 32
)

// eventsWord is the index of the event count in a state with a lock.
const eventsWord = 1

// noBucket means that a sketch is not updated.
const noBucket = -1

// Aggregate is the compiled first stage of an aggregate. For an event it
//
//   - derives words: the group's key, the buckets of sketches, the results of
//     filters and arguments. Only this part can fail and leave the event to the
//     engine; nothing has been changed then;
//   - updates the state of its group with them.
//
// A sketch (HISTOGRAM, QUANTILE) is a count for each group and bucket. Where it is for
// quantiles, the bucket also has its smallest and its largest value, and the first
// ExactSamples values of a group are kept as they are.
type Aggregate struct {
	// Derive is the body of a function of the addresses of the event and of the
	// words. It returns 1, or 0 for an event that is left to the engine. nil:
	// there are no words to derive.
	Derive asm.Instructions
	// Update is the body of a function of the addresses of the event, the
	// group's state, and the words. The first word of the state is the caller's
	// lock. nil: the state is one word, to be incremented.
	Update asm.Instructions

	ByFunction bool // the function is part of the key
	KeyWords   int  // the rest of the key
	StateWords int  // 0: there are only sketches
	Sketches   int
	// Samples is, by sketch, the state word that counts its samples if it is for
	// quantiles; -1 if it is a histogram. The caller counts.
	Samples []int
	Timed   bool // the event's time is used

	Keys []Key // locations of the keys
	Aggs []Agg // locations of the aggregates
	// Events is the state word that counts the events, if there is one.
	Events int
}

// Key is the location of a key.
type Key struct {
	// Column is the index of the column, if the function determines the key;
	// -1: it is in the group's key, from Word on: NameSize bytes if Name is
	// set, else a number.
	Column int
	Word   int
	Name   bool
	// Values are the possible keys, of which the number is an index; nil: the
	// number is the key.
	Values []types.Value
}

// Agg is the location of an aggregate's state: in these words of the group's
// state, in the order of plan.StateFields, or in the sketch with a number.
type Agg struct {
	Words  []int
	Sketch int // -1: none
}

// CompileAggregate compiles p over the columns of in; ok is false if some part
// of it cannot be compiled. time is the index of the column with the event's
// time, -1 if there is none. Code that finds buckets of quantiles refers to a
// map by the name boundaries; see Boundaries.
func CompileAggregate(p *plan.Partial, in Layout, time int, boundaries string) (a *Aggregate, ok bool) {
	c := &aggregator{
		compiler:   compiler{in: in},
		out:        &Aggregate{StateWords: 1},
		boundaries: boundaries,
		derive:     &writer{},
		scratch:    scratchAt,
	}
	if time >= 0 && in.Columns[time].Kind == Number {
		c.time, c.timeIndex = &number{op: "column", index: time, column: in.Columns[time]}, time
	}
	c.begin()
	for _, k := range p.Keys {
		if !c.key(k) {
			return nil, false
		}
	}
	for i := range p.Aggs {
		if !c.agg(&p.Aggs[i]) {
			return nil, false
		}
	}
	return c.finish()
}

// aggregator is the state of one CompileAggregate.
type aggregator struct {
	compiler
	out        *Aggregate
	boundaries string
	time       *number // nil: none
	timeIndex  int

	derive  *writer
	unsure  label
	empty   int // size of an empty derive function
	scratch int // next free word
	classes []*class
	lists   []sketch
}

// class is the aggregates over the same events: those that pass one filter.
type class struct {
	filter string // "": none
	flag   int    // word with the filter's result
	n      int    // state word: events that passed
	inputs []*input
}

// input is a number that is folded into words of the state.
type input struct {
	name  string
	value *number
	at    int // derived word; -1: it is computed from the event when folded
	folds []*fold
}

type fold struct {
	kind  string // sum, squares, min, max, first, last
	words []int  // of the state
}

// sketch is a count by bucket.
type sketch struct {
	name  string // identifies its formula, argument and filter
	index int
	keeps bool // its values: it is for quantiles
}

// The derive function keeps the address of the words on its stack, since
// conditions use all registers.
const wordsAt = -8

func (c *aggregator) begin() {
	w := c.derive
	c.unsure = w.newLabel()
	w.add(asm.Mov.Reg(argument, asm.R1), asm.StoreMem(asm.RFP, wordsAt, asm.R2, asm.DWord))
	c.empty = w.size
}

// store writes a register to a word.
func (c *aggregator) store(word int, r asm.Register) {
	c.derive.add(asm.LoadMem(scratch2, asm.RFP, wordsAt, asm.DWord), asm.StoreMem(scratch2, int16(8*word), r, asm.DWord))
}

// read records the columns that a number reads.
func (c *aggregator) read(n *number) {
	var t test
	n.reads(&t)
	c.readAll(&t)
}

func (c *aggregator) readAll(t *test) {
	for _, i := range t.columns {
		c.out.Timed = c.out.Timed || i == c.timeIndex && c.time != nil
	}
}

// key adds a key; false if the kernel cannot compute it.
func (c *aggregator) key(e plan.Expr) bool {
	if index, ok := c.column(e, Function); ok {
		c.out.ByFunction = true
		c.out.Keys = append(c.out.Keys, Key{Column: index})
		return true
	}
	word := KeyAt + c.out.KeyWords
	if index, ok := c.column(e, Name); ok {
		if c.out.KeyWords += 2; c.out.KeyWords > MaxKeys {
			return false
		}
		for i := range 2 {
			c.derive.add(asm.LoadMem(operands[0], argument, c.in.Columns[index].Offset+int16(8*i), asm.DWord))
			c.store(word+i, operands[0])
		}
		c.out.Keys = append(c.out.Keys, Key{Column: -1, Word: word, Name: true})
		return true
	}
	if k := c.choice(e); k != nil {
		if c.out.KeyWords++; c.out.KeyWords > MaxKeys {
			return false
		}
		c.choose(k)
		c.store(word, operands[0])
		c.out.Keys = append(c.out.Keys, Key{Column: -1, Word: word, Values: k.values})
		return true
	}
	n := c.number(e)
	if c.out.KeyWords++; n == nil || n.mayBeNull() || c.out.KeyWords > MaxKeys || n.registers() > len(operands) {
		return false
	}
	c.read(n)
	n.load(c.derive, operands, c.unsure)
	c.store(word, operands[0])
	c.out.Keys = append(c.out.Keys, Key{Column: -1, Word: word})
	return true
}

// agg adds an aggregate; false if the kernel cannot compute it.
func (c *aggregator) agg(f *plan.Agg) bool {
	if !plan.KernelAggregates(f) {
		return false
	}
	k, ok := c.class(f.Filter)
	if !ok {
		return false
	}
	if f.Fn == "count" || f.Fn == "rate" {
		// Nothing else that can be computed is NULL.
		for _, e := range f.Args {
			n := c.number(e)
			if n == nil || n.mayBeNull() || n.registers() > len(operands) {
				return false
			}
			if n.fails() {
				c.read(n)
				n.load(c.derive, operands, c.unsure)
			}
		}
		c.out.Aggs = append(c.out.Aggs, Agg{Words: []int{c.passed(k)}, Sketch: -1})
		return true
	}
	if len(f.Args) != 1 {
		return false
	}
	n := c.number(f.Args[0])
	if n == nil || n.mayBeNull() || n.registers() > len(operands) {
		return false
	}
	c.read(n)
	if b, ok := bucketsOf(f, n.unsigned); ok {
		return c.sketch(f, b, n, k)
	}
	words := func(kind string, count int) []int { return c.words(k, f.Args[0], n, kind, count) }
	var at []int
	switch fn := f.Fn; fn {
	case "sum", "avg":
		at = append(at, words("sum", 2)...)
	case "min", "max":
		at = append(at, words(fn, 1)...)
	case "first", "last":
		if c.time == nil {
			return false
		}
		c.read(c.time)
		at = append(at, words(fn, 2)...)
	case "stddev", "variance":
		at = append(at, words("sum", 2)...)
		at = append(at, c.passed(k))
		at = append(at, words("squares", 3)...)
		c.out.Aggs = append(c.out.Aggs, Agg{Words: at, Sketch: -1})
		return true
	default:
		return false
	}
	c.out.Aggs = append(c.out.Aggs, Agg{Words: append(at, c.passed(k)), Sketch: -1})
	return true
}

// class returns the class of a filter, and derives the filter's result.
func (c *aggregator) class(filter plan.Expr) (k *class, ok bool) {
	name := ""
	if filter != nil {
		name = filter.String()
	}
	for _, k := range c.classes {
		if k.filter == name {
			return k, true
		}
	}
	k = &class{filter: name, n: -1}
	c.classes = append(c.classes, k)
	if filter == nil {
		return k, true
	}
	f := c.formula(filter, true)
	if exists(f, undecided) {
		return nil, false
	}
	k.flag = c.reserve()
	w := c.derive
	if v, ok := f.(verdict); ok {
		yes := int32(0)
		if v {
			yes = 1
		}
		w.add(asm.Mov.Imm(operands[0], yes))
	} else {
		each(f, c.readAll)
		no, end := w.newLabel(), w.newLabel()
		w.formula(f, false, no, c.unsure)
		w.add(asm.Mov.Imm(operands[0], 1))
		w.goTo(end)
		w.place(no)
		w.add(asm.Mov.Imm(operands[0], 0))
		w.place(end)
	}
	c.store(k.flag, operands[0])
	return k, true
}

// reserve allocates a derived word; the caller checks the total at the end.
func (c *aggregator) reserve() int {
	c.scratch++
	return c.scratch - 1
}

// passed returns the state word that counts the events of a class; for the
// class without filter it is Events.
func (c *aggregator) passed(k *class) int {
	if k.filter == "" {
		return eventsWord
	}
	if k.n < 0 {
		k.n = c.out.StateWords + 1
		c.out.StateWords++
	}
	return k.n
}

// words returns the state words into which an argument is folded in a way.
func (c *aggregator) words(k *class, e plan.Expr, n *number, kind string, count int) []int {
	arg := c.input(k, e, n)
	for _, f := range arg.folds {
		if f.kind == kind {
			return f.words
		}
	}
	f := &fold{kind: kind}
	for range count {
		f.words = append(f.words, c.out.StateWords+1)
		c.out.StateWords++
	}
	arg.folds = append(arg.folds, f)
	c.passed(k) // the count shows whether there was a value before
	return f.words
}

// input records that a number is folded. It is derived if its computation can
// fail, or needs more than the few registers available when folding.
func (c *aggregator) input(k *class, e plan.Expr, n *number) *input {
	name := e.String()
	for _, a := range k.inputs {
		if a.name == name {
			return a
		}
	}
	a := &input{name: name, value: n, at: -1}
	if n.fails() || n.registers() > len(folding) {
		a.at = c.reserve()
		n.load(c.derive, operands, c.unsure)
		c.store(a.at, operands[0])
	}
	k.inputs = append(k.inputs, a)
	return a
}

// finish assembles the programs.
func (c *aggregator) finish() (*Aggregate, bool) {
	a, w := c.out, c.derive
	a.Sketches = len(c.lists)
	if c.scratch > maxWords || a.StateWords >= MaxState {
		return nil, false
	}
	var err error
	if w.size > c.empty {
		w.add(asm.Mov.Imm(asm.R0, 1), asm.Return())
		if w.used(c.unsure) { // the verifier rejects unreachable instructions
			w.place(c.unsure)
			w.add(asm.Mov.Imm(asm.R0, 0), asm.Return())
		}
		if a.Derive, err = w.finish(); err != nil {
			return nil, false
		}
	}
	switch {
	case a.StateWords > 1:
		a.StateWords++ // for the lock
		a.Events = eventsWord
		if a.Update, err = c.update(); err != nil {
			return nil, false
		}
	case c.inBuckets():
		// If every event is in a bucket, the buckets show which groups exist.
		a.StateWords = 0
	default:
		// A single count needs no lock.
		for i := range a.Aggs {
			if a.Aggs[i].Words != nil {
				a.Aggs[i].Words = []int{0}
			}
		}
	}
	for _, s := range c.lists {
		word := -1
		if s.keeps {
			word = a.StateWords
			a.StateWords++
		}
		a.Samples = append(a.Samples, word)
	}
	return a, a.StateWords <= MaxState
}

// Exact reports whether a sketch is for quantiles.
func (a *Aggregate) Exact() bool {
	return slices.ContainsFunc(a.Samples, func(word int) bool { return word >= 0 })
}

// inBuckets reports whether the buckets contain all requested results.
func (c *aggregator) inBuckets() bool {
	if slices.ContainsFunc(c.out.Aggs, func(a Agg) bool { return a.Sketch < 0 }) || slices.ContainsFunc(c.lists, func(s sketch) bool { return s.keeps }) {
		return false
	}
	return slices.ContainsFunc(c.classes, func(k *class) bool { return k.filter == "" })
}
