package expr

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

const (
	maxInt = math.MaxInt64
	minInt = math.MinInt64
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
	day = int64(24 * time.Hour)
)

// Values by the letter of their type.
var I, U, F, S, B, D, T, N = types.Int, types.Uint, types.Float, types.Str, types.Bool, types.Dur, types.Time, types.NullOf

// scalarCases says what every function of plan.Scalars means, by example. An
// error is given by its text.
var scalarCases = []struct {
	fn   string
	args []types.Value
	want any // types.Value, or string: an error
}{
	{"and", vs(B(true), B(true)), B(true)},
	{"and", vs(B(true), B(false)), B(false)},
	{"and", vs(B(true), N(types.Boolean)), N(types.Boolean)},
	{"and", vs(N(types.Boolean), B(true)), N(types.Boolean)},
	{"and", vs(N(types.Boolean), B(false)), B(false)},
	{"and", vs(B(false), N(types.Boolean)), B(false)},
	{"and", vs(N(types.Boolean), N(types.Boolean)), N(types.Boolean)},
	{"or", vs(B(false), B(false)), B(false)},
	{"or", vs(B(false), B(true)), B(true)},
	{"or", vs(B(true), N(types.Boolean)), B(true)},
	{"or", vs(N(types.Boolean), B(true)), B(true)},
	{"or", vs(N(types.Boolean), B(false)), N(types.Boolean)},
	{"or", vs(B(false), N(types.Boolean)), N(types.Boolean)},
	{"not", vs(B(true)), B(false)},
	{"not", vs(B(false)), B(true)},
	{"not", vs(N(types.Boolean)), N(types.Boolean)},
	{"is null", vs(I(0)), B(false)},
	{"is null", vs(N(types.Bigint)), B(true)},
	{"is null", vs(N(types.Varchar)), B(true)},
	{"is null", vs(N(types.List)), B(true)},
	{"is null", vs(S("")), B(false)},

	{"=", vs(I(1), I(1)), B(true)},
	{"=", vs(I(1), N(types.Bigint)), N(types.Boolean)},
	{"=", vs(F(nan), F(nan)), B(true)},
	{"=", vs(F(0), F(math.Copysign(0, -1))), B(true)},
	{"=", vs(S("a"), S("a")), B(true)},
	{"=", vs(S("a"), S("A")), B(false)},
	{"=", vs(S("a"), N(types.Varchar)), N(types.Boolean)},
	{"=", vs(raw("\x00"), raw("\x00")), B(true)},
	{"=", vs(B(true), B(false)), B(false)},
	{"=", vs(D(5), D(5)), B(true)},
	{"=", vs(T(5), T(6)), B(false)},
	{"<>", vs(I(1), I(2)), B(true)},
	{"<>", vs(F(nan), F(nan)), B(false)},
	{"<>", vs(F(nan), F(1)), B(true)},
	{"<>", vs(S("a"), S("b")), B(true)},
	{"<", vs(I(minInt), I(maxInt)), B(true)},
	{"<", vs(I(1), I(1)), B(false)},
	{"<", vs(F(inf), F(nan)), B(true)},
	{"<", vs(F(nan), F(inf)), B(false)},
	{"<", vs(F(nan), F(nan)), B(false)},
	{"<", vs(S("a"), S("b")), B(true)},
	{"<", vs(S("Z"), S("a")), B(true)},
	{"<", vs(B(false), B(true)), B(true)},
	{"<", vs(raw("\x01"), raw("\xff")), B(true)},
	{"<=", vs(I(1), I(1)), B(true)},
	{"<=", vs(I(2), I(1)), B(false)},
	{"<=", vs(F(nan), F(1)), B(false)},
	{"<=", vs(F(1), F(nan)), B(true)},
	{"<=", vs(S("b"), S("a")), B(false)},
	{">", vs(F(nan), F(1)), B(true)},
	{">", vs(F(1), F(nan)), B(false)},
	{">", vs(F(nan), F(nan)), B(false)},
	{">", vs(I(2), I(1)), B(true)},
	{">", vs(S("b"), S("a")), B(true)},
	{">=", vs(I(1), I(1)), B(true)},
	{">=", vs(F(nan), F(nan)), B(true)},
	{">=", vs(F(1), F(2)), B(false)},
	{">=", vs(B(false), B(true)), B(false)},

	{"+", vs(I(1), I(2)), I(3)},
	{"+", vs(I(maxInt), I(minInt)), I(-1)},
	{"+", vs(I(maxInt), I(1)), "BIGINT out of range"},
	{"+", vs(I(minInt), I(-1)), "BIGINT out of range"},
	{"+", vs(N(types.Bigint), I(1)), N(types.Bigint)},
	{"+", vs(F(0.5), F(1)), F(1.5)},
	{"+", vs(D(1), D(2)), D(3)},
	{"+", vs(D(maxInt), D(2)), "DURATION out of range"},
	{"+", vs(T(1), D(2)), T(3)},
	{"+", vs(D(1), T(2)), T(3)},
	{"+", vs(T(maxInt), D(2)), "TIMESTAMP out of range"},
	{"-", vs(I(1), I(2)), I(-1)},
	{"-", vs(I(minInt), I(1)), "BIGINT out of range"},
	{"-", vs(I(0), I(minInt)), "BIGINT out of range"},
	{"-", vs(I(-1), I(minInt)), I(maxInt)},
	{"-", vs(F(1), F(0.5)), F(0.5)},
	{"-", vs(D(1), D(2)), D(-1)},
	{"-", vs(T(5), D(2)), T(3)},
	{"-", vs(T(5), T(7)), D(-2)},
	{"*", vs(I(-3), I(2)), I(-6)},
	{"*", vs(I(minInt), I(1)), I(minInt)},
	{"*", vs(I(minInt), I(-1)), "BIGINT out of range"},
	{"*", vs(I(-1), I(minInt)), "BIGINT out of range"},
	{"*", vs(I(1<<32), I(1<<31)), "BIGINT out of range"},
	{"*", vs(I(1<<32), I(-1<<31)), I(minInt)},
	{"*", vs(I(3037000500), I(3037000500)), "BIGINT out of range"},
	{"*", vs(F(0.5), F(4)), F(2)},
	{"*", vs(D(5), I(3)), D(15)},
	{"*", vs(I(3), D(5)), D(15)},
	{"*", vs(D(5), F(0.5)), D(3)},
	{"*", vs(F(-0.5), D(5)), D(-3)},
	{"*", vs(D(maxInt), F(2)), "DURATION out of range"},
	{"*", vs(D(1), F(nan)), "DURATION out of range"},
	{"/", vs(I(7), I(2)), I(3)},
	{"/", vs(I(-7), I(2)), I(-3)},
	{"/", vs(I(7), I(-1)), I(-7)},
	{"/", vs(I(7), I(0)), N(types.Bigint)},
	{"/", vs(I(minInt), I(-1)), "BIGINT out of range"},
	{"/", vs(F(1), F(4)), F(0.25)},
	{"/", vs(F(1), F(0)), N(types.Double)},
	{"/", vs(F(0), F(0)), N(types.Double)},
	{"/", vs(D(3), D(2)), F(1.5)},
	{"/", vs(D(3), D(0)), N(types.Double)},
	{"/", vs(D(7), I(2)), D(3)},
	{"/", vs(D(7), I(0)), N(types.Duration)},
	{"/", vs(D(7), F(2)), D(4)},
	{"/", vs(D(7), F(0)), N(types.Duration)},
	{"/", vs(D(7), F(1e-300)), "DURATION out of range"},
	{"%", vs(I(7), I(3)), I(1)},
	{"%", vs(I(-7), I(3)), I(-1)},
	{"%", vs(I(7), I(-3)), I(1)},
	{"%", vs(I(7), I(0)), N(types.Bigint)},
	{"%", vs(I(minInt), I(-1)), I(0)},
	{"%", vs(F(5.5), F(2)), F(1.5)},
	{"%", vs(F(-5.5), F(2)), F(-1.5)},
	{"%", vs(F(5.5), F(0)), N(types.Double)},
	{"%", vs(D(7), D(4)), D(3)},
	{"neg", vs(I(5)), I(-5)},
	{"neg", vs(I(minInt)), "BIGINT out of range"},
	{"neg", vs(F(0)), F(math.Copysign(0, -1))},
	{"neg", vs(D(5)), D(-5)},
	{"abs", vs(I(-5)), I(5)},
	{"abs", vs(I(minInt)), "BIGINT out of range"},
	{"abs", vs(F(-0.5)), F(0.5)},
	{"abs", vs(D(-5)), D(5)},
	{"abs", vs(N(types.Duration)), N(types.Duration)},

	{"ceil", vs(F(1.2)), F(2)},
	{"floor", vs(F(-1.2)), F(-2)},
	{"round", vs(F(2.5)), F(3)},
	{"round", vs(F(-2.5)), F(-3)},
	{"round", vs(F(1.25), I(1)), F(1.3)},
	{"round", vs(F(-1.25), I(1)), F(-1.3)},
	{"round", vs(F(1250), I(-2)), F(1300)},
	{"round", vs(F(1e300), I(20)), F(1e300)},
	{"round", vs(F(1.5), I(400)), F(1.5)},
	{"round", vs(F(0), I(400)), F(0)},
	{"round", vs(F(1.5), I(-400)), F(0)},
	{"sqrt", vs(F(9)), F(3)},
	{"sqrt", vs(F(-1)), N(types.Double)},
	{"log2", vs(F(8)), F(3)},
	{"log2", vs(F(0)), N(types.Double)},
	{"ln", vs(F(1)), F(0)},
	{"ln", vs(F(-1)), N(types.Double)},
	{"pow", vs(F(2), F(10)), F(1024)},

	{"least", vs(I(3), I(1), I(2)), I(1)},
	{"least", vs(N(types.Bigint), I(1)), I(1)},
	{"least", vs(F(nan), F(inf)), F(inf)},
	{"least", vs(S("b"), S("a")), S("a")},
	{"least", vs(B(true), B(false)), B(false)},
	{"least", vs(N(types.Duration)), N(types.Duration)},
	{"greatest", vs(I(3), I(1)), I(3)},
	{"greatest", vs(F(nan), F(inf)), F(nan)},
	{"greatest", vs(T(3), N(types.Timestamp), T(4)), T(4)},
	{"greatest", vs(S("b"), S("a"), N(types.Varchar)), S("b")},
	{"coalesce", vs(N(types.Varchar), S("x"), S("y")), S("x")},
	{"coalesce", vs(I(1), I(2)), I(1)},
	{"coalesce", vs(N(types.Double), N(types.Double)), N(types.Double)},
	{"coalesce", vs(N(types.List), types.ListOf(vs(I(1)))), types.ListOf(vs(I(1)))},
	{"nullif", vs(I(1), I(1)), N(types.Bigint)},
	{"nullif", vs(I(1), I(2)), I(1)},
	{"nullif", vs(I(1), N(types.Bigint)), I(1)},
	{"nullif", vs(N(types.Bigint), I(1)), N(types.Bigint)},
	{"nullif", vs(S("a"), S("a")), N(types.Varchar)},
	{"nullif", vs(S("a"), S("b")), S("a")},
	{"nullif", vs(F(nan), F(nan)), N(types.Double)},

	{"||", vs(S("a"), S("b")), S("ab")},
	{"||", vs(S("a"), N(types.Varchar)), N(types.Varchar)},
	{"concat", vs(S("a"), N(types.Varchar), S("b")), S("ab")},
	{"concat", vs(N(types.Varchar)), S("")},
	{"length", vs(S("añb")), I(3)},
	{"length", vs(raw("añb")), I(4)},
	{"length", vs(types.ListOf(vs(I(1), N(types.Bigint), S("a")))), I(3)},
	{"length", vs(types.ListOf(nil)), I(0)},
	{"length", vs(N(types.List)), N(types.Bigint)},
	{"hex", vs(I(0)), S("0x0")},
	{"hex", vs(I(3054)), S("0xbee")},
	{"hex", vs(I(-1)), S("0xffffffffffffffff")},
	{"hex", vs(I(math.MinInt64)), S("0x8000000000000000")},
	{"hex", vs(N(types.Bigint)), N(types.Varchar)},
	{"lower", vs(S("ÀbC")), S("àbc")},
	{"lower", vs(S("AbC@[")), S("abc@[")},
	{"upper", vs(S("àbC")), S("ÀBC")},
	{"upper", vs(S("az`{")), S("AZ`{")},
	{"format_stack", vs(stackOf("leaf", "mid", "main")), S("leaf < mid < main")},
	{"format_stack", vs(stackOf("leaf", "mid", "main"), I(2)), S("leaf < mid")},
	{"format_stack", vs(stackOf("leaf"), I(-1)), S("")},
	{"format_stack", vs(stackOf()), S("")},
	{"format_stack", vs(N(types.List)), N(types.Varchar)},
	{"format_stack", vs(types.ListOf(vs(S("f"), types.ListOf(nil), I(7)))), S("f < [] < 7")}, // a list that is no stack
	{"folded_stack", vs(stackOf("leaf", "mid", "main")), S("main;mid;leaf")},
	{"folded_stack", vs(stackOf("leaf", "mid", "main"), I(2)), S("mid;leaf")},
	{"frame", vs(stackOf("leaf", "mid", "main"), I(0)), S("leaf")},
	{"frame", vs(stackOf("leaf", "mid", "main"), I(-1)), S("main")},
	{"frame", vs(stackOf("leaf"), I(1)), N(types.Varchar)},
	{"frame", vs(stackOf("leaf"), I(-2)), N(types.Varchar)},
	{"frame.module", vs(stackOf("leaf", "main"), I(-1)), S("module")},
	{"frame.module", vs(stackOf("leaf"), I(1)), N(types.Varchar)},
	{"frame.file", vs(placedStack, I(0)), S("/src/a.c")},
	{"frame.file", vs(placedStack, I(2)), N(types.Varchar)}, // it is not known
	{"frame.file", vs(stackOf("leaf"), I(0)), N(types.Varchar)},
	{"frame.line", vs(placedStack, I(1)), I(40)},
	{"frame.line", vs(placedStack, I(-1)), N(types.Bigint)},
	{"frame.line", vs(placedStack, I(3)), N(types.Bigint)},
	{"frame.line", vs(types.ListOf(vs(types.ListOf(vs(S("f"), S("m"), S("user"), I(1), S("two"), I(3))))), I(0)), N(types.Bigint)}, // a list that is no stack
	{"frame.inlined", vs(placedStack, I(0)), types.Bool(true)},
	{"frame.inlined", vs(placedStack, I(1)), types.Bool(false)},
	{"frame.inlined", vs(stackOf("leaf"), I(0)), N(types.Boolean)},
	{"source_stack", vs(placedStack), S("leaf at /src/a.c:12 (inlined)\nmid at /src/b.c:40\nmain")},
	{"source_stack", vs(placedStack, I(1)), S("leaf at /src/a.c:12 (inlined)")},
	{"source_stack", vs(stackOf("leaf", "main")), S("leaf\nmain")},
	{"substr", vs(S("añbc"), I(2)), S("ñbc")},
	{"substr", vs(S("añbc"), I(2), I(2)), S("ñb")},
	{"substr", vs(S("abc"), I(0), I(2)), S("a")},
	{"substr", vs(S("abc"), I(-5), I(2)), S("")},
	{"substr", vs(S("abc"), I(4)), S("")},
	{"substr", vs(S("abc"), I(2), I(-1)), S("")},
	{"substr", vs(S("abc"), I(2), I(maxInt)), S("bc")},
	{"substr", vs(S("abc"), I(minInt), I(maxInt)), S("")},
	{"replace", vs(S("a.b.c"), S("."), S("--")), S("a--b--c")},
	{"replace", vs(S("abc"), S(""), S("x")), S("abc")},
	{"replace", vs(S("aaa"), S("aa"), S("")), S("a")},
	{"split_part", vs(S("a.b.c"), S("."), I(2)), S("b")},
	{"split_part", vs(S("a.b.c"), S("."), I(3)), S("c")},
	{"split_part", vs(S("a.b.c"), S("."), I(-1)), S("c")},
	{"split_part", vs(S("a.b.c"), S("."), I(4)), S("")},
	{"split_part", vs(S("a.b.c"), S("."), I(-4)), S("")},
	{"split_part", vs(S("a.b.c"), S("."), I(0)), S("")},
	{"split_part", vs(S("abc"), S(""), I(1)), S("abc")},
	{"split_part", vs(S("abc"), S(""), I(2)), S("")},
	{"label", vs(S(`{"app":"shop"}`), S("app")), S("shop")},
	{"starts_with", vs(S("abc"), S("ab")), B(true)},
	{"starts_with", vs(S("abc"), S("b")), B(false)},
	{"regexp_extract", vs(S("pid=42 x"), S(`\d+`)), S("42")},
	{"regexp_extract", vs(S("pid=42 x"), S(`(\w+)=(\d+)`), I(1)), S("pid")},
	{"regexp_extract", vs(S("b"), S(`(a)|b`), I(1)), N(types.Varchar)},
	{"regexp_extract", vs(S("b"), S(`b`), I(1)), N(types.Varchar)},
	{"regexp_extract", vs(S("b"), S(`c`)), N(types.Varchar)},
	{"regexp_extract", vs(S("b"), S(`(`)), "'(' is not a regular expression: missing closing ): ("},
	{"like", vs(S("abc"), S("a%")), B(true)},
	{"like", vs(S("abc"), S("A%")), B(false)},
	{"like", vs(N(types.Varchar), S("A%")), N(types.Boolean)},
	{"like", vs(S("a"), N(types.Varchar)), N(types.Boolean)},
	{"ilike", vs(S("aBc"), S("A_C")), B(true)},
	{"ilike", vs(S("aBc"), S("A_D")), B(false)},
	{"~", vs(S("xabcx"), S("a.c")), B(true)},
	{"~", vs(S("xabcx"), S("^a")), B(false)},
	{"~", vs(S("x"), S("*")), "'*' is not a regular expression: missing argument to repetition operator: *"},

	{"to_ns", vs(D(1500)), I(1500)},
	{"to_us", vs(D(1500)), F(1.5)},
	{"to_ms", vs(D(1_500_000)), F(1.5)},
	{"to_s", vs(D(1_500_000_000)), F(1.5)},
	{"to_min", vs(D(90_000_000_000)), F(1.5)},
	{"date_trunc", vs(S("microsecond"), T(1999)), T(1000)},
	{"date_trunc", vs(S("second"), T(1_999_999_999)), T(1e9)},
	{"date_trunc", vs(S("Minute"), T(119e9)), T(60e9)},
	{"date_trunc", vs(S("hour"), T(-1)), T(-3600e9)},
	{"date_trunc", vs(S("day"), T(3*day+5)), T(3 * day)},
	{"date_trunc", vs(S("millisecond"), T(-1_000_001)), T(-2e6)},
	{"date_trunc", vs(S("day"), T(minInt)), "TIMESTAMP out of range"},
	{"date_trunc", vs(S("week"), T(0)), "date_trunc does not know the unit 'week'"},
}

func vs(v ...types.Value) []types.Value { return v }

// TestScalars holds every kernel form (each argument a constant or a column)
// to the examples.
func TestScalars(t *testing.T) {
	for _, c := range scalarCases {
		forms(c.fn, c.args, func(e plan.Expr, row []types.Value) {
			got, err := evalOnce(e, row)
			if text, ok := c.want.(string); ok {
				var pe *plan.Error
				if !errors.As(err, &pe) || len(pe.Msg) < len(text) || pe.Msg[:len(text)] != text {
					t.Errorf("%s over %v: got %v, %v; want error %q", e, row, got, err, text)
				}
				return
			}
			if err != nil || !sameValue(got, c.want.(types.Value)) {
				t.Errorf("%s over %v = %+v, %v; want %+v", e, row, got, err, c.want)
			}
			if p, err := Compile(e, nil); len(row) == 0 && err == nil {
				if _, ok := constant(p.root); !ok {
					t.Errorf("%s was not folded", e)
				}
			}
		})
	}
}

// TestEverySignature compiles each signature of plan.Scalars and runs it over
// rows that are NULL and rows that are not.
func TestEverySignature(t *testing.T) {
	all := []types.Type{types.Boolean, types.Bigint, types.Double, types.Varchar, types.Timestamp,
		types.Duration, types.Bytes, types.List, types.Encoding}
	comparesValues := []string{"least", "greatest", "nullif"}
	for _, fn := range plan.Scalars {
		if !slices.ContainsFunc(scalarCases, func(c struct {
			fn   string
			args []types.Value
			want any
		}) bool {
			return c.fn == fn.Name
		}) && !fn.Volatile {
			if !slices.Contains(fn.Sigs[0].Args, types.Encoding) { // encoding_test.go has these
				t.Errorf("no example of %s in scalarCases", fn.Name)
			}
		}
		for _, sig := range fn.Sigs {
			generics := []types.Type{types.Invalid}
			if slices.Contains(sig.Args, plan.AnyType) {
				generics = all
			}
			for _, g := range generics {
				if slices.Contains(comparesValues, fn.Name) && g.Physical() == types.PhysAny {
					continue // lists and encodings have no order
				}
				for n := len(sig.Args) - sig.Optional; n <= len(sig.Args)+2; n++ {
					if n > len(sig.Args) && !sig.Variadic {
						break
					}
					kinds := make([]types.Type, n)
					for k := range kinds {
						if kinds[k] = sig.Args[min(k, len(sig.Args)-1)]; kinds[k] == plan.AnyType {
							kinds[k] = g
						}
					}
					checkSignature(t, fn.Name, kinds, sig.Result, g)
				}
			}
		}
	}
}

func checkSignature(t *testing.T, fn string, kinds []types.Type, result, generic types.Type) {
	t.Helper()
	if result == plan.AnyType {
		result = generic
	}
	e := &plan.Call{Fn: fn, T: result}
	full, nulls := make([]types.Value, len(kinds)), make([]types.Value, len(kinds))
	for k, typ := range kinds {
		e.Args = append(e.Args, col(k, typ))
		full[k], nulls[k] = types.Value{Type: typ, I: 1, F: 1, S: "second"}, types.NullOf(typ)
	}
	p, err := Compile(e, kinds)
	if err != nil {
		t.Errorf("%s%v does not compile: %v", fn, kinds, err)
		return
	}
	c, err := p.Eval(batchOf(kinds, full, nulls))
	if err != nil {
		t.Errorf("%s%v: %v", fn, kinds, err)
		return
	}
	if c.Type != result || p.Type() != result {
		t.Errorf("%s%v gives %s, want %s", fn, kinds, c.Type, result)
	}
	for i := range 2 {
		if v := c.Value(i); v.Type != result {
			t.Errorf("%s%v row %d: %+v", fn, kinds, i, v)
		}
	}
}

func TestNow(t *testing.T) {
	in := []types.Type{types.Bigint}
	p := mustCompile(t, call("now"), in)
	same := mustCompile(t, call("=", call("now"), call("now")), in)
	bt := batchOf(in, vs(I(1)), vs(I(2)))
	before := time.Now().UnixNano()
	c, err := p.Eval(bt)
	if err != nil {
		t.Fatal(err)
	}
	first := c.Int[0]
	if after := time.Now().UnixNano(); first < before || first > after || c.Int[1] != first {
		t.Errorf("now() = %v between %d and %d", c.Int, before, after)
	}
	time.Sleep(time.Microsecond) // so that the clock goes on
	if c, _ = p.Eval(bt); c.Int[0] <= first {
		t.Error("now() stands still")
	}
	if c, _ = same.Eval(bt); !c.Bool[0] || !c.Bool[1] {
		t.Error("now() <> now() in one evaluation")
	}
}

// stackOf is a stack with functions of those names, leaf first.
// placedStack is a stack whose frames have their files and lines, as far as they are known.
var placedStack = types.ListOf(vs(
	types.ListOf(vs(types.Str("leaf"), types.Str("m"), types.Str("user"), types.Str("/src/a.c"), types.Int(12), types.Bool(true))),
	types.ListOf(vs(types.Str("mid"), types.Str("m"), types.Str("user"), types.Str("/src/b.c"), types.Int(40), types.Bool(false))),
	types.ListOf(vs(types.Str("main"), types.Str("m"), types.Str("user"), types.NullOf(types.Varchar), types.NullOf(types.Bigint), types.Bool(false))),
))

func stackOf(functions ...string) types.Value {
	var frames []types.Value
	for _, f := range functions {
		frames = append(frames, types.ListOf(vs(S(f), S("module"), S("user"))))
	}
	return types.ListOf(frames)
}
