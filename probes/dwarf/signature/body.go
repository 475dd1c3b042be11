package signature

import (
	"cmp"
	"debug/dwarf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/op"
	"endoscope/probes/elf"
)

// Body is the debug information about the inside of a function: where its lines
// begin, and the variables that are live there. Copies inlined into other
// functions are not part of it.
type Body struct {
	// Copies is the number of copies inlined into other functions of its unit.
	Copies int
	// Lines are the instructions that begin a statement, by address, one each.
	Lines []Line

	fn        *Function
	unit      *dwarf.Entry
	lang      elf.Lang
	frame     []byte // expression of the frame base
	entry     uint64
	prologue  uint64 // address after the prologue, where arguments have been stored
	variables []*variable
	named     map[string][]*variable
	left      int // remaining reads for all calls of At
}

// Line is the first instruction of a source line.
type Line struct {
	Addr   uint64 // address in the file
	Number int
	column int
}

// variable is a variable declared in a function.
type variable struct {
	name      string
	entry     *dwarf.Entry
	t         *Type
	parameter bool
	escaped   bool // a Go variable on the heap, accessed by a pointer
	depth     int  // nesting of the block that declares it
	scope     [][2]uint64
	// line and column are those of the declaration.
	line, column int64
	// Derived from the lines on first use.
	asked    bool
	declared uint64
	last     int // last line of its block
}

const (
	maxLines     = 1 << 16 // of a function
	maxVariables = 1 << 14
	maxSpentBody = 4 * maxSpent
)

// Body returns the body of function i of module m.
func (f *Info) Body(m *elf.Module, i int) (*Body, error) { return f.body(m.Function(i)) }

func (f *Info) body(of elf.Function) (b *Body, err error) {
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
	b = &Body{fn: &Function{Name: of.Name, info: f}, unit: unit, lang: of.Lang, entry: of.Addr}
	b.frame, _ = e.Val(dwarf.AttrFrameBase).([]byte)
	ranges, err := f.d.Ranges(unit, e, f.spend)
	if err != nil {
		return nil, fmt.Errorf("has damaged debug information: %w", err)
	}
	if err := b.collect(e, ranges, of.Lang == elf.Go, 0); err != nil {
		return nil, err
	}
	if err := b.countCopies(e); err != nil {
		return nil, err
	}
	b.left, b.named = maxSpentBody, map[string][]*variable{}
	for _, v := range b.variables {
		b.named[v.name] = append(b.named[v.name], v)
	}
	return b, b.readLines(of, ranges)
}

// countCopies counts the inlined copies of the function, whose entry is e.
func (b *Body) countCopies(e *dwarf.Entry) error {
	of, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
	if b.lang == elf.Go && !ok {
		of, ok = e.Offset, true
	}
	if !ok {
		return nil // never inlined
	}
	r := b.fn.info.d.Reader()
	r.Seek(b.unit.Offset)
	if _, err := r.Next(); err != nil {
		return fmt.Errorf("has damaged debug information: %w", err)
	}
	for {
		e, err := r.Next()
		if err != nil {
			return fmt.Errorf("has damaged debug information: %w", err)
		}
		if e == nil || e.Tag == dwarf.TagCompileUnit {
			return nil
		}
		if e.Tag != dwarf.TagInlinedSubroutine {
			continue
		}
		if at, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok && at == of {
			b.Copies++
		}
	}
}

// collect reads the variables declared in an entry whose code is in scope.
func (b *Body) collect(e *dwarf.Entry, scope [][2]uint64, golang bool, depth int) error {
	if depth > maxDepth {
		return errors.New("has blocks in too many others")
	}
	f := b.fn.info
	children, err := f.children(e)
	if err != nil {
		return err
	}
	for _, c := range children {
		switch c.Tag {
		case dwarf.TagLexDwarfBlock:
			inner, err := f.d.Ranges(b.unit, c, f.spend)
			if err != nil {
				return fmt.Errorf("has damaged debug information: %w", err)
			}
			if len(inner) == 0 {
				inner = scope
			}
			if err := b.collect(c, inner, golang, depth+1); err != nil {
				return err
			}
		case dwarf.TagVariable, dwarf.TagFormalParameter:
			v := &variable{name: f.name(c), entry: c, parameter: c.Tag == dwarf.TagFormalParameter && c.Val(dwarf.AttrVarParam) != true, scope: scope, depth: depth}
			if v.name == "" {
				continue
			}
			if inner, ok := strings.CutPrefix(v.name, "&"); ok && golang {
				v.name, v.escaped = inner, true
			}
			v.line, _ = f.val(c, dwarf.AttrDeclLine).(int64)
			v.column, _ = f.val(c, attrDeclColumn).(int64)
			at, ok := f.val(c, dwarf.AttrType).(dwarf.Offset)
			if !ok {
				continue
			}
			if v.t, err = f.typeOf(at); err != nil {
				return err
			}
			if b.variables = append(b.variables, v); len(b.variables) > maxVariables {
				return errors.New("has too many variables")
			}
		}
	}
	return nil
}

// readLines finds where the lines of a function begin, and where its prologue
// ends: where the line table marks it or, as debuggers assume, at its second
// line.
func (b *Body) readLines(of elf.Function, ranges [][2]uint64) error {
	f := b.fn.info
	r, err := f.d.LineReader(b.unit)
	if err != nil || r == nil {
		return errors.New("has no line table in its debug information")
	}
	found := false
	for {
		var l dwarf.LineEntry
		if err := r.Next(&l); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("has damaged debug information: %w", err)
		}
		if err := f.spend(1 + len(ranges)/4); err != nil {
			return err
		}
		if l.EndSequence || !within(l.Address, ranges) {
			continue
		}
		if l.PrologueEnd && (!found || l.Address < b.prologue) {
			b.prologue, found = l.Address, true
		}
		if !l.IsStmt || l.Line <= 0 {
			continue
		}
		if b.Lines = append(b.Lines, Line{l.Address, l.Line, l.Column}); len(b.Lines) > maxLines {
			return fmt.Errorf("has more than %d lines", maxLines)
		}
	}
	// An instruction that begins several lines belongs to the last one.
	slices.Reverse(b.Lines)
	slices.SortStableFunc(b.Lines, func(x, y Line) int { return cmp.Compare(x.Addr, y.Addr) })
	b.Lines = slices.CompactFunc(b.Lines, func(x, y Line) bool { return x.Addr == y.Addr })
	if !found {
		b.prologue = of.Addr
		for _, l := range b.Lines {
			if l.Addr > of.Addr {
				b.prologue = l.Addr
				break
			}
		}
	}
	return nil
}

func within(addr uint64, ranges [][2]uint64) bool {
	return slices.ContainsFunc(ranges, func(r [2]uint64) bool { return r[0] <= addr && addr < r[1] })
}

// Variables returns the names of the function's variables.
func (b *Body) Variables() []string {
	var names []string
	for _, v := range b.variables {
		if b.named[v.name][0] == v {
			names = append(names, v.name)
		}
	}
	return names
}

// Frame locates the frame of a call at an instruction: its canonical frame
// address is the value of a register, by DWARF's number, plus an offset.
type Frame = op.Frame

// Register returns the frame's address as an expression for a program in the
// kernel; false if such a program cannot read the register.
func Register(f Frame) (codegen.Integer, bool) {
	reg, ok := registers[f.Register]
	return codegen.Integer{Register: reg, Sum: true, Offset: f.Offset}, ok
}

// ErrNotLive is returned for a variable that does not exist at an instruction.
var ErrNotLive = errors.New("does not live there")

// Live is a variable that is live at an instruction.
type Live struct {
	Value
	// Declared is the line that initialises the variable, if the variable has a
	// location before it: until a call has executed that line, the location has
	// another content. 0: the variable is initialised.
	Declared uint64
	// Ends: the line destroys the variable, a C++ object.
	Ends bool
	// Length is the length of the slice that contains the value: the value
	// exists only if it is at least Needs. nil: the value is in no slice.
	Length *codegen.Integer
	Needs  int64
}

// At returns how to read the value that path names at the instruction at pc: a
// variable, and fields and elements ([n]) of it. Errors other than ErrNotLive,
// to be read after the variable's name, say why a live variable cannot be read.
func (b *Body) At(path []string, pc uint64, frame Frame, at Where) (v Live, err error) {
	defer recovered(&err)
	f := b.fn.info
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = b.left
	defer func() { b.left = f.left }()
	var which *variable
	for _, c := range b.named[path[0]] {
		if err := f.spend(1 + len(c.scope)); err != nil {
			return v, err
		}
		if (c.parameter && c.depth == 0 || within(pc, c.scope)) && (which == nil || c.depth >= which.depth) {
			which = c
		}
	}
	if which == nil {
		return v, ErrNotLive
	}
	expr, whole, err := f.located(b.unit, which.entry, pc)
	if err != nil {
		return v, err
	}
	switch {
	case expr == nil:
		if n := which.entry.Val(dwarf.AttrConstValue); n != nil {
			return v, fmt.Errorf("is always %v: the compiler has made it a constant", n)
		}
		if which.entry.Val(dwarf.AttrLocation) == nil {
			return v, fmt.Errorf("was optimised away: %s", b.plainly())
		}
		return v, ErrNotLive
	case whole && b.entry <= pc && pc < b.prologue:
		return v, ErrNotLive
	case whole && !which.parameter:
		b.readLinesOf(which)
		v.Declared = which.declared
	}
	pieces, err := locate(expr, b.frame, frame)
	if errors.Is(err, errEntryOnly) || errors.Is(err, errComputed) {
		return v, fmt.Errorf("%w: %s", err, b.plainly())
	}
	if err != nil {
		return v, err
	}
	o := object{t: which.t, pieces: pieces}
	if len(pieces) == 1 && pieces[0].Kind == op.InMemory {
		o.place(pieces[0], at)
	}
	if which.escaped {
		if o, err = b.fn.follow(o, at); err != nil {
			return v, err
		}
	}
	for _, name := range path[1:] {
		if o, err = b.fn.part(o, name, at); err != nil {
			return v, err
		}
	}
	if o.t.Kind == Reference {
		if o, err = b.fn.follow(o, at); err != nil {
			return v, err
		}
	}
	v.Value, err = b.fn.final(o, at)
	if o.bound != nil {
		v.Length, v.Needs = &o.bound.length, o.bound.needs
	}
	if v.Text != nil && which.t.Kind == Struct && b.lang == elf.CPP {
		b.readLinesOf(which)
		k, _ := slices.BinarySearchFunc(b.Lines, pc, func(l Line, pc uint64) int { return cmp.Compare(l.Addr, pc) })
		v.Ends = k < len(b.Lines) && b.Lines[k].Number == which.last
	}
	switch {
	case errors.Is(err, errFloat):
		err = fmt.Errorf("is in an XMM register, which probes of the kernel do not have: %s", b.plainly())
	case errors.Is(err, errNotAtEntry):
		err = fmt.Errorf("is where it cannot be read: %s", b.plainly())
	}
	return v, err
}

// attrDeclColumn is DW_AT_decl_column.
const attrDeclColumn = dwarf.Attr(0x39)

// readLinesOf finds the line of a variable's block that initialises it, by the
// column if the line table has one; 0 if it is declared without a value. It
// also finds the block's last line.
func (b *Body) readLinesOf(v *variable) {
	if v.asked {
		return
	}
	v.asked = true
	exact := false
	for _, l := range b.Lines {
		if !within(l.Addr, v.scope) {
			continue
		}
		v.last = max(v.last, l.Number)
		if int64(l.Number) != v.line || l.Addr < b.prologue || exact {
			continue
		}
		if exact = v.column > 0 && int64(l.column) == v.column; exact || v.declared == 0 {
			v.declared = l.Addr
		}
	}
}

// plainly returns the compiler options without which the function would be
// described completely.
func (b *Body) plainly() string {
	if b.lang == elf.Go {
		return "build it with -gcflags='-N -l'"
	}
	return "compile it with -O0 or -Og"
}
