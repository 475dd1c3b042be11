package op

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"
)

// Locations of an object at the entry of a function, and in the middle of one.
func TestLocate(t *testing.T) {
	cfaBase := []byte{CallFrameCFA}
	entry := Scope{Entry: true, CFA: Frame{Register: CFA}, FrameBase: cfaBase}
	middle := Scope{CFA: Frame{Register: sp, Offset: 32}, FrameBase: cfaBase}
	clang := Scope{CFA: middle.CFA, FrameBase: []byte{Reg0 + bp}}
	offset := Scope{CFA: middle.CFA, FrameBase: []byte{Breg0 + bp, 8}}
	address := binary.LittleEndian.AppendUint64([]byte{Addr}, 0x1000)
	one := func(p Piece) []Piece { return []Piece{p} }
	for _, c := range []struct {
		name  string
		code  []byte
		scope Scope
		want  []Piece
		err   error
	}{
		{"in a register", []byte{Reg0 + 3}, middle, one(Piece{Kind: InRegister, Register: 3}), nil},
		{"in the frame, at the entry", []byte{Fbreg, 0x6c}, entry, one(Piece{Kind: InMemory, Register: CFA, Offset: -20}), nil},
		{"in the frame", []byte{Fbreg, 0x6c}, middle, one(Piece{Kind: InMemory, Register: sp, Offset: 12}), nil},
		{"in clang's frame", []byte{Fbreg, 0x6c}, clang, one(Piece{Kind: InMemory, Register: bp, Offset: -20}), nil},
		{"in a frame behind a register", []byte{Fbreg, 0x6c}, offset, one(Piece{Kind: InMemory, Register: bp, Offset: -12}), nil},
		{"in clang's frame, at the entry", []byte{Fbreg, 0}, Scope{Entry: true, FrameBase: clang.FrameBase}, nil, ErrFrameBase},
		{"in a frame without a base", []byte{Fbreg, 0}, Scope{}, nil, ErrFrameBase},
		{"at the frame address", []byte{CallFrameCFA, PlusUconst, 8}, middle, one(Piece{Kind: InMemory, Register: sp, Offset: 40}), nil},
		{"behind a pointer", []byte{Fbreg, 0x68, Deref, PlusUconst, 4}, middle, one(Piece{Kind: InMemory, Register: sp, Offset: 4, Follow: []int64{8}}), nil},
		{"behind a pointer, at the entry", []byte{Fbreg, 0x68, Deref}, entry, nil, ErrOperation},
		{"behind too many pointers", append([]byte{Fbreg, 0}, bytes.Repeat([]byte{Deref}, MaxFollow+1)...), middle, nil, ErrOperation},
		{"a sum", []byte{Breg0 + 3, 1, StackValue}, middle, one(Piece{Kind: Computed, Register: 3, Offset: 1}), nil},
		{"a sum, at the entry", []byte{Breg0 + 3, 1, StackValue}, entry, nil, ErrOperation},
		{"a register's value, at the entry", []byte{Breg0 + 3, 0, StackValue}, entry, one(Piece{Kind: InRegister, Register: 3}), nil},
		{"a constant", []byte{Lit0 + 7, PlusUconst, 1, StackValue}, middle, one(Piece{Kind: Constant, Offset: 8}), nil},
		{"an implicit constant", []byte{ImplicitValue, 2, 1, 2}, middle, one(Piece{Kind: Constant, Offset: 0x201}), nil},
		{"an implicit constant of three bytes", []byte{ImplicitValue, 3, 1, 2, 3}, middle, nil, ErrOperation},
		{"in two registers", []byte{Reg0, PieceOf, 8, Reg0 + 3, PieceOf, 8}, middle,
			[]Piece{{Kind: InRegister, Size: 8}, {Kind: InRegister, Register: 3, At: 8, Size: 8}}, nil},
		{"passed, at the entry", []byte{EntryValue, 1, Reg0 + 5}, entry, one(Piece{Kind: InMemory, Register: 5}), nil},
		{"passed, as GNU says it", []byte{GNUEntryValue, 1, Reg0 + 5, StackValue}, entry, one(Piece{Kind: InRegister, Register: 5}), nil},
		{"passed", []byte{EntryValue, 1, Reg0 + 5, StackValue}, middle, nil, ErrEntryValue},
		{"passed to what was passed", []byte{EntryValue, 3, EntryValue, 1, Reg0}, entry, nil, ErrEntryValue},
		{"static", address, middle, nil, ErrAddress},
		{"static, by an index", []byte{Addrx, 3}, middle, nil, ErrAddress},
		{"at a constant address", []byte{Const1u, 64}, middle, nil, ErrAddress},
		{"computed", []byte{Breg0 + 3, 0, Lit0 + 2, Gt, StackValue}, middle, nil, ErrOperation},
		{"in a vector register's frame", []byte{Breg0 + 17, 0}, middle, nil, ErrOperation},
		{"nowhere", []byte{PieceOf, 8}, middle, nil, ErrNowhere},
		{"in nothing", nil, middle, nil, ErrNowhere},
		{"cut short", []byte{Breg0 + 3, 0x80}, middle, nil, ErrDamaged},
		{"unknown", []byte{0xe0}, middle, nil, ErrOperation},
		{"in too many pieces", bytes.Repeat([]byte{Reg0, PieceOf, 1}, MaxPieces+1), middle, nil, ErrOperation},
	} {
		got, err := Locate(c.code, c.scope)
		if !errors.Is(err, c.err) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, got, err, c.want, c.err)
		}
	}
}
