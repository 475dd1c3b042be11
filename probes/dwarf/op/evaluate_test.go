package op

import (
	"strings"
	"testing"
)

// Registers of the tests.
const (
	bp = 6
	sp = 7
	ip = 16
)

type words map[uint64]uint64

func (w words) Word(addr uint64) (uint64, bool) {
	v, ok := w[addr]
	return v, ok
}

// TestOperations: every operation on numbers.
func TestOperations(t *testing.T) {
	const minus1 = ^uint64(0)
	regs := make([]uint64, 17)
	for i := range regs {
		regs[i] = uint64(100 * i)
	}
	for _, c := range []struct {
		name string
		code []byte
		want uint64
	}{
		{"addr", []byte{Addr, 8, 7, 6, 5, 4, 3, 2, 1}, 0x0102030405060708},
		{"deref", []byte{Const1u, 64, Deref}, 3000},
		{"const1u", []byte{Const1u, 0xff}, 0xff},
		{"const1s", []byte{Const1u + 1, 0xff}, minus1},
		{"const2u", []byte{Const1u + 2, 0xfe, 0xff}, 0xfffe},
		{"const2s", []byte{Const1u + 3, 0xfe, 0xff}, minus1 - 1},
		{"const4u", []byte{Const4u, 0xfe, 0xff, 0xff, 0xff}, 0xfffffffe},
		{"const4s", []byte{Const4u + 1, 0xfe, 0xff, 0xff, 0xff}, minus1 - 1},
		{"const8u", []byte{Const8u, 1, 0, 0, 0, 0, 0, 0, 0x80}, 1<<63 + 1},
		{"const8s", []byte{Const8s, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, minus1},
		{"constu", []byte{Constu, 0xff, 1}, 255},
		{"consts", []byte{Consts, 0x7f}, minus1},
		{"lit0", []byte{Lit0}, 0},
		{"lit31", []byte{Lit31}, 31},
		{"breg0", []byte{Breg0, 5}, 5},
		{"breg16", []byte{Breg0 + ip, 0x7f}, 1599},
		{"dup", []byte{Lit0 + 3, Dup, Plus}, 6},
		{"drop", []byte{Lit0 + 3, Lit0 + 4, Drop}, 3},
		{"over", []byte{Lit0 + 7, Lit0 + 4, Over, Minus, Plus}, 4},
		{"pick", []byte{Lit0 + 7, Lit0 + 4, Lit0 + 5, Pick, 2}, 7},
		{"swap", []byte{Lit0 + 7, Lit0 + 4, Swap, Minus}, minus1 - 2},
		{"and", []byte{Lit0 + 12, Lit0 + 10, And}, 8},
		{"minus", []byte{Lit0 + 12, Lit0 + 10, Minus}, 2},
		{"mul", []byte{Lit0 + 12, Lit0 + 10, Mul}, 120},
		{"neg", []byte{Lit0 + 1, Neg}, minus1},
		{"not", []byte{Lit0, Not}, minus1},
		{"or", []byte{Lit0 + 12, Lit0 + 10, Or}, 14},
		{"plus", []byte{Lit0 + 12, Lit0 + 10, Plus}, 22},
		{"plus_uconst", []byte{Lit0 + 12, PlusUconst, 0x80, 1}, 140},
		{"shl", []byte{Lit0 + 12, Lit0 + 2, Shl}, 48},
		{"shl of all bits", []byte{Lit0 + 12, Const1u, 64, Shl}, 0},
		{"shr", []byte{Consts, 0x7f, Const1u, 60, Shr}, 15},
		{"shra", []byte{Consts, 0x78, Lit0 + 2, Shra}, minus1 - 1},
		{"xor", []byte{Lit0 + 12, Lit0 + 10, Xor}, 6},
		{"eq", []byte{Lit0 + 3, Lit0 + 3, Eq}, 1},
		{"ne", []byte{Lit0 + 3, Lit0 + 3, Ne}, 0},
		{"lt of signed numbers", []byte{Consts, 0x7f, Lit0, Lt}, 1},
		{"le", []byte{Lit0, Lit0, Le}, 1},
		{"gt", []byte{Lit0, Consts, 0x7f, Gt}, 1},
		{"ge", []byte{Lit0, Lit0 + 1, Ge}, 0},
		{"skip", []byte{Lit0 + 3, Skip, 1, 0, Drop, Nop}, 3},
		{"bra taken", []byte{Lit0 + 3, Lit0 + 1, Bra, 1, 0, Drop}, 3},
		{"bra not taken", []byte{Lit0 + 3, Lit0 + 4, Lit0, Bra, 1, 0, Drop}, 3},
	} {
		if got, ok := Evaluate(c.code, regs, words{64: 3000}); !ok || got != c.want {
			t.Errorf("%s: %#x (%v), want %#x", c.name, got, ok, c.want)
		}
	}
	if v, ok := Evaluate([]byte{PlusUconst, 8}, regs, words{}, 40); !ok || v != 48 {
		t.Errorf("with an initial 40: %d (%v), want 48", v, ok)
	}
}

// TestExpressions: the expressions that programs have. That of the linkage
// table depends on the position in a stub, another belongs to a realigned
// frame.
func TestExpressions(t *testing.T) {
	regs := []uint64{bp: 1000, sp: 2000, ip: 0x100b}
	memory := words{992: 3000}
	for _, c := range []struct {
		name string
		expr []byte
		want uint64
	}{
		// breg7+8, breg16+0, lit15, and, lit11, ge, lit3, shl, plus
		{"in a stub of the linkage table, after its push", []byte{0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}, 2016},
		{"a pointer in the frame", []byte{0x76, 0x78, 0x06}, 3000}, // breg6-8, deref
		{"a loop that ends", []byte{0x35, 0x31, 0x1c, 0x12, 0x28, 0xfa, 0xff, 0x23, 7}, 7},
	} {
		got, ok := Evaluate(c.expr, regs, memory)
		if !ok || got != c.want {
			t.Errorf("%s is %d (%v), want %d", c.name, got, ok, c.want)
		}
	}
	for name, expr := range map[string][]byte{
		"empty": {}, "for ever": {0x2f, 0xfd, 0xff}, "out of its code": {0x2f, 0xff, 0x7f}, "an unknown operation": {0xff},
		"of no memory": {0x30, 0x06}, "cut off": {0x0e, 1}, "without operands": {0x22}, "of an unknown register": {Breg0 + 17, 0}, "of a place": {Lit0, StackValue}, "of a register's contents": {Reg0}, "too much pushed": []byte(strings.Repeat("\x30", 100)),
	} {
		if v, ok := Evaluate(expr, regs, memory); ok {
			t.Errorf("an expression that is %s has value %d", name, v)
		}
	}
}

// An expression is bounded in time and space, and its location does not depend
// on bytes after it.
func FuzzExpression(f *testing.F) {
	f.Add([]byte{0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22})
	f.Add([]byte{0x35, 0x31, 0x1c, 0x12, 0x28, 0xfa, 0xff, 0x23, 7})
	f.Add([]byte{Fbreg, 0x6c, Deref, StackValue})
	f.Add([]byte{Reg0, PieceOf, 8, Const1u, 5, StackValue, PieceOf, 8})
	f.Add([]byte{EntryValue, 1, Reg0 + 5})
	f.Fuzz(func(t *testing.T, code []byte) {
		regs := make([]uint64, 17)
		v, ok := Evaluate(code, regs, words{0: 8, 8: 0})
		if again, ok2 := Evaluate(code, regs, words{0: 8, 8: 0}); v != again || ok != ok2 {
			t.Errorf("%d (%v), then %d (%v)", v, ok, again, ok2)
		}
		for _, scope := range []Scope{
			{Entry: true, CFA: Frame{Register: CFA}, FrameBase: []byte{CallFrameCFA}},
			{CFA: Frame{Register: sp, Offset: 16}, FrameBase: code},
		} {
			pieces, err := Locate(code, scope)
			if err == nil && (len(pieces) == 0 || len(pieces) > MaxPieces) {
				t.Errorf("%d pieces", len(pieces))
			}
			for _, p := range pieces {
				if len(p.Follow) > MaxFollow || p.Kind == InMemory && p.Register < CFA {
					t.Errorf("a piece %+v", p)
				}
			}
		}
	})
}
