package uprobe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/process"
	"endoscope/probes/signature"
	"endoscope/probes/symbols"
)

// What is shared with values.h.
const (
	maxTexts    = 7
	noText      = 0xffff
	textsHeader = 2 + 2*maxTexts
	textsAt     = 512
	// In the moment's word of what is NULL, behind a bit for each of the args.
	retvalSlot, firstText, firstTest = maxArgs, 8, 16

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
	raw    int  // register of a text that is not named
	// path is what is named, "args.a.b" without args; nil: raw is meant.
	path []string
	// asText: the text at a pointer, whatever it is a pointer to.
	asText bool
	t      batch.Type
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
	case FunctionStart:
		return !v.result
	case FunctionEnd:
		return v.result
	}
	return stream == FunctionDuration
}

// parseValue reads the name of a column: args.a.b, str(arg0), str(args.a.b, 64),
// str(retval).
func parseValue(name string) (*readValue, bool) {
	if path, ok := strings.CutPrefix(name, "args."); ok {
		return &readValue{path: strings.Split(path, ".")}, true
	}
	inner, ok := strings.CutPrefix(name, "str(")
	if !ok {
		return nil, false
	}
	v := &readValue{asText: true}
	inner, limit, limited := strings.Cut(strings.TrimSuffix(inner, ")"), ", ")
	if limited {
		n, err := strconv.Atoi(limit)
		if err != nil {
			return nil, false
		}
		v.limit = n
	}
	if path, ok := strings.CutPrefix(inner, "args."); ok {
		v.path = strings.Split(path, ".")
		return v, true
	}
	if inner == "retval" {
		v.result = true
		return v, true
	}
	n, err := strconv.Atoi(strings.TrimPrefix(inner, "arg"))
	if err != nil || n < 0 || n >= maxArgs {
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
	argumentsOfC  = [maxArgs]int16{regDI, regSI, regDX, regCX, regR8, regR9}
	argumentsOfGo = [maxArgs]int16{regAX, regBX, regCX, regDI, regSI, regR8}
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
	args    [maxArgs]bool
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
		if err := v.agree(wants, i); err != nil {
			return nil, placedAt(err, spec)
		}
		for _, w := range wants {
			x := w.values[i].Value
			v.reads, v.enums, v.floats = append(v.reads, x.Value), append(v.enums, x.Names), append(v.floats, x.Float)
		}
		v.text = slices.ContainsFunc(v.reads, func(x codegen.Value) bool { return x.Text != nil }) || len(wants) == 0 && v.t == batch.Varchar
	}
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

// place finds room for a value.
func (r *readings) place(v *readValue) error {
	switch {
	case v.text && r.texts == maxTexts:
		return fmt.Errorf("at most %d texts of calls can be read at a time", maxTexts)
	case v.text:
		v.slot = r.texts
		r.texts++
	case v.result:
		v.slot = retvalSlot
	default:
		free := slices.Index(r.args[:], false)
		if free < 0 {
			return fmt.Errorf("at most %d arguments can be read at a time", maxArgs)
		}
		r.args[free], v.slot = true, free
	}
	return nil
}

// nullable reports whether a value may be NULL.
func (v *readValue) nullable() bool {
	return v.text || slices.ContainsFunc(v.reads, func(x codegen.Value) bool {
		n := x.Number
		return n == nil || n.Memory || n.Fits || len(n.Follow) > 0
	})
}

// layout says where the programs find the value.
func (v *readValue) layout() codegen.Column {
	var m bpf.FunctionMoment
	switch {
	case v.text:
		return codegen.Column{Kind: codegen.Words, Late: v.result, Null: firstText + uint8(v.slot) + 1}
	case v.t == batch.Varchar || v.t == batch.Double:
		return codegen.Column{} // an enum's name, and a fraction, are not at hand in the kernel
	}
	c := codegen.Column{Kind: codegen.Number, Late: v.result, Offset: int16(unsafe.Offsetof(m.Args)) + 8*int16(v.slot)}
	if v.result {
		c.Offset = int16(unsafe.Offsetof(m.Retval))
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
		o |= useResult
	} else {
		o |= useValues
	}
	switch {
	case v.text && v.path == nil && slices.ContainsFunc(v.reads, func(x codegen.Value) bool { return x.Text != nil && x.Text.At.Moment }):
		o |= useArgs
	}
	switch {
	case !v.text:
		if send && !v.result {
			o |= sendArgs
		}
		return o
	case send && !v.result && stream != FunctionStart:
		o |= keepTexts
	}
	if send {
		o |= sendTexts
	}
	return o | useTexts
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
		Cookie: int16(unsafe.Offsetof(m.Cookie)), Functions: maxFunctions - 1, Header: textsHeader,
	}
	for i := range maxArgs {
		p.Numbers = append(p.Numbers, int16(unsafe.Offsetof(m.Args))+8*int16(i))
	}
	p.Numbers = append(p.Numbers, int16(unsafe.Offsetof(m.Retval)))
	return p
}()

// reading is what makes programs read a query's values.
type reading struct {
	entry, result *codegen.Reader
	textBytes     int
}

// specialise makes the programs and maps in spec read the values. returns are how those of
// the functions are observed.
func (r *reading) specialise(spec *ebpf.CollectionSpec, options uint32, returns map[returns]bool) error {
	for _, part := range []struct {
		function string
		reader   *codegen.Reader
	}{{"read_entry", r.entry}, {"read_return", r.result}} {
		if part.reader == nil {
			continue
		}
		code, err := part.reader.Compile(valuePlaces)
		if err != nil {
			return err
		}
		for name, p := range spec.Programs {
			if !testsOf[name].call || !codegen.Calls(p, part.function) {
				continue
			}
			if err := codegen.Install(p, part.function, code); err != nil {
				return err
			}
		}
	}
	if options&useTexts == 0 {
		return nil
	}
	slots := 0
	if options&keepTexts != 0 && returns[trapped] {
		slots = max(1, min(maxCalls, maxKept/r.textBytes))
	}
	size := uint32(textsAt + (slots+1)*r.textBytes)
	if size > math.MaxUint16-512 {
		return fmt.Errorf("texts of %d bytes are more than can be read of a call", r.textBytes)
	}
	m := spec.Maps[bpf.FunctionMapScratch]
	m.ValueSize = size
	// Storage of tasks wants to know of what type its values are.
	m.Value = &btf.Array{Index: &btf.Int{Name: "unsigned int", Size: 4}, Type: &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}, Nelems: size}
	if returns[atExits] && options&keepTexts != 0 {
		m := spec.Maps[bpf.FunctionMapOpenCalls]
		m.ValueSize += uint32(r.textBytes)
		m.Key, m.Value = nil, nil
	}
	if err := spec.Variables[bpf.FunctionVarTextBytes].Set(uint32(r.textBytes)); err != nil {
		return err
	}
	return spec.Variables[bpf.FunctionVarTextSlots].Set(uint32(slots))
}

// identity is equal for equal readings only.
func (r *reading) identity() string {
	if r == nil {
		return ""
	}
	out := strconv.Itoa(r.textBytes)
	for _, x := range []*codegen.Reader{r.entry, r.result} {
		if x != nil {
			out += x.Identity()
		}
	}
	return out
}

// maxCalls is how many calls of a thread with return traps there may be (calls.h).
const maxCalls = 64

// functionValue is how a value is read of one function, or why it is NULL.
type functionValue struct {
	signature.Value
	err error
}

// valuesOfFunction says how a query's values are read of one function, which is probed at
// site.
func (r *resolver) valuesOfFunction(sym *symbols.Module, c choice, site symbols.Site) []functionValue {
	if !anyValue(r.values) {
		return nil
	}
	return r.signatures.values(r.values, sym, c, signature.Where{SPOffset: site.SPOffset})
}

func anyValue(vs []*readValue) bool {
	return slices.ContainsFunc(vs, func(v *readValue) bool { return v != nil })
}

// anyNamed reports whether a value needs debug information.
func anyNamed(vs []*readValue) bool {
	return slices.ContainsFunc(vs, func(v *readValue) bool { return v != nil && v.path != nil })
}

// signatures are those of a module's functions.
type signatures struct {
	info *signature.Info
	err  error // why there are none
}

// openSignatures reads a module's debug information, if a value needs it.
func openSignatures(sym *symbols.Module, vs []*readValue) (s signatures) {
	if anyNamed(vs) {
		s.info, s.err = signature.Open(sym)
	}
	return s
}

// values says how values are read of one function.
func (s signatures) values(vs []*readValue, sym *symbols.Module, c choice, at signature.Where) []functionValue {
	out := make([]functionValue, len(vs))
	var f *signature.Function
	err := s.err
	for i, v := range vs {
		switch {
		case v == nil:
			continue
		case v.path == nil:
			out[i].Value = signature.Value{Value: v.rawText(c.lang == symbols.Go), Type: batch.Varchar}
			continue
		}
		if f == nil && err == nil {
			f, err = s.info.Function(sym, c.index)
		}
		if err != nil {
			out[i].err = withoutTypes(sym, c.name, err)
			continue
		}
		where := at
		where.MaxText, where.AsText = v.limit, v.asText
		out[i].Value, out[i].err = f.Argument(v.path, where)
		if v.asText && out[i].err == nil && out[i].Type != batch.Varchar {
			out[i].err = plan.Errorf(-1, -1, "args.%s of %s is no pointer", strings.Join(v.path, "."), c.name)
		}
	}
	return out
}

// valuesOfMarked says how values are read at a marked place: of its arguments the kernel
// knows the numbers.
func valuesOfMarked(vs []*readValue, w want) []functionValue {
	out := make([]functionValue, len(vs))
	for i, v := range vs {
		switch {
		case v == nil:
		case v.path != nil || v.result || w.marked == nil || w.returns >= javaEntry:
			out[i].err = plan.Errorf(-1, -1, "%s has no %s", w.label.function, v.name).WithHint("its arguments are arg0, arg1, ..., and str(arg0) is the text at one")
		case v.raw >= len(w.marked.Args) || w.marked.Args[v.raw].Refused != nil:
			out[i].err = plan.Errorf(-1, -1, "%s has no arg%d that can be read", w.label.function, v.raw)
		default:
			at := codegen.Integer{Moment: true, Register: valuePlaces.Numbers[v.raw]}
			out[i].Value = signature.Value{Value: codegen.Value{Text: &codegen.Text{At: at, Max: v.limit}}, Type: batch.Varchar}
		}
	}
	return out
}

// withoutTypes says that nothing is known of a function's types.
func withoutTypes(sym *symbols.Module, name string, err error) error {
	if errors.Is(err, symbols.ErrNoDebugInfo) {
		return plan.Errorf(-1, -1, "the arguments of %s are not known by name: %s %v", name, sym.Name(), err).
			WithHint("arg0 to arg5 are the raw arguments, str(arg0) the text at one; names take a program compiled with -g, or its debug file under /usr/lib/debug")
	}
	return plan.Errorf(-1, -1, "the arguments of %s are not known by name: it %v", name, err).WithHint("arg0 to arg5 are the raw arguments, str(arg0) the text at one")
}

// agree finds out whether a value is of one type in all functions that have it. It is NULL
// in the others; but some must have it.
func (v *readValue) agree(wants []want, column int) error {
	_, t, err := agreed(v, len(wants), func(f int) (functionValue, string) { return wants[f].values[column], wants[f].label.function })
	if err == nil && t != v.t && len(wants) > 0 {
		err = plan.Errorf(-1, -1, "%s is %s now, and was %s when the query was planned", v.name, t, v.t)
	}
	return err
}

// agreed is the type of a value of n functions, and how many lack it.
func agreed(v *readValue, n int, of func(f int) (functionValue, string)) (lack int, t batch.Type, err error) {
	first, have := "", false
	for f := range n {
		x, name := of(f)
		switch {
		case x.err != nil:
			if lack++; err == nil {
				err = x.err
			}
		case !have:
			first, t, have = name, x.Type, true
		case x.Type != t || (x.Text != nil) != (t == batch.Varchar && x.Names == nil):
			return lack, t, plan.Errorf(-1, -1, "%s is %s in %s and %s in %s", v.name, t, first, x.Type, name).WithHint("choose functions that agree")
		}
	}
	if !have {
		return lack, t, err
	}
	return lack, t, nil
}

// placedAt places an error at the stream, if it has no place.
func placedAt(err error, spec *plan.Acquire) error {
	var e *plan.Error
	if errors.As(err, &e) && e.Start < 0 {
		c := *e
		c.Start, c.Stop = spec.Start, spec.Stop
		return &c
	}
	return err
}

// Values gives the types of those columns of spec that are values; of the others, those
// that they have. It attaches nothing.
func (p *Provider) Values(spec *plan.Acquire) ([]batch.Type, error) {
	out := spec.Out.Types()
	vs := valuesOf(spec)
	if !anyNamed(vs) {
		return out, nil
	}
	running, err := process.Resolve(spec.Target)
	if err != nil {
		return nil, err
	}
	sel, err := newSelector(spec.Select, p.o.Match)
	if err != nil {
		return nil, err
	}
	set, err := findModules(spec.Target, running, sel)
	if err != nil {
		return nil, err
	}
	defer set.close()
	var found [][]functionValue
	var names []string
	for _, m := range set.list {
		sym, err := p.modules.Open(m.file, m.name())
		if err != nil {
			return nil, refuseTarget(spec.Target, "cannot monitor functions of %v", err)
		}
		defer sym.Close()
		chosen, err := sel.choose(sym, m.name())
		if err != nil {
			return nil, err
		}
		if len(chosen) == 0 {
			continue
		}
		s := openSignatures(sym, vs)
		for _, c := range chosen {
			found, names = append(found, s.values(vs, sym, c, signature.Where{})), append(names, c.name)
		}
	}
	for i, v := range vs {
		if v == nil || v.path == nil {
			continue
		}
		if len(found) == 0 {
			out[i] = batch.Varchar // Prepare says that there is no such function
			continue
		}
		if _, out[i], err = agreed(v, len(found), func(f int) (functionValue, string) { return found[f][i], names[f] }); err != nil {
			return nil, placedAt(err, spec)
		}
	}
	return out, nil
}

// texts are the texts of an event, in place.
type texts []byte

// of is the text in a slot; false: NULL.
func (t texts) of(slot int) ([]byte, bool) {
	if len(t) < textsHeader {
		return nil, false
	}
	at := textsHeader
	for i := range slot {
		if n := t.length(i); n != noText {
			at += n
		}
	}
	n := t.length(slot)
	if n == noText || at+n > len(t) {
		return nil, false
	}
	return t[at : at+n], true
}

func (t texts) length(slot int) int { return int(binary.LittleEndian.Uint16(t[2+2*slot:])) }

// addValue adds a value of the event to a column.
func (s *subscription) addValue(c *batch.Column, row int, v *readValue, e *event) {
	if v.text {
		b, known := e.texts.of(v.slot)
		if !known {
			c.Nulls.Set(row)
		}
		c.Code = append(c.Code, c.Dict.CodeBytes(b))
		return
	}
	n := e.retval
	if !v.result {
		n = e.args[v.slot]
	}
	if e.Function>>(firstAbsent+v.slot)&1 != 0 {
		c.Nulls.Set(row)
		n = 0
	}
	switch v.t {
	case batch.Boolean:
		c.Bool = append(c.Bool, n != 0)
	case batch.Double:
		x := math.Float64frombits(n)
		if v.floats[e.function] == 4 {
			x = float64(math.Float32frombits(uint32(n)))
		}
		c.Float = append(c.Float, x)
	case batch.Varchar:
		name, ok := v.enums[e.function][int64(n)]
		if !ok {
			name = strconv.FormatInt(int64(n), 10)
		}
		c.Code = append(c.Code, c.Dict.Code(name))
	default:
		c.Int = append(c.Int, int64(n))
	}
}
