package plan

import (
	"slices"

	"endoscope/planner/types"
)

// EncoderForm describes the call of an aggregate that encodes a sequence, in addition to
// [AggFunc]. Its arguments are, in this order,
//
//	ENC(x)                       tokens, as text
//	ENC(event, function_name)    calls: ENTER and LEAVE
//
// then constants by position, which are its options in their order, then named arguments:
// options, and these, which every encoder has:
//
//	time => e      the duration of each token (DURATION); the default is the
//	               column duration if it exists and calls are not encoded
//	sequence => e  rows of different e belong to different sequences, which are
//	               encoded separately and then merged; for calls the default is
//	               the goroutine of its pid, else tid, if there are such columns
//	born => cond   a row for which it is true begins a new sequence of its e (an
//	               object at an address that another object had before);
//	               rows without a begun sequence are left out
//	dies => cond   a row for which it is true is the last of its sequence
//	inner => tid   a sequence of calls also includes the calls made by its calls
//	               on that thread, even if the callees' own sequence is NULL or
//	               different
//
// and if tokens are classes,
//
//	lineage => e   the base classes of the row's class (see [Lineage]); the default
//	               is class_lineage for class, receiver_lineage for receiver_class
//
// and for intervals,
//
//	waits => cond  the own time of a call for which it is true is waiting
//	bytes => e     a row whose event is ALLOCATE is an allocation of that many
//	               bytes by the class
type EncoderForm struct {
	// Calls: it encodes calls only; without arguments, those of the columns event and
	// function_name.
	Calls bool
	// Activity: it accepts waiting and allocations.
	Activity bool
	// Lineage: it needs the base classes of classes, its tokens.
	Lineage bool
	// Untimed: it ignores the duration of tokens.
	Untimed bool
	// Model: the name of a model follows the columns. It becomes the first option, called
	// model, whose value is an ENCODING. The option truncated is then set if sequences may
	// not have ended.
	Model   bool
	Options []EncoderOption
	Example string // for hints
}

// EncoderOption is a constant argument of an encoder.
type EncoderOption struct {
	Name string
	Type types.Type // Bigint or Varchar
	// Words are the allowed values of a VARCHAR, or words for numbers: the first is 0. They
	// may be written without quotes.
	Words    []string
	Min, Max int64 // of a Bigint
	Required bool
	// RequiredLive: its default is known only when a sequence has ended, so for unbounded
	// input it must be given.
	RequiredLive bool
}

// Names of options that are not in the table, or that the planner looks up in it.
const (
	ModelOption     = "model"
	TruncatedOption = "truncated"
)

// Names of the arguments that are not constant.
const (
	TimeArgument     = "time"
	SequenceArgument = "sequence"
	BornArgument     = "born"
	DiesArgument     = "dies"
	LineageArgument  = "lineage"
	InnerArgument    = "inner"
	WaitsArgument    = "waits"
	BytesArgument    = "bytes"
)

// NamedValue is a constant argument that has a name, even if it was passed by position.
type NamedValue struct {
	Name       string
	V          types.Value
	Text       string // its text in the statement
	ByPosition bool
	Implied    bool // it was not written
}

// longest is the maximum of options that are lengths.
const longest = 1 << 20

// Encoders is the table of aggregates whose result is an ENCODING. NULL tokens
// are ignored.
var Encoders = []AggFunc{
	{Name: "callstring", Args: []types.Type{tA}, Result: always(types.Encoding),
		Doc:     "the calls of each thread as a string: A(B C) is A B < C < <",
		Encoder: &EncoderForm{Calls: true, Example: "CALLSTRING(event, function_name) FROM function_call"}},
	{Name: "nlevel", Args: []types.Type{tA}, Result: always(types.Encoding),
		Doc: "number and times of calls by function with up to n-1 of its callers",
		Encoder: &EncoderForm{Calls: true, Example: "NLEVEL(2) FROM function_call", Options: []EncoderOption{
			{Name: "n", Type: tI, Min: 1, Max: 1000, Required: true}}}},
	{Name: "intervals", Args: []types.Type{tA}, Result: always(types.Encoding),
		Doc: "the run cut into at most n (1024) equal parts: calls and own time in each, by class or function, and thread; waits => condition: for calls that wait; bytes => size of what ALLOCATE events allocate",
		Encoder: &EncoderForm{Calls: true, Activity: true, Example: "INTERVALS(event, class, 100) FROM function_call", Options: []EncoderOption{
			{Name: "n", Type: tI, Min: 2, Max: longest}}}},
	{Name: "calldag", Args: []types.Type{tA}, Result: always(types.Encoding),
		Doc: "the calls of all threads as a graph in which equal subtrees are one node; rle => k: more than k equal calls count as the same",
		Encoder: &EncoderForm{Calls: true, Example: "CALLDAG(event, function_name) FROM function_call", Options: []EncoderOption{
			{Name: "rle", Type: tI, Min: 1, Max: longest}}}},
	{Name: "rle", Args: []types.Type{tA}, Result: always(types.Encoding),
		Doc: "runs of equal tokens: A 9:B C; runs longer than k become B*; groups => n: repeated groups of up to n runs too, 4:( A 2:B )",
		Encoder: &EncoderForm{Example: "RLE(function_name, 3)", Options: []EncoderOption{
			{Name: "k", Type: tI, Min: 1, Max: longest},
			{Name: "groups", Type: tI, Min: 2, Max: 64}}}},
	{Name: "grammar", Args: []types.Type{tA}, Result: always(types.Encoding),
		Doc: "a context-free grammar (Sequitur); rle => k counts runs and makes those longer than k X* (rle => exact: none); balanced => full: in each rule, calls and returns match",
		Encoder: &EncoderForm{Example: "GRAMMAR(event, function_name, balanced => full)", Options: []EncoderOption{
			{Name: "rle", Type: tI, Min: 0, Max: longest, Words: []string{"exact"}},
			{Name: "balanced", Type: tS, Words: []string{"restricted", "full"}}}}},
	{Name: "automaton", Args: []types.Type{tA}, Result: always(types.Encoding),
		Doc: "a finite automaton that accepts the sequences (k-tails), an arc a line: state token state, END being ⊣; loops => off: no loops for tokens repeated fewer than k times; merge => shared, included or equal tails; truncated => TRUE: the sequences have no ends",
		Encoder: &EncoderForm{Example: "AUTOMATON(function_name, k => 3, sequence => tid)", Options: []EncoderOption{
			{Name: "k", Type: tI, Min: 1, Max: 32},
			{Name: "loops", Type: tS, Words: []string{"on", "off"}},
			{Name: "merge", Type: tS, Words: []string{"shared", "included", "equal"}},
			{Name: "truncated", Type: tS, Words: []string{"off", "on"}}}}},
	{Name: "locality", Args: []types.Type{tA}, Result: always(types.Double),
		Doc: "mean, over all windows of w tokens (default: the number of distinct tokens), of distinct tokens / w",
		Encoder: &EncoderForm{Example: "LOCALITY(function_name, 100)", Untimed: true, Options: []EncoderOption{
			{Name: "w", Type: tI, Min: 1, Max: longest, RequiredLive: true}}}},
	{Name: "loop", Args: []types.Type{tA}, Result: always(types.Encoding),
		Doc: "number of tokens equal to the one n before (hit), and number that are part of such a repetition (covered)",
		Encoder: &EncoderForm{Example: "LOOP(function_name, 3)", Untimed: true, Options: []EncoderOption{
			{Name: "n", Type: tI, Min: 1, Max: 1 << 16, Required: true}}}},
	{Name: "consecutive", Args: []types.Type{tA}, Result: always(types.Encoding), Doc: "LOOP(x, 1)",
		Encoder: &EncoderForm{Example: "CONSECUTIVE(class)", Untimed: true}},
	{Name: HierarchyEncoder, Args: []types.Type{tA}, Result: always(types.Encoding),
		Doc:     "number of successive classes that are equal or derive from one another (hit), and number that are part of such a pair (covered); lineage => column: their base classes, 'Circle < Round < Shape'",
		Encoder: &EncoderForm{Example: "HIERARCHY_CONSECUTIVE(receiver_class) FROM function_start", Untimed: true, Lineage: true}},
	{Name: "succession", Args: []types.Type{tA}, Result: always(types.Encoding),
		Doc:     "the direct predecessors and successors of each token, with probabilities; the best candidates for patterns first",
		Encoder: &EncoderForm{Example: "SUCCESSION(function_name)", Untimed: true}},
	{Name: "invocation_graph", Args: []types.Type{tA}, Result: always(types.Encoding),
		Doc:     "number of occurrences of each token over time; as text and as a zoomable svg()",
		Encoder: &EncoderForm{Example: "svg(INVOCATION_GRAPH(class))", Untimed: true}},
	{Name: "conforms", Args: []types.Type{tA}, Result: always(types.Boolean),
		Doc:     "whether the sequences conform to a model of CREATE MODEL; truncated => TRUE (the default for unbounded input): they have not ended, and may still conform; anywhere => TRUE: they may begin in the middle of the model",
		Encoder: &EncoderForm{Example: "CONFORMS(function_name, my_model)", Untimed: true, Model: true, Options: conformance}},
	{Name: "anomaly", Args: []types.Type{tA}, Result: always(types.Varchar),
		Doc:     "the first token at which a sequence departs from a model, and the tokens that the model allows there; NULL if none does (see CONFORMS)",
		Encoder: &EncoderForm{Example: "ANOMALY(function_name, my_model)", Untimed: true, Model: true, Options: conformance}},
}

// conformance are the options of CONFORMS and ANOMALY.
var conformance = []EncoderOption{
	{Name: TruncatedOption, Type: tS, Words: []string{"off", "on"}},
	{Name: "anywhere", Type: tS, Words: []string{"off", "on"}},
}

// IsEncoder reports whether the aggregate of that lower-case name encodes a sequence.
func IsEncoder(name string) bool {
	f := FindAgg(name)
	return f != nil && f.Encoder != nil
}

// Option returns the value of the constant argument of that name.
func (a *Agg) Option(name string) (v types.Value, given bool) {
	i := slices.IndexFunc(a.Options, func(o NamedValue) bool { return o.Name == name })
	if i < 0 {
		return v, false
	}
	return a.Options[i].V, true
}

// Named returns the index in Args of the argument that was passed, or added, by name; -1:
// none.
func (a *Agg) Named(name string) int { return slices.Index(a.ArgNames, name) }
