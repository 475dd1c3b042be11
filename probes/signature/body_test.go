package signature

import (
	"encoding/binary"
	"errors"
	"reflect"
	"testing"
)

// Where a variable is in the middle of a function, by its location expression.
func TestLocate(t *testing.T) {
	at := Frame{Register: dwSP, Offset: 32}
	cfaBase, rbpBase := []byte{opCallFrameCFA}, []byte{opReg0 + 6}
	address := binary.LittleEndian.AppendUint64([]byte{opAddr}, 0x1000)
	for _, c := range []struct {
		name       string
		expr, base []byte
		want       []piece
		err        error
	}{
		{"in a register", []byte{opReg0 + 3}, nil, []piece{{kind: inRegister, reg: 3}}, nil},
		{"in the frame", []byte{opFbreg, 0x6c}, cfaBase, []piece{{kind: inMemory, reg: dwSP, offset: 12}}, nil},
		{"in clang's frame", []byte{opFbreg, 0x6c}, rbpBase, []piece{{kind: inMemory, reg: 6, offset: -20}}, nil},
		{"behind a pointer in the frame", []byte{opFbreg, 0x68, opDeref}, cfaBase, []piece{{kind: inMemory, reg: dwSP, follow: []int64{8}}}, nil},
		{"a sum", []byte{opBreg0 + 3, 1, opStackValue}, nil, []piece{{kind: computed, reg: 3, offset: 1}}, nil},
		{"a constant", []byte{opLit0 + 7, opStackValue}, nil, []piece{{kind: constant, offset: 7}}, nil},
		{"in two registers", []byte{opReg0, opPiece, 8, opReg0 + 3, opPiece, 8}, nil, []piece{{kind: inRegister, reg: 0, size: 8}, {kind: inRegister, reg: 3, at: 8, size: 8}}, nil},
		{"what was passed", []byte{opEntryValue, 1, opReg0 + dwDI, opStackValue}, nil, nil, errEntryOnly},
		{"static", address, nil, nil, errStatic},
		{"computed", []byte{opBreg0 + 3, 0, opLit0 + 2, 0x2b, opStackValue}, nil, nil, errComputed},
		{"in a frame without a base", []byte{opFbreg, 0}, nil, nil, errUnframed},
		{"nowhere", []byte{opPiece, 8}, nil, nil, ErrNotLive},
	} {
		got, err := locate(c.expr, c.base, at)
		if !errors.Is(err, c.err) || c.err == nil && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// A constant is cut to the bits that are asked for, with its sign.
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
