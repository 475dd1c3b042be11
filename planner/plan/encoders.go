package plan

import (
	"slices"

	"endoscope/operators/batch"
)

// EncoderForm says how an aggregate that encodes a sequence is called, beyond
// what [AggFunc] says. Its arguments are, in this order,
//
//	ENC(x)                       tokens, as text
//	ENC(event, function_name)    calls: ENTER and LEAVE
//
// then constants by position, which are its options in their order, then named
// arguments: options, and two that every encoder has:
//
//	time => e     how long each token took (DURATION); that is the column
//	              duration where there is one and calls are not asked for
//	sequence => e rows of different e are of different sequences, which are
//	              encoded apart and then merged; for calls it is tid, if there
//	              is such a column
type EncoderForm struct {
	// Calls: it encodes calls only, and without arguments those of the columns
	// event and function_name.
	Calls   bool
	Options []EncoderOption
	Example string // for hints
}

// EncoderOption is a constant argument of an encoder.
type EncoderOption struct {
	Name string
	Type batch.Type // Bigint or Varchar
	// Words are what a VARCHAR may be, or what stands for a number: the first is
	// 0. They may be written without quotes.
	Words    []string
	Min, Max int64 // of a Bigint
	Required bool
}

// Names of the arguments that are not constant.
const (
	TimeArgument     = "time"
	SequenceArgument = "sequence"
)

// NamedValue is a constant argument that has a name, whether or not it was
// given by it.
type NamedValue struct {
	Name       string
	V          batch.Value
	Text       string // how it is written
	ByPosition bool
}

// longest is the greatest length that an option may have.
const longest = 1 << 20

// Encoders is the table of aggregates whose result is an ENCODING. NULL tokens
// are ignored.
var Encoders = []AggFunc{
	{Name: "callstring", Args: []batch.Type{tA}, Result: always(batch.Encoding),
		Doc:     "the calls of each thread as a string: A(B C) is A B < C < <",
		Encoder: &EncoderForm{Calls: true, Example: "CALLSTRING(event, function_name) FROM function_call"}},
	{Name: "nlevel", Args: []batch.Type{tA}, Result: always(batch.Encoding),
		Doc: "number and times of calls by function with up to n-1 of its callers",
		Encoder: &EncoderForm{Calls: true, Example: "NLEVEL(2) FROM function_call", Options: []EncoderOption{
			{Name: "n", Type: tI, Min: 1, Max: 1000, Required: true}}}},
	{Name: "calldag", Args: []batch.Type{tA}, Result: always(batch.Encoding),
		Doc: "the calls of all threads as a graph in which equal subtrees are one node; rle => k: more than k equal calls count as the same",
		Encoder: &EncoderForm{Calls: true, Example: "CALLDAG(event, function_name) FROM function_call", Options: []EncoderOption{
			{Name: "rle", Type: tI, Min: 1, Max: longest}}}},
	{Name: "rle", Args: []batch.Type{tA}, Result: always(batch.Encoding),
		Doc: "runs of equal tokens: A 9:B C; runs longer than k become B*",
		Encoder: &EncoderForm{Example: "RLE(function_name, 3)", Options: []EncoderOption{
			{Name: "k", Type: tI, Min: 1, Max: longest}}}},
	{Name: "grammar", Args: []batch.Type{tA}, Result: always(batch.Encoding),
		Doc: "a context-free grammar (Sequitur); rle => k counts runs and makes those longer than k X* (rle => exact: none); balanced rules return from what they call",
		Encoder: &EncoderForm{Example: "GRAMMAR(event, function_name, balanced => full)", Options: []EncoderOption{
			{Name: "rle", Type: tI, Min: 0, Max: longest, Words: []string{"exact"}},
			{Name: "balanced", Type: tS, Words: []string{"restricted", "full"}}}}},
}

// IsEncoder reports whether the aggregate of that lower-case name encodes a
// sequence.
func IsEncoder(name string) bool {
	f := FindAgg(name)
	return f != nil && f.Encoder != nil
}

// Option is the value of the constant argument of that name.
func (a *Agg) Option(name string) (v batch.Value, given bool) {
	i := slices.IndexFunc(a.Options, func(o NamedValue) bool { return o.Name == name })
	if i < 0 {
		return v, false
	}
	return a.Options[i].V, true
}

// Named is which of Args was given, or added, by name; -1: none.
func (a *Agg) Named(name string) int { return slices.Index(a.ArgNames, name) }
