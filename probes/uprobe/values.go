package uprobe

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
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/uprobe/abi"
)

// What is shared with values.h.
const (
	maxTexts    = 7
	noText      = 0xffff
	textsHeader = 2 + 2*maxTexts
	textsAt     = 512
	// In the moment's word of what is NULL, behind a bit for each of the args.
	retvalSlot, firstText, firstTest = abi.MaxArgs, 8, 16

	// In the function's word of an event.
	firstAbsent = 24

	// maxKept bounds what is kept for a thread of the texts of calls under way.
	maxKept = 32 << 10
	// textSlack is what may be read behind a text: a byte more, and a zero byte.
	textSlack = 2
	// defaultMaxString is how many bytes a text has at most where no session says so.
	defaultMaxString = 200
)

// readValue is a column that is read by rules of its own, which may differ by function.
type readValue struct {
	name   string
	text   bool
	result bool // of the return
	slot   int  // of the args, or of the texts
	limit  int  // bytes of a text
	prefix bool // the statement says the limit: what is longer is not lost
	raw    int  // register of a text that is not named
	// path is what is named, "args.a[1].b" without args; nil: raw is meant.
	path []string
	// whole: what is returned, by its type as far as the functions have one in common.
	whole bool
	// asText: the text at a pointer, whatever it is a pointer to.
	asText bool
	t      types.Type
	// reads and enums are by function. An enum's number is named by its map.
	reads  []codegen.Value
	enums  []map[int64]string
	floats []int64 // bytes of a number with a fraction
}

// valuesOf finds the columns of a specification that are values, by index; others are
// nil.
func valuesOf(spec *plan.Acquire) []*readValue {
	out := make([]*readValue, len(spec.Out.Fields))
	for i, f := range spec.Out.Fields {
		v, ok := parseValue(f.Name)
		if f.Name == retvalName && spec.Results != plan.RawResults {
			v, ok = &readValue{result: true, whole: true, path: []string{}}, true
		}
		if !ok || !hasValue(spec.Stream, v) {
			continue
		}
		v.name, v.t = f.Name, f.Type
		if v.limit == 0 {
			if v.limit = spec.Settings.MaxString; v.limit == 0 {
				v.limit = defaultMaxString
			}
		}
		out[i] = v
	}
	return out
}

// hasValue reports whether a stream has values of that kind.
func hasValue(stream string, v *readValue) bool {
	switch stream {
	case catalog.FunctionStart:
		return !v.result
	case catalog.FunctionEnd:
		return v.result
	}
	return stream == catalog.FunctionDuration
}

// retvalName is the column of what functions return.
const retvalName = "retval"

// parsePath reads args.a[1].b, retval.a.b, retval[1].
func (v *readValue) parsePath(name string) bool {
	path := signature.Path(name)
	if len(path) < 2 || path[0] != "args" && path[0] != retvalName {
		return false
	}
	v.path, v.result = path[1:], path[0] == retvalName
	return true
}

// parseValue reads the name of a column: args.a.b, retval.a.b, str(arg0),
// str(args.a.b, 64), str(retval), str(retval.a).
func parseValue(name string) (*readValue, bool) {
	v := &readValue{}
	if v.parsePath(name) {
		return v, true
	}
	inner, ok := strings.CutPrefix(name, "str(")
	if !ok {
		return nil, false
	}
	v.asText = true
	inner, limit, limited := strings.Cut(strings.TrimSuffix(inner, ")"), ", ")
	if limited {
		n, err := strconv.Atoi(limit)
		if err != nil {
			return nil, false
		}
		v.limit, v.prefix = n, true
	}
	if v.parsePath(inner) {
		return v, true
	}
	if inner == retvalName {
		v.result = true
		return v, true
	}
	n, err := strconv.Atoi(strings.TrimPrefix(inner, "arg"))
	if err != nil || n < 0 || n >= abi.MaxArgs {
		return nil, false
	}
	v.raw = n
	return v, true
}

// Offsets of registers in struct pt_regs.
const (
	regBX, regR11, regR10, regR9, regR8 = 40, 48, 56, 64, 72
	regAX, regCX, regDX, regSI, regDI   = 80, 88, 96, 104, 112
	regSP                               = 152
)

// The registers of the first arguments.
var (
	argumentsOfC  = [abi.MaxArgs]int16{regDI, regSI, regDX, regCX, regR8, regR9}
	argumentsOfGo = [abi.MaxArgs]int16{regAX, regBX, regCX, regDI, regSI, regR8}
)

// rawText is the text at a register.
func (v *readValue) rawText(golang bool) codegen.Value {
	at := codegen.Integer{Register: regAX}
	if !v.result {
		at.Register = argumentsOfC[v.raw]
		if golang {
			at.Register = argumentsOfGo[v.raw]
		}
	}
	return codegen.Value{Text: &codegen.Text{At: at, Max: v.limit}}
}

// readings are how the values of a query are read.
type readings struct {
	columns []*readValue // by column; nil: it is none
	tests   []codegen.TextTest
	tested  []*readValue // of tests
	args    [abi.MaxArgs]bool
	results bool // the place of what is returned is taken
	texts   int
}

// newReadings gives the values their places. cols are those of the specification; those
// that are no values have theirs.
func newReadings(spec *plan.Acquire, cols []column, vs []*readValue, wants []want) (*readings, error) {
	r := &readings{columns: vs}
	for _, c := range cols {
		if c.isArg() {
			r.args[c-colArg0] = true
		}
		r.results = r.results || c == colRetval
	}
	for i, v := range vs {
		if v == nil {
			continue
		}
		for f, w := range wants {
			if w.values == nil {
				wants[f].values = valuesOfMarked(vs, w)
			}
		}
		if v.whole && v.isRegister(wants, i) {
			vs[i], cols[i], r.results = nil, colRetval, true
			continue
		}
		if err := v.agree(wants, i); err != nil {
			return nil, &plan.InColumn{Column: v.name, Err: placedAt(err, spec)}
		}
		for _, w := range wants {
			x := w.values[i].Value
			if x.Text != nil {
				x.Text.Prefix = v.prefix
			}
			v.reads, v.enums, v.floats = append(v.reads, x.Value), append(v.enums, x.Names), append(v.floats, x.Float)
		}
		v.text = slices.ContainsFunc(v.reads, func(x codegen.Value) bool { return x.Text != nil }) || len(wants) == 0 && v.t == types.Varchar
	}
	r.keepNumbers()
	// Texts of the return lie behind those of the entry.
	for _, result := range []bool{false, true} {
		for _, v := range vs {
			if v == nil || v.result != result {
				continue
			}
			if err := r.place(v); err != nil {
				return nil, plan.Errorf(spec.Start, spec.Stop, "%v", err)
			}
		}
	}
	return r, nil
}

// keepNumbers keeps the args that others are read by.
func (r *readings) keepNumbers() {
	for _, v := range r.columns {
		if v == nil {
			continue
		}
		for _, x := range v.reads {
			for n, at := range valuePlaces.Numbers[:abi.MaxArgs] {
				if x.Number != nil && x.Number.Moment && x.Number.Register == at || x.Text != nil && x.Text.At.Moment && x.Text.At.Register == at {
					r.args[n] = true
				}
			}
		}
	}
}

// place finds room for a value.
func (r *readings) place(v *readValue) error {
	switch {
	case v.text && r.texts == maxTexts:
		return fmt.Errorf("at most %d texts of calls can be read at a time", maxTexts)
	case v.text:
		v.slot = r.texts
		r.texts++
	case v.result && !r.results:
		r.results, v.slot = true, retvalSlot
	default:
		free := slices.Index(r.args[:], false)
		if free < 0 {
			return fmt.Errorf("at most %d arguments can be read at a time", abi.MaxArgs)
		}
		r.args[free], v.slot = true, free
	}
	return nil
}

// nullable reports whether a value may be NULL.
func (v *readValue) nullable() bool {
	return v.text || slices.ContainsFunc(v.reads, func(x codegen.Value) bool {
		n := x.Number
		return n == nil || x.Length != nil || n.Memory || n.Fits || len(n.Follow) > 0
	})
}

// layout says where the programs find the value.
func (v *readValue) layout() codegen.Column {
	var m bpf.FunctionMoment
	switch {
	case v.text:
		return codegen.Column{Kind: codegen.Words, Late: v.result, Null: firstText + uint8(v.slot) + 1}
	case v.t == types.Double:
		return codegen.Column{} // the kernel has no floating point
	case v.t == types.Varchar && (len(v.enums) == 0 || slices.ContainsFunc(v.enums, func(names map[int64]string) bool { return names == nil }) || slices.ContainsFunc(v.enums, func(names map[int64]string) bool { return !maps.Equal(names, v.enums[0]) })):
		return codegen.Column{} // which number has a name is a matter of the function
	}
	c := codegen.Column{Kind: codegen.Number, Late: v.result, Offset: int16(unsafe.Offsetof(m.Args)) + 8*int16(v.slot)}
	if v.slot == retvalSlot {
		c.Offset = int16(unsafe.Offsetof(m.Retval))
	}
	if v.t == types.Varchar {
		c.Kind, c.Names = codegen.Enum, v.enums[0]
	}
	if v.nullable() {
		c.Null = uint8(v.slot) + 1
	}
	return c
}

// test gives a test of a text a bit.
func (r *readings) test(index int, t codegen.TextTest) (uint8, bool) {
	if firstTest+len(r.tests) > 63 {
		return 0, false
	}
	r.tests = append(r.tests, t)
	r.tested = append(r.tested, r.columns[index])
	return firstTest + uint8(len(r.tests)-1), true
}

// options are those of a value that is read, and sent if send is set.
func (v *readValue) options(stream string, send bool) (o uint32) {
	if v.result {
		o |= abi.UseResult
	} else {
		o |= abi.UseValues
	}
	if slices.ContainsFunc(v.reads, func(x codegen.Value) bool {
		return x.Text != nil && x.Text.At.Moment || x.Number != nil && x.Number.Moment
	}) {
		o |= abi.UseArgs
	}
	switch {
	case !v.text:
		if send && v.slot != retvalSlot {
			o |= abi.SendArgs
		}
		return o
	case send && !v.result && stream != catalog.FunctionStart:
		o |= abi.KeepTexts
	}
	if send {
		o |= abi.SendTexts
	}
	return o | abi.UseTexts
}

// reader is what reads the values used, at the entry or at the return; nil: none are.
func (r *readings) reader(used []bool, result bool) *codegen.Reader {
	out := &codegen.Reader{}
	var vs []*readValue
	for i, v := range r.columns {
		if v == nil || !used[i] {
			continue
		}
		if v.result == result {
			vs = append(vs, v)
		} else if result && v.text {
			out.Before += v.limit
		}
	}
	if len(vs) == 0 {
		return nil
	}
	for k, v := range vs {
		out.Columns = append(out.Columns, codegen.ReadColumn{Text: v.text, Slot: v.slot})
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

// textBytes is what the texts of a call take at most, their header included.
func (r *readings) textBytes(used []bool) int {
	n := textsHeader + textSlack
	for i, v := range r.columns {
		if v != nil && v.text && used[i] {
			n += v.limit
		}
	}
	return (n + 7) &^ 7
}

// valuePlaces are where reading programs put what they read.
var valuePlaces = func() codegen.Places {
	var m bpf.FunctionMoment
	p := codegen.Places{
		Absent: int16(unsafe.Offsetof(m.Absent)), TextBit: firstText,
		Cookie: int16(unsafe.Offsetof(m.Cookie)), Functions: abi.MaxFunctions - 1, Header: textsHeader,
	}
	for i := range abi.MaxArgs {
		p.Numbers = append(p.Numbers, int16(unsafe.Offsetof(m.Args))+8*int16(i))
	}
	p.Numbers = append(p.Numbers, int16(unsafe.Offsetof(m.Retval)))
	return p
}()
