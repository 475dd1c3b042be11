package leb128

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

func TestWhatIsAppendedIsRead(t *testing.T) {
	for _, v := range []int64{0, 1, 0x3f, 0x40, 0x7f, 0x80, 1 << 20, math.MaxInt64, -1, -0x40, -0x41, -0x80, math.MinInt64} {
		r := NewReader(AppendSleb(AppendUleb(nil, uint64(v)), v))
		if got := r.Uleb(); got != uint64(v) {
			t.Errorf("Uleb() = %#x, want %#x", got, uint64(v))
		}
		if got := r.Sleb(); got != v || r.Failed() || r.Len() != 0 {
			t.Errorf("Sleb() = %d (failed %v, %d bytes left), want %d", got, r.Failed(), r.Len(), v)
		}
	}
}

func TestPutUlebFillsItsRoom(t *testing.T) {
	b := make([]byte, 3)
	if !PutUleb(b, 0x10) || !bytes.Equal(b, []byte{0x90, 0x80, 0}) {
		t.Errorf("PutUleb wrote % x", b)
	}
	if PutUleb(b[:1], 0x80) {
		t.Error("PutUleb says that 128 fits into one byte")
	}
}

func TestReadsOfFixedSize(t *testing.T) {
	r := NewReader([]byte{0xff, 0xfe, 0xff, 3, 'a', 'b', 'c', 'd', 0, 9})
	if v := r.Int(1); v != -1 {
		t.Errorf("Int(1) = %d", v)
	}
	if v := r.Uint(2); v != 0xfffe {
		t.Errorf("Uint(2) = %#x", v)
	}
	if b := r.Block(); string(b) != "abc" {
		t.Errorf("Block() = %q", b)
	}
	if s := r.String(); s != "d" {
		t.Errorf("String() = %q", s)
	}
	if r.Jump(-1); r.Byte() != 0 || r.Byte() != 9 || r.Failed() {
		t.Error("Jump(-1) is not before the string's end")
	}
}

func TestReaderFailsAtTheEnd(t *testing.T) {
	for name, read := range map[string]func(*Reader){
		"Byte":      func(r *Reader) { r.Bytes(2); r.Byte() },
		"Uint":      func(r *Reader) { r.Uint(4) },
		"Int":       func(r *Reader) { r.Int(8) },
		"Uleb":      func(r *Reader) { r.Uleb() },
		"Sleb":      func(r *Reader) { r.Sleb() },
		"Block":     func(r *Reader) { r.Block() },
		"String":    func(r *Reader) { _ = r.String() },
		"Skip":      func(r *Reader) { r.Skip(math.MaxUint64) },
		"Jump":      func(r *Reader) { r.Jump(3) },
		"Jump back": func(r *Reader) { r.Jump(math.MinInt64) },
	} {
		r := NewReader([]byte{0x80, 0x80})
		if read(&r); !r.Failed() || r.Len() != 0 || r.Uleb() != 0 || r.Uint(1) != 0 {
			t.Errorf("%s: failed %v, %d bytes left", name, r.Failed(), r.Len())
		}
	}
	long := NewReader(bytes.Repeat([]byte{0x80}, 100))
	if long.Uleb(); !long.Failed() {
		t.Error("a number of more than 64 bits is read")
	}
	if r := NewReaderAt([]byte{1}, 2); !r.Failed() {
		t.Error("a reader outside of its bytes has not failed")
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{0x80, 1, 0x7f, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		want, n := binary.Uvarint(b)
		if got := r.Uleb(); n > 0 && (got != want || r.Pos() != n) {
			t.Fatalf("Uleb() = %d of %d bytes, want %d of %d", got, r.Pos(), want, n)
		}
		for r.Len() > 0 {
			before := r.Len()
			switch b[0] % 5 {
			case 0:
				r.Sleb()
			case 1:
				r.Uint(int(b[0]) % 9)
				r.Byte()
			case 2:
				r.Block()
			case 3:
				_ = r.String()
			default:
				r.Int(8)
			}
			if r.Len() >= before {
				t.Fatalf("the reader does not move at %d of %d", r.Pos(), len(b))
			}
		}
	})
}
