package signature

import (
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"endoscope/probes/dwarf/op"
)

// cfaBase is the frame base that most compilers emit.
var cfaBase = []byte{op.CallFrameCFA}

// TestLocate: the location of a variable inside a function, by its location
// expression.
func TestLocate(t *testing.T) {
	at := Frame{Register: dwSP, Offset: 32}
	rbpBase := []byte{op.Reg0 + 6}
	address := binary.LittleEndian.AppendUint64([]byte{op.Addr}, 0x1000)
	for _, c := range []struct {
		name       string
		expr, base []byte
		want       []op.Piece
		err        error
	}{
		{"in a register", []byte{op.Reg0 + 3}, nil, []op.Piece{{Kind: op.InRegister, Register: 3}}, nil},
		{"in the frame", []byte{op.Fbreg, 0x6c}, cfaBase, []op.Piece{{Kind: op.InMemory, Register: dwSP, Offset: 12}}, nil},
		{"in clang's frame", []byte{op.Fbreg, 0x6c}, rbpBase, []op.Piece{{Kind: op.InMemory, Register: 6, Offset: -20}}, nil},
		{"behind a pointer in the frame", []byte{op.Fbreg, 0x68, op.Deref}, cfaBase, []op.Piece{{Kind: op.InMemory, Register: dwSP, Follow: []int64{8}}}, nil},
		{"a sum", []byte{op.Breg0 + 3, 1, op.StackValue}, nil, []op.Piece{{Kind: op.Computed, Register: 3, Offset: 1}}, nil},
		{"a constant", []byte{op.Lit0 + 7, op.StackValue}, nil, []op.Piece{{Kind: op.Constant, Offset: 7}}, nil},
		{"in two registers", []byte{op.Reg0, op.PieceOf, 8, op.Reg0 + 3, op.PieceOf, 8}, nil, []op.Piece{{Kind: op.InRegister, Register: 0, Size: 8}, {Kind: op.InRegister, Register: 3, At: 8, Size: 8}}, nil},
		{"what was passed", []byte{op.EntryValue, 1, op.Reg0 + dwDI, op.StackValue}, nil, nil, errEntryOnly},
		{"static", address, nil, nil, errStatic},
		{"computed", []byte{op.Breg0 + 3, 0, op.Lit0 + 2, 0x2b, op.StackValue}, nil, nil, errComputed},
		{"in a frame without a base", []byte{op.Fbreg, 0}, nil, nil, errUnframed},
		{"nowhere", []byte{op.PieceOf, 8}, nil, nil, ErrNotLive},
	} {
		got, err := locate(c.expr, c.base, at)
		if !errors.Is(err, c.err) || c.err == nil && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// A constant is cut to the requested bits, with its sign.
func TestBitsOf(t *testing.T) {
	for _, c := range []struct {
		n, from, bits int64
		signed        bool
		want          int64
	}{{0xffffffff, 0, 32, true, -1}, {0xffffffff, 0, 32, false, 0xffffffff}, {0x1234, 8, 8, false, 0x12}, {-1, 0, 64, false, -1}, {5, 70, 8, false, 5}} {
		if got := bitsOf(c.n, c.from, c.bits, c.signed); got != c.want {
			t.Errorf("%d bits of %#x from %d on: %d, want %d", c.bits, c.n, c.from, got, c.want)
		}
	}
}
