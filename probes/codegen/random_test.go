package codegen

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"pgregory.net/rapid"

	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/expr/exprtest"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// The columns of the tests, their places in the layout, and their types.
const (
	colPID = iota
	colArg0
	colArg1
	colStart
	colThread
	colFunction
	colClass
	colEnd
	colDuration
	colProcess
	colExe
	colKind
	colSize
	colHash
)

const epoch = 1_700_000_000_000_000_000 // offset from boot time to wall time

var columns = []struct {
	name string
	typ  types.Type
	at   Column
}{
	colPID:      {"pid", types.Bigint, Column{Kind: Number, Offset: 8}},
	colArg0:     {"arg0", types.Bigint, Column{Kind: Number, Offset: 16}},
	colArg1:     {"arg1", types.Bigint, Column{Kind: Number, Offset: 24}},
	colStart:    {"start_time", types.Timestamp, Column{Kind: Number, Offset: 32, Shift: epoch}},
	colThread:   {"thread_name", types.Varchar, Column{Kind: Name, Offset: 40}},
	colFunction: {"function_name", types.Varchar, Column{Kind: Function}},
	colClass:    {"class", types.Varchar, Column{Kind: Function}},
	colEnd:      {"timestamp", types.Timestamp, Column{Kind: Number, Offset: 56, Shift: epoch, Late: true}},
	colDuration: {"duration", types.Duration, Column{Kind: Number, Offset: 64, Late: true}},
	colProcess:  {"process", types.Varchar, Column{Kind: Name, Offset: 72, Late: true}},
	colExe:      {"exe", types.Varchar, Column{Kind: Unknown}},
	colSize:     {"args.size", types.Ubigint, Column{Kind: Number, Offset: 104}},
	colHash:     {"args.hash", types.Ubigint, Column{Kind: Number, Offset: 112}},
	colKind:     {"args.kind", types.Varchar, Column{Kind: Enum, Offset: 88, Names: kinds, Null: 1}},
}

// absentAt is the offset of the word of NULLs.
const absentAt, momentSize = 96, 120

// kinds are names of numbers: two are equal, and one looks like another number.
var kinds = map[int64]string{0: "a", 1: "worker", -5: "worker", 7: "ab", 1 << 40: "3", 1000: "w_rker"}

var schema = func() []types.Type {
	s := make([]types.Type, len(columns))
	for i, c := range columns {
		s[i] = c.typ
	}
	return s
}()

func column(i int) plan.Expr      { return &plan.Col{Index: i, Name: columns[i].name, T: columns[i].typ} }
func lit(v types.Value) plan.Expr { return &plan.Const{V: v} }
func call(t types.Type, fn string, args ...plan.Expr) plan.Expr {
	return &plan.Call{Fn: fn, Args: args, T: t}
}
func cond(fn string, args ...plan.Expr) plan.Expr { return call(types.Boolean, fn, args...) }

// functions is the probed functions of the tests; facts is the word of facts of
// each.
type functions struct {
	names, classes []string
	facts          []uint64
	used           int
}

func (f *functions) fact(e plan.Expr) (uint8, bool) {
	if f.used == 8 { // few, so that the tests cover the case that none is left
		return 0, false
	}
	f.used++
	for i := range f.names {
		row := make([]types.Value, len(columns))
		for c := range row {
			row[c] = types.NullOf(columns[c].typ)
		}
		row[colFunction], row[colClass] = types.Str(f.names[i]), types.Str(f.classes[i])
		v, err := exprtest.EvalRow(e, row)
		if err != nil {
			return 0, false
		}
		if !v.IsNull && v.I != 0 {
			f.facts[i] |= 1 << (31 + f.used)
		}
	}
	return uint8(31 + f.used), true
}

func (f *functions) layout() Layout {
	in := Layout{Facts: 0, Fact: f.fact, Absent: absentAt}
	for _, c := range columns {
		in.Columns = append(in.Columns, c.at)
	}
	return in
}

var texts = []string{"", "7", "-1", "3", "03", "1000", "a", "ab", "worker", "worker-1", "worker%", "exactly15bytes!", "sixteen--bytes--", "longer than sixteen", "w\x00x", "é", "w_rker"}
var likes = []string{"", "%", "1%", "-%", "3", "a%", "w%", "worker-%", "worker\\%", "worker%%", "%r", "w_rker", "exactly15bytes!%", "sixteen--bytes--%", "w%x", "wor", "é%", "longer than sixteen%"}
var numbers = []int64{0, 1, -1, 2, 3, 7, -5, 1000, 1 << 31, -1 << 31, 1<<31 - 1, 1 << 32, 1 << 40, 3037000500, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, epoch, epoch + 5}

func draw[T any](t *rapid.T, from []T, what string) T { return rapid.SampledFrom(from).Draw(t, what) }

var integerTypes = []types.Type{types.Bigint, types.Ubigint, types.Duration, types.Timestamp}

// integers draws an expression of that type.
func integers(t *rapid.T, typ types.Type, depth int) plan.Expr {
	leaf := func() plan.Expr {
		var of []int
		for i, c := range columns {
			if c.typ == typ {
				of = append(of, i)
			}
		}
		if draw(t, []bool{true, true, true, false}, "column") {
			return column(draw(t, of, "which"))
		}
		return lit(types.Value{Type: typ, I: draw(t, numbers, "number"), IsNull: rapid.IntRange(0, 30).Draw(t, "null") == 0})
	}
	if depth == 0 {
		return leaf()
	}
	sub := func(typ types.Type) plan.Expr { return integers(t, typ, depth-1) }
	switch k := rapid.IntRange(0, 9).Draw(t, "kind"); {
	case k < 4:
		return leaf()
	case k < 5:
		return &plan.Cast{X: sub(draw(t, integerTypes, "from")), T: typ}
	case typ == types.Timestamp:
		return call(typ, draw(t, []string{"+", "-"}, "op"), sub(typ), sub(types.Duration))
	case k < 6 && typ == types.Ubigint:
		return call(typ, "abs", sub(typ))
	case k < 6:
		return call(typ, "neg", sub(typ))
	case k < 8:
		return call(typ, draw(t, []string{"+", "-", "%"}, "op"), sub(typ), sub(typ))
	case typ == types.Duration && k < 9:
		return call(typ, "-", sub(types.Timestamp), sub(types.Timestamp))
	case typ == types.Duration:
		return call(typ, draw(t, []string{"*", "/"}, "op"), sub(typ), sub(types.Bigint))
	}
	return call(typ, draw(t, []string{"*", "/"}, "op"), sub(typ), sub(typ))
}

// conditions draws a BOOLEAN expression.
func conditions(t *rapid.T, depth int) plan.Expr {
	if depth > 0 {
		switch rapid.IntRange(0, 5).Draw(t, "junction") {
		case 0, 1:
			return cond("and", conditions(t, depth-1), conditions(t, depth-1))
		case 2, 3:
			return cond("or", conditions(t, depth-1), conditions(t, depth-1))
		case 4:
			return cond("not", conditions(t, depth-1))
		}
	}
	compare := []string{"=", "<>", "<", "<=", ">", ">="}
	name := func() plan.Expr { return column(draw(t, []int{colThread, colProcess, colKind, colKind}, "name")) }
	switch rapid.IntRange(0, 13).Draw(t, "test") {
	case 0, 1, 2, 3:
		typ := draw(t, integerTypes, "type")
		with := typ
		if typ == types.Ubigint && rapid.IntRange(0, 9).Draw(t, "mixed") == 0 {
			with = types.Bigint
		}
		return cond(draw(t, compare, "op"), integers(t, typ, 2), integers(t, with, 1))
	case 4, 5:
		typ := draw(t, integerTypes[:2], "type")
		in := &plan.In{X: integers(t, typ, 1)}
		for range rapid.SampledFrom([]int{1, 3, 9, 40}).Draw(t, "length") {
			v := types.Value{Type: typ, I: draw(t, numbers, "number") + rapid.Int64Range(-3, 3).Draw(t, "plus")}
			v.IsNull = rapid.IntRange(0, 50).Draw(t, "null") == 0
			in.List = append(in.List, plan.Const{V: v})
		}
		return in
	case 6:
		return cond(draw(t, compare[:2], "op"), name(), lit(types.Str(draw(t, texts, "text"))))
	case 7:
		return cond("like", name(), lit(types.Str(draw(t, likes, "pattern"))))
	case 8:
		return cond("starts_with", name(), lit(types.Str(draw(t, texts, "text"))))
	case 9:
		in := &plan.In{X: name()}
		for range rapid.IntRange(1, 5).Draw(t, "length") {
			in.List = append(in.List, plan.Const{V: types.Str(draw(t, texts, "text"))})
		}
		return in
	case 10:
		return cond("like", column(draw(t, []int{colFunction, colClass}, "of")), lit(types.Str(draw(t, likes, "pattern"))))
	case 11: // NULL where it does not match
		return cond("=", call(types.Varchar, "regexp_extract", column(colFunction), lit(types.Str("^w(.)")), lit(types.Int(1))), lit(types.Str("o")))
	case 12:
		return draw(t, []plan.Expr{
			cond(">", &plan.Cast{X: column(colDuration), T: types.Double}, lit(types.Float(2.5))),
			cond("=", column(colExe), lit(types.Str("a"))),
			cond("is null", column(colArg0)),
			cond("is null", column(colExe)),
			cond("is null", column(colKind)),
			cond("ilike", column(colKind), lit(types.Str("W%"))),
			cond("like", column(colProcess), lit(types.Str("%r"))),
		}, "undecided")
	}
	return lit(draw(t, []types.Value{types.Bool(true), types.Bool(false), types.NullOf(types.Boolean)}, "constant"))
}

// moment is a tuple in the kernel's form and in the engine's.
type moment struct {
	memory [momentSize]byte
	row    []types.Value
}

func moments(t *rapid.T, f *functions) moment {
	m := moment{row: make([]types.Value, len(columns))}
	which := rapid.IntRange(0, len(f.names)-1).Draw(t, "function")
	putNumber(m.memory[:], int64(f.facts[which]))
	for i, c := range columns {
		switch c.at.Kind {
		case Number:
			v := draw(t, numbers, c.name)
			putNumber(m.memory[c.at.Offset:], v)
			m.row[i] = types.Value{Type: c.typ, I: v + c.at.Shift}
		case Name:
			// A name ends at the first zero byte; anything may follow.
			b := m.memory[c.at.Offset:][:NameSize]
			s := draw(t, texts, c.name)
			for k := range b {
				b[k] = draw(t, []byte{0, 'x'}, "behind")
			}
			n := copy(b, s)
			if n < NameSize {
				b[n] = 0
			}
			for k, x := range b {
				if x == 0 {
					b = b[:k]
					break
				}
			}
			m.row[i] = types.Str(string(b))
		case Enum:
			v := draw(t, numbers, c.name)
			putNumber(m.memory[c.at.Offset:], v)
			m.row[i] = types.Str(EnumName(c.at.Names, v))
			if rapid.IntRange(0, 9).Draw(t, "null") == 0 {
				putNumber(m.memory[absentAt:], 1<<(c.at.Null-1))
				m.row[i] = types.NullOf(c.typ)
			}
		case Unknown:
			m.row[i] = types.NullOf(c.typ)
			if s := draw(t, texts, c.name); s != "" {
				m.row[i] = types.Str(s)
			}
		}
	}
	m.row[colFunction], m.row[colClass] = types.Str(f.names[which]), types.Str(f.classes[which])
	return m
}

func putNumber(b []byte, v int64) { binary.NativeEndian.PutUint64(b, uint64(v)) }

// runner runs bodies in the kernel on a memory.
type runner struct {
	memory *ebpf.Map
}

func newRunner(t testing.TB) *runner {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: momentSize, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return &runner{m}
}

type fataler interface {
	Fatalf(string, ...any)
	Helper()
}

// load makes the body a raw tracepoint program, since the kernel cannot
// test-run uprobe programs.
func (r *runner) load(t fataler, body asm.Instructions) *ebpf.Program {
	t.Helper()
	if body == nil {
		return nil
	}
	ins := asm.Instructions{
		asm.LoadMapPtr(asm.R1, r.memory.FD()),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JNE.Imm(asm.R0, 0, "found"),
		asm.Return(),
		asm.Mov.Reg(asm.R1, asm.R0).WithSymbol("found"),
		asm.Call.Label("body"),
		asm.Return(),
	}
	ins = append(append(ins, body[0].WithSymbol("body")), body[1:]...)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: ins, License: "GPL"})
	var refused *ebpf.VerifierError
	if errors.As(err, &refused) {
		t.Fatalf("%+v", refused)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

func (r *runner) passes(t fataler, p *ebpf.Program, memory []byte) bool {
	t.Helper()
	if p == nil {
		return true
	}
	if err := r.memory.Put(uint32(0), memory); err != nil {
		t.Fatalf("%v", err)
	}
	ret, err := p.Run(&ebpf.RunOptions{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return ret == 1
}

// The kernel's filter followed by the engine's on what passes equals the
// engine's alone, and an evaluation that fails in the engine fails with the
// kernel's filter too.
func TestKernelAndEngineAgree(t *testing.T) {
	testenv.NeedRoot(t)
	r := newRunner(t)
	rapid.Check(t, func(t *rapid.T) {
		f := &functions{names: []string{"worker", "ab", "wx"}, classes: []string{"", "a", "worker"}, facts: make([]uint64, 3)}
		e := conditions(t, rapid.IntRange(0, 4).Draw(t, "depth"))
		p := Compile(e, f.layout())
		entry, exit := r.load(t, p.Entry), r.load(t, p.Return)
		defer entry.Close()
		defer exit.Close()
		for range 30 {
			m := moments(t, f)
			check(t, r, e, p, entry, exit, m)
		}
	})
}

func check(t *rapid.T, r *runner, e plan.Expr, p Program, entry, exit *ebpf.Program, m moment) {
	// Values unknown at the entry must not matter there.
	early := m.memory
	for _, c := range columns {
		if c.at.Late {
			n := 8
			if c.at.Kind == Name {
				n = NameSize
			}
			copy(early[c.at.Offset:][:n], "garbage garbage!")
		}
	}
	passes := r.passes(t, entry, early[:]) && r.passes(t, exit, m.memory[:])
	want, wantErr := holds(t, e, m.row)
	if !passes {
		if want || wantErr != nil {
			t.Fatalf("%s\nrow %v\nrefused by the kernel, in the engine %v, %v", e, m.row, want, wantErr)
		}
		return
	}
	got, gotErr := true, error(nil)
	if p.Residual != nil {
		got, gotErr = holds(t, p.Residual, m.row)
	}
	if (gotErr != nil) != (wantErr != nil) || got != want {
		t.Fatalf("%s\nrow %v\nin the engine %v, %v\npassed by the kernel, and the rest %v gives %v, %v", e, m.row, want, wantErr, p.Residual, got, gotErr)
	}
}

// holds returns the result of the engine's filter for a row.
func holds(t *rapid.T, e plan.Expr, row []types.Value) (bool, error) {
	f, err := expr.CompileFilter(e, schema)
	if err != nil {
		t.Fatalf("%s: %v", e, err)
	}
	b := batch.New(schema)
	b.AppendRow(row...)
	chosen, err := f.Select(b, nil)
	return err == nil && len(chosen) == 1, err
}
