package codegen

import (
	"slices"

	"github.com/cilium/ebpf/asm"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// What programs of an aggregate share with the C code around them (aggregate.h
// of package bpf): the places of the words that Derive fills, and how many
// there are of each.
const (
	KeyAt    = 1 // behind the word that says which CPU's group it is, and which function's
	MaxKeys  = 8
	bucketAt = KeyAt + MaxKeys + 1 // the last of a key is one bucket's
	// MaxSketches is how many lists of buckets a group can have.
	MaxSketches = 3
	scratchAt   = bucketAt + MaxSketches
	maxWords    = 20
	// MaxState is how many words a group's state can have.
	MaxState = 32
)

// eventsWord is where a state with a lock counts the group's events.
const eventsWord = 1

// noBucket is where a sketch gets nothing.
const noBucket = -1

// Aggregate is the compiled first stage of an aggregate. For an event it
//
//   - derives words from it: the group's key, the buckets of sketches, what
//     arguments and filters come to. Only this can be left to the engine, and
//     nothing has been changed then;
//   - updates the state of its group with them.
//
// A sketch (HISTOGRAM, QUANTILE) is kept as a count for each group and bucket.
type Aggregate struct {
	// Derive is the body of a function of the addresses of the event and of the
	// words: 1, or 0 for an event that is left to the engine. nil: there are no
	// words to be derived.
	Derive asm.Instructions
	// Update is the body of a function of the addresses of the event, the
	// group's state, and the words. The first word of the state is left to the
	// caller, as a lock. nil: the state is one word, to which 1 is to be added.
	Update asm.Instructions

	ByFunction bool // the function is part of the key
	KeyWords   int  // the rest of the key
	StateWords int  // 0: only sketches are kept
	Sketches   int
	Timed      bool // the event's time is looked at

	Keys []Key // where the keys are
	Aggs []Agg // where the aggregates are
	// Events is the word of the state that counts the events, where there is one.
	Events int
}

// Key says where a key is.
type Key struct {
	// Column is the index of the column that the function decides; -1: it is in
	// the group's key, from Word on: NameSize bytes if Name is set, else a number.
	Column int
	Word   int
	Name   bool
	// Values are those of which the number says which it is; nil: it is the number.
	Values []types.Value
}

// Agg says where the state of an aggregate is: in these words of the group's,
// in the order of plan.StateFields, or in the sketch of that number.
type Agg struct {
	Words  []int
	Sketch int // -1: it is none
}

// CompileAggregate compiles p over the columns of in; ok is false if that is
// not possible for all of it. time is the index of the column with the event's
// time, -1 if there is none. Code that looks for buckets of quantiles refers to
// a map by the name boundaries; see Boundaries.
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
	time       *number // nil: there is none
	timeIndex  int

	derive  *writer
	unsure  label
	empty   int // size of derive with nothing in it
	scratch int // next free word
	classes []*class
	lists   []sketch
}

// class are the aggregates over the same events: those that pass one filter.
type class struct {
	filter string // "": none
	flag   int    // the word that says whether an event passes
	n      int    // word of the state: events that passed
	inputs []*input
}

// input is a number that is folded in, with the words of the state where.
type input struct {
	name  string
	value *number
	at    int // word where it is, -1: it is computed from the event when folded in
	folds []*fold
}

type fold struct {
	kind  string // sum, squares, min, max, first, last
	words []int  // of the state
}

// sketch is a list of buckets.
type sketch struct {
	name  string // of its formula, argument and filter
	index int
}

// The derive function keeps the address of the words on its stack, since
// conditions need all registers.
const wordsAt = -8

func (c *aggregator) begin() {
	w := c.derive
	c.unsure = w.newLabel()
	w.add(asm.Mov.Reg(argument, asm.R1), asm.StoreMem(asm.RFP, wordsAt, asm.R2, asm.DWord))
	c.empty = w.size
}

// store puts a register into a word.
func (c *aggregator) store(word int, r asm.Register) {
	c.derive.add(asm.LoadMem(scratch2, asm.RFP, wordsAt, asm.DWord), asm.StoreMem(scratch2, int16(8*word), r, asm.DWord))
}

// read notes what a number looks at.
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

// key adds a key; false: the kernel cannot compute it.
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

// agg adds an aggregate; false: the kernel cannot compute it.
func (c *aggregator) agg(f *plan.Agg) bool {
	if !plan.KernelAggregates(f) {
		return false
	}
	k, ok := c.class(f.Filter)
	if !ok {
		return false
	}
	if f.Fn == "count" || f.Fn == "rate" {
		// Nothing else is NULL of what can be computed.
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
	if b, ok := bucketsOf(f); ok {
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

// class finds the class of a filter, and computes what the filter comes to.
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

// reserve takes a word of those that are derived; the caller looks whether
// there were too many when all is done.
func (c *aggregator) reserve() int {
	c.scratch++
	return c.scratch - 1
}

// passed is the word of the state that counts the events of a class; that of
// the class of all is Events.
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

// words are those of the state in which an argument is folded that way.
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
	c.passed(k) // says whether there was one before
	return f.words
}

// input notes that a number is folded in. It is derived if the computation
// can fail, or takes more than the few registers there are when folding.
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

// sketch adds an aggregate of buckets.
func (c *aggregator) sketch(f *plan.Agg, b buckets, n *number, k *class) bool {
	if b == nil {
		return false
	}
	name := b.name() + " " + f.Args[0].String() + " " + k.filter
	if i := slices.IndexFunc(c.lists, func(s sketch) bool { return s.name == name }); i >= 0 {
		c.out.Aggs = append(c.out.Aggs, Agg{Sketch: c.lists[i].index})
		return true
	}
	index := len(c.lists)
	if index == MaxSketches {
		return false
	}
	c.lists = append(c.lists, sketch{name, index})
	c.out.Aggs = append(c.out.Aggs, Agg{Sketch: index})
	w := c.derive
	n.load(w, operands, c.unsure)
	b.number(w, c.boundaries, c.unsure)
	// Which sketch it is stands above the bucket.
	w.add(asm.LSh.Imm(operands[0], 64-bucketBits), asm.RSh.Imm(operands[0], 64-bucketBits))
	w.constant(scratch, int64(index)<<bucketBits)
	w.add(asm.Or.Reg(operands[0], scratch))
	if k.filter != "" {
		passed := w.newLabel()
		w.add(asm.LoadMem(scratch2, asm.RFP, wordsAt, asm.DWord), asm.LoadMem(scratch2, scratch2, int16(8*k.flag), asm.DWord))
		w.jump(asm.JNE.Imm(scratch2, 0, ""), passed)
		w.add(asm.Mov.Imm(operands[0], noBucket))
		w.place(passed)
	}
	c.store(bucketAt+index, operands[0])
	return true
}

// finish puts the programs together.
func (c *aggregator) finish() (*Aggregate, bool) {
	a, w := c.out, c.derive
	a.Sketches = len(c.lists)
	if c.scratch > maxWords || a.StateWords >= MaxState {
		return nil, false
	}
	var err error
	if w.size > c.empty {
		w.add(asm.Mov.Imm(asm.R0, 1), asm.Return())
		if w.used(c.unsure) { // the verifier wants no instruction that nothing leads to
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
	case c.inSketch():
		// Where every event is in a bucket, the buckets say which groups there are.
		a.StateWords = 0
	default:
		// A lone count needs no lock.
		for i := range a.Aggs {
			if a.Aggs[i].Words != nil {
				a.Aggs[i].Words = []int{0}
			}
		}
	}
	return a, true
}

// inSketch reports whether nothing is asked that the buckets do not say.
func (c *aggregator) inSketch() bool {
	if slices.ContainsFunc(c.out.Aggs, func(a Agg) bool { return a.Sketch < 0 }) {
		return false
	}
	return slices.ContainsFunc(c.classes, func(k *class) bool { return k.filter == "" })
}

// DecodeBucket takes the word of a key apart that names a bucket.
func DecodeBucket(word uint64) (sketch int, bucket int64) {
	bucket = int64(word<<(64-bucketBits)) >> (64 - bucketBits)
	if bucket == farBucket {
		bucket = overflow
	}
	return int(word >> bucketBits), bucket
}
