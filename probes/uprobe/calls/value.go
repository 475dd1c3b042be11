package calls

import (
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/shape"
	"endoscope/probes/uprobe/abi"
)

// Shared with values.h.
const (
	maxTexts    = 15
	NoText      = 0xffff
	TextsHeader = 2 + 2*maxTexts
	textsAt     = 512
	// In the NULL word of a moment, after one bit for each of the args.
	RetvalSlot, firstText, firstTest = abi.MaxArgs, 8, 24

	// In the function's word of an event.
	FirstAbsent = 24

	// maxKept bounds the bytes kept per thread for the texts of unfinished calls.
	maxKept = 32 << 10
	// textSlack is the number of bytes that may be read after a text: one more byte,
	// and a zero byte.
	textSlack = 2
	// defaultMaxString is the limit of a text in bytes if the session sets none.
	defaultMaxString = 200
)

// Value is a column with its own reading rules, which may differ by function.
type Value struct {
	Name   string
	Text   bool
	Packed bool // a number among the texts, as 8 bytes: there are more than args
	Result bool // of the return, not the entry
	Slot   int  // index among the args, or among the texts
	limit  int  // bytes of a text
	prefix bool // the statement sets the limit: longer texts are cut and not counted as losses
	raw    int  // number of the argument of a value without a name
	all    bool // all arguments, as one object
	// goroutine: the number of the goroutine that makes the call.
	goroutine bool
	// Path is the named value, "args.a[1].b" without args; nil: raw is used.
	Path []string
	// Whole: the returned value, by its type as far as the functions agree on it.
	Whole bool
	// As is what a function of the language makes of a pointer, whatever its type.
	As As
	T  types.Type
	// reads, Enums, Floats and Shapes are by function. Enums maps an enum's numbers to names.
	reads  []codegen.Value
	Enums  []map[int64]string
	Floats []int64        // bytes of a number with a fraction
	Shapes []*shape.Shape // of objects that are printed as JSON; nil: a text
}

// ValuesOf returns the columns of a specification that are values, by index; the
// others are nil.
func ValuesOf(spec *plan.Acquire) []*Value {
	out := make([]*Value, len(spec.Out.Fields))
	for i, f := range spec.Out.Fields {
		v, ok := parseValue(f.Name)
		if f.Name == retvalName && spec.Results != plan.RawResults {
			v, ok = &Value{Result: true, Whole: true, Path: []string{}}, true
		}
		if f.Name == goroutineName && spec.Stream != catalog.FunctionCall { // there it is that of the sequence
			v, ok = &Value{goroutine: true}, true
		}
		if !ok || !hasValue(streamOf(spec), v) {
			continue
		}
		v.Name, v.T = f.Name, f.Type
		if v.limit == 0 {
			if v.limit = spec.Settings.MaxString; v.limit == 0 {
				v.limit = defaultMaxString
			}
		}
		out[i] = v
	}
	return out
}

// hasValue reports whether a stream has values of this kind.
func hasValue(stream string, v *Value) bool {
	switch stream {
	case catalog.FunctionStart:
		return !v.Result
	case catalog.FunctionEnd:
		return v.Result || v.goroutine
	}
	return stream == catalog.FunctionDuration
}

// retvalName is the column of returned values, goroutineName that of goroutines.
const (
	retvalName    = "retval"
	goroutineName = "goroutine"
)

// Printed reports whether the bytes that are read are not the text of the column.
func (v *Value) Printed() bool {
	return v.As == AsHex || slices.ContainsFunc(v.Shapes, func(s *shape.Shape) bool { return s != nil })
}

// room returns how many bytes of a call's texts the value takes at most.
func (v *Value) room() int {
	most := 0
	for _, x := range v.reads {
		if t := x.Text; t != nil {
			most = max(most, t.Max)
		}
	}
	if len(v.reads) == 0 {
		return v.limit
	}
	return most
}

// Values describes how the values of a query are read.
type Values struct {
	Columns []*Value // by column; nil: no value
	tests   []codegen.TextTest
	tested  []*Value // of tests
	args    [abi.MaxArgs]bool
	results bool // the slot of the returned value is in use
	texts   int
}

// NewValues assigns slots to the values. cols are the columns of the specification;
// columns that are no values use the slots of their registers.
func NewValues(spec *plan.Acquire, cols []Column, vs []*Value, wants []Function) (*Values, error) {
	r := &Values{Columns: vs}
	for _, c := range cols {
		if c.isArg() {
			r.args[c-ColArg0] = true
		}
		r.results = r.results || c == ColRetval
	}
	for i, v := range vs {
		if v == nil {
			continue
		}
		for f, w := range wants {
			if w.Values == nil {
				wants[f].Values = ValuesOfMarked(vs, w)
			}
		}
		if v.Whole && v.isRegister(wants, i) {
			vs[i], cols[i], r.results = nil, ColRetval, true
			continue
		}
		if err := v.agree(wants, i); err != nil {
			return nil, &plan.InColumn{Column: v.Name, Err: probes.AtStream(err, spec)}
		}
		for _, w := range wants {
			x := w.Values[i].Value
			if x.Text != nil {
				x.Text.Prefix = v.prefix
			}
			v.reads, v.Enums, v.Floats, v.Shapes = append(v.reads, x.Value), append(v.Enums, x.Names), append(v.Floats, x.Float), append(v.Shapes, x.Shape)
		}
		v.Text = slices.ContainsFunc(v.reads, func(x codegen.Value) bool { return x.Text != nil }) || len(wants) == 0 && v.T == types.Varchar && !v.isWritten()
	}
	r.keepNumbers()
	// Texts of the return are placed after those of the entry.
	for _, result := range []bool{false, true} {
		for _, v := range vs {
			if v == nil || v.Result != result {
				continue
			}
			if err := r.place(v); err != nil {
				return nil, plan.Errorf(spec.Start, spec.Stop, "%v", err)
			}
		}
	}
	return r, nil
}

// keepNumbers reserves the args from which other values are read.
func (r *Values) keepNumbers() {
	for _, v := range r.Columns {
		if v == nil {
			continue
		}
		for _, x := range v.reads {
			for n, at := range ValuePlaces.Numbers[:abi.MaxArgs] {
				if x.Number != nil && x.Number.Moment && x.Number.Register == at || x.Text != nil && x.Text.At.Moment && x.Text.At.Register == at {
					r.args[n] = true
				}
			}
		}
	}
}

// place assigns a slot to a value.
func (r *Values) place(v *Value) error {
	free := slices.Index(r.args[:], false)
	switch {
	case v.Text:
	case v.Result && !r.results:
		r.results, v.Slot = true, RetvalSlot
		return nil
	case free >= 0:
		r.args[free], v.Slot = true, free
		return nil
	default:
		v.pack()
	}
	if r.texts == maxTexts {
		return fmt.Errorf("at most %d numbers and %d texts, objects and further numbers of a call can be read at a time", abi.MaxArgs, maxTexts)
	}
	v.Slot = r.texts
	r.texts++
	return nil
}

// pack makes a number one of the texts.
func (v *Value) pack() {
	const size = 8
	v.Text, v.Packed = true, true
	for i := range v.reads {
		if x := &v.reads[i]; x.Number != nil {
			x.Text = &codegen.Text{Max: size, Parts: []codegen.Part{{At: *x.Number}}}
			x.Number = nil
		}
	}
}

// nullable reports whether a value may be NULL.
func (v *Value) nullable() bool {
	return v.Text || slices.ContainsFunc(v.reads, func(x codegen.Value) bool {
		n := x.Number
		return n == nil || x.Length != nil || n.Memory || n.Fits || n.NotZero || len(n.Follow) > 0 || n.Element != nil
	})
}

// Layout returns where the programs find the value.
func (v *Value) Layout() codegen.Column {
	var m bpf.FunctionMoment
	switch {
	case v.Printed() || v.Packed || v.isWritten():
		return codegen.Column{} // what is read is not what is compared
	case v.Text:
		return codegen.Column{Kind: codegen.Words, Late: v.Result, Null: firstText + uint8(v.Slot) + 1}
	case v.T == types.Double:
		return codegen.Column{} // the kernel has no floating point
	case v.T == types.Varchar && (len(v.Enums) == 0 || slices.ContainsFunc(v.Enums, func(names map[int64]string) bool { return names == nil }) || slices.ContainsFunc(v.Enums, func(names map[int64]string) bool { return !maps.Equal(names, v.Enums[0]) })):
		return codegen.Column{} // the names of numbers differ by function
	}
	c := codegen.Column{Kind: codegen.Number, Late: v.Result, Offset: int16(unsafe.Offsetof(m.Args)) + 8*int16(v.Slot)}
	if v.Slot == RetvalSlot {
		c.Offset = int16(unsafe.Offsetof(m.Retval))
	}
	if v.T == types.Varchar {
		c.Kind, c.Names = codegen.Enum, v.Enums[0]
	}
	if v.nullable() {
		c.Null = uint8(v.Slot) + 1
	}
	return c
}

// Test assigns a bit to a test of a text.
func (r *Values) Test(index int, t codegen.TextTest) (uint8, bool) {
	if firstTest+len(r.tests) > 63 {
		return 0, false
	}
	r.tests = append(r.tests, t)
	r.tested = append(r.tested, r.Columns[index])
	return firstTest + uint8(len(r.tests)-1), true
}

// options returns the options for reading a value, and for sending it if send is set.
func (v *Value) options(stream string, send bool) (o uint32) {
	if v.Result {
		o |= abi.UseResult
	} else {
		o |= abi.UseValues
	}
	if slices.ContainsFunc(v.reads, func(x codegen.Value) bool {
		return x.Text != nil && (x.Text.At.Moment || len(x.Text.Parts) > 0 && x.Text.Parts[0].At.Moment) || x.Number != nil && x.Number.Moment
	}) {
		o |= abi.UseArgs
	}
	if send && v.As == AsSymbol {
		o |= abi.SendCaller // the program of the process, by whose mappings names are found
	}
	switch {
	case !v.Text:
		if send && v.Slot != RetvalSlot {
			o |= abi.SendArgs
		}
		return o
	case send && !v.Result && stream != catalog.FunctionStart:
		o |= abi.KeepTexts
	}
	if send {
		o |= abi.SendTexts
	}
	return o | abi.UseTexts
}

// reader returns the reader of the used values, at the entry or at the return; nil if
// there are none.
func (r *Values) reader(used []bool, result bool) *codegen.Reader {
	out := &codegen.Reader{}
	var vs []*Value
	for i, v := range r.Columns {
		if v == nil || !used[i] {
			continue
		}
		if v.Result == result {
			vs = append(vs, v)
		} else if result && v.Text {
			out.Before += v.room()
		}
	}
	if len(vs) == 0 {
		return nil
	}
	for k, v := range vs {
		out.Columns = append(out.Columns, codegen.ReadColumn{Text: v.Text, Slot: v.Slot})
		for t := range r.tests {
			if r.tested[t] != v {
				continue
			}
			test := r.tests[t]
			test.Column, test.Bit = k, firstTest+uint8(t)
			out.Tests = append(out.Tests, test)
		}
	}
	for f := range vs[0].reads {
		var row []codegen.Value
		for _, v := range vs {
			row = append(row, v.reads[f])
		}
		out.Values = append(out.Values, row)
	}
	return out
}

// textBytes returns the maximum size of a call's texts, including their header.
func (r *Values) textBytes(used []bool) int {
	n := TextsHeader + textSlack
	for i, v := range r.Columns {
		if v != nil && v.Text && used[i] {
			n += v.room()
		}
	}
	return (n + 7) &^ 7
}

// ValuePlaces is where reading programs store the values they read.
var ValuePlaces = func() codegen.Places {
	var m bpf.FunctionMoment
	p := codegen.Places{
		Absent: int16(unsafe.Offsetof(m.Absent)), TextBit: firstText,
		Cookie: int16(unsafe.Offsetof(m.Cookie)), Functions: abi.MaxFunctions - 1, Header: TextsHeader,
	}
	for i := range abi.MaxArgs {
		p.Numbers = append(p.Numbers, int16(unsafe.Offsetof(m.Args))+8*int16(i))
	}
	p.Numbers = append(p.Numbers, int16(unsafe.Offsetof(m.Retval)))
	return p
}()
