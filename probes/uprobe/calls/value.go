package calls

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/shape"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/selection"
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

// As is what is read at a pointer.
type As uint8

const (
	AsItself As = iota
	AsText      // str(p): a text
	AsHex       // hex(p, 16): bytes
	AsDigits    // hex(n): the number itself, in hexadecimal, of any size up to 64 bits
	AsSymbol    // symbol(p): the name of what is there
)

// readers are the functions of the language that read at a pointer.
var readers = []struct {
	begin string
	as    As
}{{"str(", AsText}, {"hex(", AsHex}, {"symbol(", AsSymbol}}

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
		if !ok || !hasValue(spec.Stream, v) {
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

// parsePath parses args.a[1].b, retval.a.b, retval[1].
func (v *Value) parsePath(name string) bool {
	path := signature.Path(name)
	if len(path) < 2 || path[0] != "args" && path[0] != retvalName {
		return false
	}
	v.Path, v.Result = path[1:], path[0] == retvalName
	return true
}

// parseValue parses the name of a column: args.a.b, retval.a.b, args, arg6, str(arg0),
// str(args.a.b, 64), hex(arg0, 16), symbol(retval), symbol(retval.a).
func parseValue(name string) (*Value, bool) {
	v := &Value{}
	switch {
	case name == allArguments:
		v.all, v.Path = true, []string{}
		return v, true
	case v.parsePath(name):
		return v, true
	case plan.IsStackArgument(name):
		return v, v.parseRaw(name)
	}
	for _, r := range readers {
		inner, ok := strings.CutPrefix(name, r.begin)
		if !ok {
			continue
		}
		v.As = r.as
		inner = strings.TrimSuffix(inner, ")")
		if at := strings.LastIndex(inner, ", "); at >= 0 {
			if n, err := strconv.Atoi(inner[at+2:]); err == nil {
				inner, v.limit, v.prefix = inner[:at], n, true
			}
		}
		if v.As == AsHex && !v.prefix {
			v.As = AsDigits
			return v, v.parsePath(inner)
		}
		if v.parsePath(inner) {
			return v, true
		}
		if inner == retvalName {
			v.Result = true
			return v, true
		}
		return v, v.parseRaw(inner)
	}
	return nil, false
}

// allArguments is the column of all arguments of a call.
const allArguments = "args"

// parseRaw parses arg0, arg6.
func (v *Value) parseRaw(name string) bool {
	n, ok := plan.RawArgument(name)
	v.raw = n
	return ok
}

// Offsets of registers in struct pt_regs.
const (
	regBX, regR11, regR10, regR9, regR8 = 40, 48, 56, 64, 72
	regAX, regCX, regDX, regSI, regDI   = 80, 88, 96, 104, 112
	regSP                               = 152
	regR14                              = 8
)

// The registers of the first arguments.
var (
	argumentsOfC  = []int16{regDI, regSI, regDX, regCX, regR8, regR9}
	argumentsOfGo = []int16{regAX, regBX, regCX, regDI, regSI, regR8, regR9, regR10, regR11}
)

// rawInteger returns a raw argument, or the raw result: in C the arguments after those in
// registers are on the stack, in the order in which they are passed. In Go their places
// there follow from their types.
func (v *Value) rawInteger(golang bool, at signature.Where) (codegen.Integer, error) {
	registers := argumentsOfC
	if golang {
		registers = argumentsOfGo
	}
	switch {
	case v.Result:
		return codegen.Integer{Register: regAX}, nil
	case v.raw < len(registers):
		return codegen.Integer{Register: registers[v.raw]}, nil
	case golang:
		return codegen.Integer{}, fmt.Errorf("Go passes arguments after the %dth integer on the stack, where their places depend on their types", len(registers))
	}
	const word = 8 // the return address lies before the arguments
	return codegen.Integer{Register: regSP, Memory: true, Offset: at.SPOffset + word + word*int64(v.raw-len(registers))}, nil
}

// at returns what is read at a raw pointer.
func (v *Value) at(p codegen.Integer) signature.Value {
	switch v.As {
	case AsText, AsHex:
		x := signature.Value{Value: codegen.Value{Text: &codegen.Text{At: p, Max: v.limit}}, Type: types.Varchar}
		v.finish(&x)
		return x
	case AsSymbol, AsDigits:
		p.Fits = false
		return signature.Value{Value: codegen.Value{Number: &p}, Type: types.Varchar}
	}
	return signature.Value{Value: codegen.Value{Number: &p}, Type: types.Bigint}
}

// goroutineOf returns the number of the goroutine that runs a function of Go: the address of
// its g if the place of the number is not known. Assembler has other uses for the register.
func goroutineOf(sym *elf.Module, c selection.Choice) signature.Value {
	x := signature.Value{Type: types.Bigint}
	if c.Lang != elf.Go || sym.Native(c.Index) {
		return x
	}
	n := &codegen.Integer{Register: regR14, NotZero: true, Bits: goroutineBits}
	if at := sym.GoidOffset(); abi.GoidFlag(at) != 0 {
		n.Memory, n.Offset = true, int64(at)
	}
	x.Number = n
	return x
}

// goroutineBits are the bits of a goroutine's number or address that are reported (exit.h).
const goroutineBits = 40

// finish makes a value that was read as a text or a number what the function of the
// language makes of it.
func (v *Value) finish(x *signature.Value) {
	switch {
	case v.As == AsHex && x.Text != nil && x.Text.Length == nil:
		n := v.limit
		if x.Text.Chars > 0 {
			n = min(n, x.Text.Chars)
		}
		x.Text.Chars, x.Text.Length = 0, &codegen.Integer{Known: true, Constant: int64(n)}
	case (v.As == AsSymbol && x.Number != nil && x.Number.Bits%64 == 0 || v.As == AsDigits && x.Number != nil) && x.Float == 0:
		x.Number.Fits, x.Type, x.Names = false, types.Varchar, nil
	}
}

// isText reports whether a value of VARCHAR is no enum.
func (v *Value) isText(x FunctionValue) bool { return x.Text != nil || v.isWritten() }

// isWritten reports whether the value is a number of which the column has a text.
func (v *Value) isWritten() bool { return v.As == AsSymbol || v.As == AsDigits }

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
