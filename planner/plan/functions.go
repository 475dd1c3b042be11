package plan

import (
	"strconv"
	"strings"

	"endoscope/planner/types"
)

// AnyType in a signature stands for one type, the same wherever it occurs in the signature:
// least(T, T, ...) → T.
const AnyType types.Type = 255

// Sig is one accepted combination of argument types and its result type.
type Sig struct {
	Args     []types.Type
	Variadic bool // the last of Args may be repeated
	Optional int  // number of Args, at the end, that may be omitted
	Result   types.Type
}

// Scalar is a scalar function or operator.
type Scalar struct {
	Name     string // lower case; operators by their SQL spelling
	Sigs     []Sig  // the first match with the fewest implicit casts is used
	Volatile bool   // now(): not folded
	Doc      string
}

const (
	tB = types.Boolean
	tI = types.Bigint
	tU = types.Ubigint
	tF = types.Double
	tS = types.Varchar
	tT = types.Timestamp
	tD = types.Duration
	tY = types.Bytes
	tL = types.List
	tE = types.Encoding
	tA = AnyType
)

func sig(result types.Type, args ...types.Type) Sig { return Sig{Args: args, Result: result} }

// same returns one signature per type, T... → T.
func same(n int, ts ...types.Type) []Sig {
	var ss []Sig
	for _, t := range ts {
		s := Sig{Result: t}
		for range n {
			s.Args = append(s.Args, t)
		}
		ss = append(ss, s)
	}
	return ss
}

func comparison(name, doc string) Scalar {
	return Scalar{Name: name, Doc: doc, Sigs: []Sig{
		sig(tB, tI, tI), sig(tB, tF, tF), sig(tB, tD, tD), sig(tB, tT, tT),
		sig(tB, tS, tS), sig(tB, tB, tB), sig(tB, tY, tY),
		sig(tB, tU, tU), sig(tB, tU, tI), sig(tB, tI, tU)}}
}

// Scalars is the table of all scalar functions and operators. The resolver types calls by
// it, SHOW FUNCTIONS and DESCRIBE FUNCTION print it, and operators/expr has a kernel for
// each signature (a test checks that).
//
// Arithmetic: BIGINT operations that overflow are an error that ends the query; BIGINT /
// BIGINT truncates toward zero as in PostgreSQL; anything divided by zero, and x % 0, is
// NULL. DURATION and TIMESTAMP are in ns. UBIGINT is the same between 0 and 2^64-1; beside a
// BIGINT it is compared by value, and converted to BIGINT for everything else.
var Scalars = []Scalar{
	{Name: "and", Sigs: []Sig{sig(tB, tB, tB)}, Doc: "both are true"},
	{Name: "or", Sigs: []Sig{sig(tB, tB, tB)}, Doc: "at least one is true"},
	{Name: "not", Sigs: []Sig{sig(tB, tB)}, Doc: "is false"},
	{Name: "is null", Sigs: []Sig{sig(tB, tA)}, Doc: "has no value"},
	comparison("=", "equal"), comparison("<>", "not equal"),
	comparison("<", "less"), comparison("<=", "less or equal"),
	comparison(">", "greater"), comparison(">=", "greater or equal"),
	{Name: "+", Sigs: append(same(2, tI, tU, tF, tD), sig(tT, tT, tD), sig(tT, tD, tT)), Doc: "sum"},
	{Name: "-", Sigs: append(same(2, tI, tU, tF, tD), sig(tT, tT, tD), sig(tD, tT, tT)), Doc: "difference"},
	{Name: "*", Sigs: append(same(2, tI, tU, tF), sig(tD, tD, tI), sig(tD, tI, tD), sig(tD, tD, tF), sig(tD, tF, tD)), Doc: "product"},
	{Name: "/", Sigs: append(same(2, tI, tU, tF), sig(tF, tD, tD), sig(tD, tD, tI), sig(tD, tD, tF)), Doc: "quotient; truncated for integers; NULL if the divisor is 0"},
	{Name: "%", Sigs: same(2, tI, tU, tF, tD), Doc: "remainder, with the sign of the dividend; NULL if the divisor is 0"},
	{Name: "neg", Sigs: same(1, tI, tF, tD), Doc: "negation"},
	{Name: "||", Sigs: []Sig{sig(tS, tS, tS)}, Doc: "concatenation of strings"},
	{Name: "like", Sigs: []Sig{sig(tB, tS, tS)}, Doc: "matches a pattern of % (any text) and _ (one character); backslash escapes"},
	{Name: "ilike", Sigs: []Sig{sig(tB, tS, tS)}, Doc: "case-insensitive LIKE"},
	{Name: "~", Sigs: []Sig{sig(tB, tS, tS)}, Doc: "matches a regular expression (RE2 syntax), anywhere in the text"},

	{Name: "abs", Sigs: same(1, tI, tU, tF, tD), Doc: "absolute value"},
	{Name: "ceil", Sigs: []Sig{sig(tF, tF)}, Doc: "nearest integer not less than x"},
	{Name: "floor", Sigs: []Sig{sig(tF, tF)}, Doc: "nearest integer not greater than x"},
	{Name: "round", Sigs: []Sig{{Args: []types.Type{tF, tI}, Optional: 1, Result: tF}}, Doc: "rounded to n decimals (default 0), halves away from zero"},
	{Name: "sqrt", Sigs: []Sig{sig(tF, tF)}, Doc: "square root; NULL for negative numbers"},
	{Name: "log2", Sigs: []Sig{sig(tF, tF)}, Doc: "logarithm to base 2; NULL unless x > 0"},
	{Name: "ln", Sigs: []Sig{sig(tF, tF)}, Doc: "natural logarithm; NULL unless x > 0"},
	{Name: "pow", Sigs: []Sig{sig(tF, tF, tF)}, Doc: "x to the power of y"},
	{Name: "least", Sigs: []Sig{{Args: []types.Type{tA}, Variadic: true, Result: tA}}, Doc: "smallest argument; NULLs are ignored"},
	{Name: "greatest", Sigs: []Sig{{Args: []types.Type{tA}, Variadic: true, Result: tA}}, Doc: "largest argument; NULLs are ignored"},
	{Name: "coalesce", Sigs: []Sig{{Args: []types.Type{tA}, Variadic: true, Result: tA}}, Doc: "first argument that is not NULL"},
	{Name: "nullif", Sigs: []Sig{sig(tA, tA, tA)}, Doc: "NULL if both are equal, else the first"},

	{Name: "length", Sigs: []Sig{sig(tI, tS), sig(tI, tY), sig(tI, tL)}, Doc: "number of characters; of bytes for BYTES, of elements for LIST"},
	{Name: "hex", Sigs: []Sig{sig(tS, tI), sig(tS, tU)}, Doc: "a number in hexadecimal, '0x2a'; a negative one as its 64 bits"},
	{Name: "lower", Sigs: []Sig{sig(tS, tS)}, Doc: "in lower case"},
	{Name: "upper", Sigs: []Sig{sig(tS, tS)}, Doc: "in upper case"},
	{Name: "substr", Sigs: []Sig{{Args: []types.Type{tS, tI, tI}, Optional: 1, Result: tS}}, Doc: "substring from the n-th character (first is 1), at most m characters"},
	{Name: "replace", Sigs: []Sig{sig(tS, tS, tS, tS)}, Doc: "every occurrence of the second string replaced by the third"},
	{Name: "split_part", Sigs: []Sig{sig(tS, tS, tS, tI)}, Doc: "n-th field (first is 1; from the end if negative) of a string split at a separator; '' if there is none"},
	{Name: "label", Sigs: []Sig{sig(tS, tS, tS)}, Doc: "label of a container or its pod: label('app') is label(labels, 'app'); NULL if there is none"},
	{Name: "starts_with", Sigs: []Sig{sig(tB, tS, tS)}, Doc: "begins with the second string"},
	{Name: "concat", Sigs: []Sig{{Args: []types.Type{tS}, Variadic: true, Result: tS}}, Doc: "concatenation of the arguments; NULLs are ignored"},
	{Name: "regexp_extract", Sigs: []Sig{{Args: []types.Type{tS, tS, tI}, Optional: 1, Result: tS}}, Doc: "first match of a regular expression, or its n-th group; NULL if none"},

	{Name: "text", Sigs: []Sig{sig(tS, tE)}, Doc: "an encoding as the text that is displayed"},
	{Name: "json", Sigs: []Sig{sig(tS, tE)}, Doc: "the complete content of an encoding, with counts and times, as JSON"},
	{Name: "dot", Sigs: []Sig{sig(tS, tE)}, Doc: "an encoding that is a graph, in Graphviz format"},
	{Name: "mermaid", Sigs: []Sig{sig(tS, tE)}, Doc: "an encoding that is a graph, in Mermaid format for Markdown"},
	{Name: "svg", Sigs: []Sig{sig(tS, tE)}, Doc: "an encoding as an SVG image"},
	{Name: "xml", Sigs: []Sig{sig(tS, tE)}, Doc: "a TRIE as XML, and the handlers found in it (Reiss, WODA 2008)"},
	{Name: "folded", Sigs: []Sig{sig(tS, tE)}, Doc: "the stacks of a TRIE, one per line: 'caller;callee 12', the input of flame graph tools"},
	{Name: "format_stack", Sigs: []Sig{{Args: []types.Type{tL, tI}, Optional: 1, Result: tS}}, Doc: "functions of a stack's innermost n frames (default: all), leaf first: 'callee < caller'"},
	{Name: "folded_stack", Sigs: []Sig{{Args: []types.Type{tL, tI}, Optional: 1, Result: tS}}, Doc: "functions of a stack's innermost n frames (default: all), root first: 'caller;callee', the input of flame graph tools"},
	{Name: "source_stack", Sigs: []Sig{{Args: []types.Type{tL, tI}, Optional: 1, Result: tS}}, Doc: "a stack's innermost n frames (default: all), leaf first, one a line, with their places: 'function at file:line', and (inlined)"},
	{Name: "frame", Sigs: []Sig{sig(tS, tL, tI)}, Doc: "function of the n-th frame of a stack: 0 is the leaf, -1 the root; NULL if there is none; also written frame(stack, n).function"},
	{Name: "frame.module", Sigs: []Sig{sig(tS, tL, tI)}, Doc: "the file of the n-th frame's code, without its directory"},
	{Name: "frame.file", Sigs: []Sig{sig(tS, tL, tI)}, Doc: "the source file of the n-th frame; NULL if it is not known"},
	{Name: "frame.line", Sigs: []Sig{sig(tI, tL, tI)}, Doc: "the source line that the n-th frame executes or, of a caller, where it calls; NULL if it is not known"},
	{Name: "frame.inlined", Sigs: []Sig{sig(tB, tL, tI)}, Doc: "whether the n-th frame is of a call that was compiled into its caller"},

	{Name: "to_ns", Sigs: []Sig{sig(tI, tD)}, Doc: "nanoseconds of a duration"},
	{Name: "to_us", Sigs: []Sig{sig(tF, tD)}, Doc: "microseconds of a duration"},
	{Name: "to_ms", Sigs: []Sig{sig(tF, tD)}, Doc: "milliseconds of a duration"},
	{Name: "to_s", Sigs: []Sig{sig(tF, tD)}, Doc: "seconds of a duration"},
	{Name: "to_min", Sigs: []Sig{sig(tF, tD)}, Doc: "minutes of a duration"},
	{Name: "now", Sigs: []Sig{sig(tT)}, Volatile: true, Doc: "the time at which the row is processed"},
	{Name: "date_trunc", Sigs: []Sig{sig(tT, tS, tT)}, Doc: "the time truncated to 'microsecond', 'millisecond', 'second', 'minute', 'hour' or 'day' (UTC)"},
}

// NeedsLines reports whether a function reads the files and lines of a stack's frames, which are
// acquired only for that.
func NeedsLines(fn string) bool {
	switch fn {
	case "frame.file", "frame.line", "frame.inlined", "source_stack":
		return true
	}
	return false
}

// FindScalar returns the function with that lower-case name, or nil.
func FindScalar(name string) *Scalar {
	for i := range Scalars {
		if Scalars[i].Name == name {
			return &Scalars[i]
		}
	}
	return nil
}

// AggFunc describes an aggregate function. A nil Result means the argument's type.
type AggFunc struct {
	Name     string
	Args     []types.Type // accepted types of the argument; nil: no argument; AnyType: every type
	Params   []types.Type // constant arguments after it
	Optional int          // number of Params that may be omitted (all or none)
	Star     bool         // may be called with *
	Distinct bool         // DISTINCT changes the result (otherwise it is rejected)
	Result   func(arg types.Type) types.Type
	// More are the types of further column arguments; all may be omitted.
	More []types.Type
	// Encoder describes the call of a sequence encoder; nil for other aggregates.
	Encoder *EncoderForm
	Doc     string
}

func always(t types.Type) func(types.Type) types.Type {
	return func(types.Type) types.Type { return t }
}
func itself(t types.Type) types.Type { return t }
func mean(t types.Type) types.Type {
	if t == tI || t == tU {
		return tF
	}
	return t
}

// AggFuncs is the table of all aggregates. All ignore NULL arguments (COUNT(*) counts rows;
// FIRST and LAST ignore NULLs too). Over no rows COUNT is 0 and the others are NULL.
var AggFuncs = []AggFunc{
	{Name: "count", Args: []types.Type{tA}, Star: true, Distinct: true, Result: always(tI),
		Doc: "number of rows, or of values that are not NULL; COUNT(DISTINCT x) is exact to 10,000 values, then HyperLogLog (2 % error)"},
	{Name: "sum", Args: []types.Type{tI, tU, tF, tD}, Result: itself,
		Doc: "sum; integers accumulate 128 bits and a result that does not fit is an error; of DOUBLE it is exact and rounded once"},
	{Name: "avg", Args: []types.Type{tI, tU, tF, tD}, Result: mean,
		Doc: "mean"},
	{Name: "min", Args: []types.Type{tI, tU, tF, tD, tT, tS, tB}, Result: itself, Doc: "smallest value"},
	{Name: "max", Args: []types.Type{tI, tU, tF, tD, tT, tS, tB}, Result: itself, Doc: "largest value"},
	{Name: "stddev", Args: []types.Type{tI, tU, tF, tD}, Result: mean, Doc: "standard deviation of the sample (n-1); NULL for fewer than two values"},
	{Name: "variance", Args: []types.Type{tI, tU, tF, tD}, Result: always(tF), Doc: "variance of the sample (n-1), of DURATION in ns²; NULL for fewer than two values"},
	{Name: "quantile", Args: []types.Type{tI, tU, tF, tD}, Params: []types.Type{tF}, Result: mean, Doc: "q-quantile, 0 ≤ q ≤ 1: the smallest value whose cumulative share is at least q (exact to 1,000 values, then within 1 %); p99(x) is QUANTILE(x, 0.99), likewise p1 to p99 and p999"},
	{Name: PercentileCont, Args: []types.Type{tI, tU, tF, tD}, Params: []types.Type{tF}, Result: mean, Doc: "percentile_cont(q) WITHIN GROUP (ORDER BY x): the q-quantile, interpolated between the two values next to it (exact to 1,000 values, then between values within 1 %)"},
	{Name: "median", Args: []types.Type{tI, tU, tF, tD}, Result: mean, Doc: "QUANTILE(x, 0.5)"},
	{Name: "histogram", Args: []types.Type{tI, tU, tF, tD}, Params: []types.Type{tF, tF, tF}, Optional: 3, Result: always(tL),
		Doc: "list of [low, high, count]: powers of two, or HISTOGRAM(x, lo, hi, step) with under- and overflow"},
	{Name: "topk", Args: []types.Type{tA}, Params: []types.Type{tI}, Result: always(tL), Doc: "the n most frequent values as a list of [value, count], equal counts in order of the values (exact to 10,000 values, then space-saving)"},
	{Name: "first", Args: []types.Type{tA}, Result: itself, Doc: "value of the earliest row, by event time; of equal times the smallest"},
	{Name: "last", Args: []types.Type{tA}, Result: itself, Doc: "value of the latest row, by event time; of equal times the largest"},
	{Name: "rate", Star: true, Result: always(tF), Doc: "rows per second since the query began, or in the window"},
}

// StackAggs are the aggregates of stacks.
var StackAggs = []AggFunc{
	{Name: "trie", Args: []types.Type{tL}, More: []types.Type{tS, tS}, Result: always(types.Encoding),
		Doc: "TRIE(stack, state, syscall) of stack_sample: a call tree of the program's functions, with the states of threads in them and the event handlers; svg() is a flame graph"},
}

// PresentAggs are the aggregates of events of entities (CONSISTENT): the current state
// derived from the reported events.
var PresentAggs = []AggFunc{
	{Name: "live_objects", Args: []types.Type{tS}, More: []types.Type{tS, tS, tS}, Result: always(types.Encoding),
		Doc: "LIVE_OBJECTS(event, entity_id, type_name, category): number of live objects by type, with the ages of the youngest and the oldest"},
	{Name: "invocation_tree", Args: []types.Type{tS}, More: []types.Type{tS, tS, tS}, Result: always(types.Encoding),
		Doc: "INVOCATION_TREE(event, entity_id, parent_id, name): tree of nested invocations, with their number and how many are in progress; GROUP BY thread_name: by thread"},
	{Name: "wait_graph", Args: []types.Type{tS}, More: []types.Type{tS, tS, tS, tS}, Result: always(types.Encoding),
		Doc: "WAIT_GRAPH(event, entity_id, thread_id, thread_name, category): which thread waits for which lock, which thread holds it, and which threads are deadlocked"},
	{Name: "object_graph", Args: []types.Type{tS}, More: []types.Type{tS, tS, tS, tS}, Result: always(types.Encoding),
		Doc: "OBJECT_GRAPH(event, entity_id, other_id, type_name, category): references between live objects, if there are REFERENCE events"},
}

// ApproxQuantile and PercentileDisc are names that QUANTILE has elsewhere in SQL.
// PercentileCont is an aggregate of its own.
const (
	ApproxQuantile = "approx_quantile"
	PercentileDisc = "percentile_disc"
	PercentileCont = "percentile_cont"
)

// QuantileOf returns the quantile that a short form of QUANTILE names: p1 to p99, and p999.
func QuantileOf(name string) (q float64, ok bool) {
	if name == "p999" {
		return 0.999, true
	}
	digits, ok := strings.CutPrefix(name, "p")
	if !ok || len(digits) > 2 || digits == "" || digits[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 8)
	return float64(n) / 100, err == nil
}

// FindAgg returns the aggregate with that lower-case name, or nil. Other names of QUANTILE
// return QUANTILE.
func FindAgg(name string) *AggFunc {
	if _, short := QuantileOf(name); short || name == ApproxQuantile || name == PercentileDisc {
		name = "quantile"
	}
	for _, table := range [][]AggFunc{AggFuncs, Encoders, StackAggs, PresentAggs, SketchAggs} {
		for i := range table {
			if table[i].Name == name {
				return &table[i]
			}
		}
	}
	return nil
}

// SketchAggs compute quantiles in two steps, for sketches that are stored or computed
// at several sites.
var SketchAggs = []AggFunc{
	{Name: "sketch", Args: []types.Type{tI, tU, tF, tD}, Result: always(tY),
		Doc: "the state of QUANTILE (up to 1,000 values, or a DDSketch), to be merged with others by SKETCH_QUANTILE"},
	{Name: "sketch_quantile", Args: []types.Type{tY}, Params: []types.Type{tF}, Result: always(tF),
		Doc: "the q-quantile of all values in the sketches, equal to QUANTILE over the values; durations in ns"},
}
