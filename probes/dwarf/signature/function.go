package signature

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"endoscope/probes/dwarf/op"
	"endoscope/probes/elf"
)

// Function is the debug information of one function.
type Function struct {
	Name   string
	Params []Param
	// Result is the first result; nil: none.
	Result *Param
	// More are the further results of a Go function.
	More     []Param
	Variadic bool
	File     string
	Line     int64

	info   *Info
	unit   dwarf.Offset
	golang bool // arguments are passed by Go's convention
}

// Param is a parameter, or a result.
type Param struct {
	Name string
	Type *Type

	pieces []op.Piece
	err    error // why it cannot be read
}

// Function returns the debug information of function i of module m.
func (f *Info) Function(m *elf.Module, i int) (*Function, error) {
	return f.function(m.Function(i), m.IsLocal(i), &moduleUses{m, i})
}

// function returns the debug information of a function. local: no other file
// can have called it when it was compiled.
func (f *Info) function(of elf.Function, local bool, uses uses) (out *Function, err error) {
	defer recovered(&err)
	if f, err = f.at(of.Addr); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = maxSpent
	unit, e, err := f.subprogram(of.Addr)
	if err != nil {
		return nil, err
	}
	out = &Function{Name: of.Name, info: f, unit: unit.Offset, golang: of.Lang == elf.Go}
	r := reader{Info: f, unit: unit, of: of, by: compilerOf(unit), local: local, uses: uses, external: f.val(e, dwarf.AttrExternal) == true}
	calling, _ := f.val(e, dwarf.AttrCalling).(int64)
	r.nocall = calling == nocall
	r.frameBase, _ = e.Val(dwarf.AttrFrameBase).([]byte)
	if err := r.parameters(out, e); err != nil {
		return nil, err
	}
	out.Line, _ = f.val(e, dwarf.AttrDeclLine).(int64)
	if file, ok := f.val(e, dwarf.AttrDeclFile).(int64); ok {
		if lines, err := f.d.LineReader(unit); err == nil && lines != nil {
			if files := lines.Files(); file >= 0 && int(file) < len(files) && files[file] != nil {
				out.File = files[file].Name
			}
		}
	}
	return out, nil
}

// nocall is DW_CC_nocall.
const nocall = 3

// reader is the state of one call of Function.
type reader struct {
	*Info
	unit      *dwarf.Entry
	of        elf.Function
	frameBase []byte
	external  bool
	nocall    bool // DW_CC_nocall: it is not called by the standard convention
	by        compiler
	local     bool // no other file can have called it when it was compiled
	uses      uses
	moved     bool // parameters may be in other registers than their types imply
}

// conventions returns the conventions for the function's arguments and results.
func (r *reader) conventions() (args, results *convention) {
	if r.of.Lang == elf.Go {
		return &convention{f: r.Info, golang: true, ints: goRegisters, floats: goFloats}, &convention{f: r.Info, golang: true, ints: goRegisters, floats: goFloats}
	}
	rust := r.of.Lang == elf.Rust
	return &convention{f: r.Info, rust: rust, ints: systemVArguments, floats: systemVFloats}, &convention{f: r.Info, rust: rust, ints: systemVResults, floats: 2}
}

// parameters reads the parameters and results of the function.
func (r *reader) parameters(out *Function, e *dwarf.Entry) error {
	children, err := r.children(e)
	if err != nil {
		return err
	}
	var params []*dwarf.Entry
	for _, c := range children {
		if c.Tag == dwarf.TagFormalParameter {
			params = append(params, c)
		}
	}
	r.moved = r.parametersMoved(params)
	args, results := r.conventions()
	if at, ok := r.val(e, dwarf.AttrType).(dwarf.Offset); ok {
		t, err := r.typeOf(at)
		if err != nil {
			return err
		}
		p := r.result(t, results, args)
		p.Name = "retval"
		if p.err == nil && !r.returnsResult(e, params, &p) {
			p.err = errUnreadResult
		}
		out.Result = &p
	}
	for _, c := range children {
		switch {
		case c.Tag == dwarf.TagUnspecifiedParameters:
			out.Variadic = true
			continue
		case c.Tag != dwarf.TagFormalParameter:
			continue
		}
		at, ok := r.val(c, dwarf.AttrType).(dwarf.Offset)
		if !ok {
			return errors.New("has a parameter without a type in its debug information")
		}
		t, err := r.typeOf(at)
		if err != nil {
			return err
		}
		if isResult, _ := c.Val(dwarf.AttrVarParam).(bool); isResult && r.of.Lang == elf.Go {
			p := r.result(t, results, nil)
			p.Name = r.name(c)
			if out.Result == nil {
				out.Result = &p
			} else {
				out.More = append(out.More, p)
			}
			continue
		}
		p := Param{Name: r.name(c), Type: t}
		p.pieces, p.err = r.parameter(c, t, args)
		if p.err == nil && r.changed() && r.isTaken(p.pieces, out.Params) {
			p.pieces, p.err = nil, errUnreadArgument
		}
		out.Params = append(out.Params, p)
	}
	return nil
}

// result returns the location of the result.
func (r *reader) result(t *Type, results, args *convention) Param {
	p := Param{Type: t}
	if t.Size == 0 && t.Kind == Void {
		p.err = errors.New("is nothing: the function returns void")
		return p
	}
	p.pieces, p.err = results.pass(t)
	if results.golang || p.err != nil || len(p.pieces) == 0 || p.pieces[0].Kind == op.InRegister {
		return p
	}
	if t.Kind == Float { // long double
		p.err = errors.New("is floating point and returned in a register that probes of the kernel do not have")
		return p
	}
	// It is written to memory whose address is passed as a hidden first
	// argument, and returned.
	if args != nil {
		args.ints = args.ints[1:]
	}
	p.pieces = []op.Piece{{Kind: op.InMemory, Register: dwAX}}
	return p
}

// parameter returns the location of a parameter at the function's entry.
func (r *reader) parameter(c *dwarf.Entry, t *Type, args *convention) ([]op.Piece, error) {
	expr, whole, err := r.located(r.unit, c, r.of.Addr)
	if err != nil {
		return nil, err
	}
	pieces, evaluateErr := locateAtEntry(expr, r.frameBase)
	// A class that must not be copied byte by byte is passed by a pointer. Its
	// type may not say so, but the stored pointer, and the pointer's location,
	// do.
	if n := len(expr); t.Kind == Struct && n > 0 && (expr[n-1] == op.Deref || evaluateErr == nil && isPointer(pieces[0])) {
		copied := *t
		copied.indirect = true
		t = &copied
	}
	byConvention, conventionErr := args.pass(t)
	if r.of.Lang == elf.Go && evaluateErr == nil && conventionErr == nil && isPartOf(pieces, byConvention, t.Size) {
		return byConvention, nil
	}
	switch {
	case expr == nil && c.Val(dwarf.AttrLocation) == nil && c.AttrField(dwarf.AttrConstValue) == nil && !r.changed():
		if !r.by.gnu && r.of.Lang != elf.Go {
			return nil, errUnreadArgument
		}
		return byConvention, conventionErr // unused, but passed
	case expr == nil && c.AttrField(dwarf.AttrConstValue) != nil:
		n, ok := c.Val(dwarf.AttrConstValue).(int64)
		if !ok {
			return nil, errNotAtEntry
		}
		return []op.Piece{{Kind: op.Constant, Offset: n}}, nil
	case expr == nil && c.Val(dwarf.AttrLocation) != nil:
		return nil, errNotAtEntry // valid further on only
	case expr == nil:
		return nil, errors.New("was optimised away: the compiled function is not passed it")
	case whole && r.changed() && (evaluateErr != nil || pieces[0].Kind == op.InMemory && !isPassed(pieces[0])):
		return nil, errNotAtEntry // it may not be passed at all
	case !whole && r.changed() && evaluateErr == nil && !r.areRead(pieces):
		return nil, errUnreadArgument // GCC may describe a register for a parameter that is not passed
	case whole && (evaluateErr != nil || pieces[0].Kind == op.InMemory && !isPointer(pieces[0])):
		// The location of the parameter once the function has stored it.
		return byConvention, conventionErr
	}
	return pieces, evaluateErr
}

// isPartOf reports whether the stated location of a whole parameter on the
// stack is only a part of it: Go's compiler describes a slice like that if only
// its length is used.
func isPartOf(said, passed []op.Piece, size int64) bool {
	if len(said) != 1 || len(passed) != 1 || said[0].Kind != op.InMemory || passed[0].Kind != op.InMemory || said[0].Register != op.CFA || passed[0].Register != op.CFA {
		return false
	}
	off := said[0].Offset - passed[0].Offset
	return 0 < off && off < size
}

// isPointer reports whether the piece is behind a pointer in an argument
// register.
func isPointer(p op.Piece) bool {
	return p.Kind == op.InMemory && p.Offset == 0 && slices.Contains(systemVArguments, p.Register)
}

// isPassed reports whether the piece is where arguments are passed, not where
// the function keeps a copy.
func isPassed(p op.Piece) bool { return isPointer(p) || p.Register == op.CFA && p.Offset >= 0 }

// changed reports whether the compiler may pass parameters by its own
// convention, as it may if it knows all callers: LLVM marks such functions, and
// GCC changes the name.
func (r *reader) changed() bool {
	if r.nocall || r.moved {
		return true
	}
	for _, mark := range []string{".isra.", ".constprop.", ".part."} {
		if strings.Contains(r.of.Mangled, mark) {
			return true
		}
	}
	return false
}

// Signature returns the function's signature in its language's syntax.
func (f *Function) Signature(lang elf.Lang) string {
	var params []string
	for _, p := range f.Params {
		params = append(params, declared(lang, p))
	}
	if f.Variadic {
		params = append(params, "...")
	}
	list := strings.Join(params, ", ")
	result := "void"
	if f.Result != nil {
		result = f.Result.Type.Name
	}
	switch lang {
	case elf.Go, elf.Rust:
		word, arrow := "func ", " "
		if lang == elf.Rust {
			word, arrow = "fn ", " -> "
		}
		out := word + f.Name + "(" + list + ")"
		switch {
		case f.Result == nil:
		case len(f.More) > 0:
			all := result
			for _, m := range f.More {
				all += ", " + m.Type.Name
			}
			out += " (" + all + ")"
		default:
			out += arrow + result
		}
		return out
	}
	return result + " " + f.Name + "(" + list + ")"
}

func declared(lang elf.Lang, p Param) string {
	switch {
	case p.Name == "":
		return p.Type.Name
	case lang == elf.Go:
		return p.Name + " " + p.Type.Name
	case lang == elf.Rust:
		return p.Name + ": " + p.Type.Name
	case strings.HasSuffix(p.Type.Name, "*"):
		return p.Type.Name + p.Name
	}
	return p.Type.Name + " " + p.Name
}

// registerNames maps DWARF numbers to names.
var registerNames = map[int]string{
	dwAX: "rax", dwDX: "rdx", dwCX: "rcx", dwBX: "rbx", dwSI: "rsi", dwDI: "rdi", 6: "rbp", dwSP: "rsp",
	dwR8: "r8", dwR9: "r9", dwR10: "r10", dwR11: "r11", 12: "r12", 13: "r13", 14: "r14", 15: "r15",
}

// registerName returns a register's name; the numbers from 17 on are xmm0 to
// xmm15.
func registerName(n int) string {
	if n >= dwXMM0 {
		return fmt.Sprintf("xmm%d", n-dwXMM0)
	}
	return registerNames[n]
}

// Where describes the location of a parameter at the function's entry.
func (p *Param) Where() string {
	if p.err != nil {
		return p.err.Error()
	}
	var out []string
	for _, x := range p.pieces {
		switch x.Kind {
		case op.InRegister:
			out = append(out, registerName(x.Register))
		case op.Computed:
			out = append(out, fmt.Sprintf("%s%+d", registerName(x.Register), x.Offset))
		case op.InMemory:
			if x.Register == op.CFA {
				out = append(out, fmt.Sprintf("[rsp+%d]", 8+x.Offset))
			} else {
				out = append(out, fmt.Sprintf("[%s%+d]", registerName(x.Register), x.Offset))
			}
		case op.Constant:
			out = append(out, fmt.Sprintf("always %d", x.Offset))
		case op.Nowhere:
			out = append(out, "nowhere")
		}
	}
	return strings.Join(out, ", ")
}
