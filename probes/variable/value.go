package variable

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
)

// kind says how the bytes of a variable are interpreted.
type kind uint8

const (
	signed kind = iota
	unsigned
	boolean
	real
	pointer
	text      // a character array, up to its NUL
	goString  // pointer and length
	cppString // the same, in libstdc++'s std::string
	cString   // pointer to characters, up to a NUL
)

// form is how a variable is read.
type form struct {
	kind kind
	size int // in bytes
	// names of the values of an enumeration.
	names map[int64]string
	// longer: a character array of which only a prefix is read.
	longer bool
}

// maxText limits the bytes read of a string, maxCString those of a
// NUL-terminated one: in the kernel the NUL takes room.
const (
	maxText    = 256
	maxCString = maxText - 1
)

// value is the value of a variable.
type value struct {
	number   int64 // of an integer, pointer, enumeration or boolean
	isNumber bool
	noSign   bool    // number is the bits of an unsigned one
	real     float64 // of a floating-point number, or the nearest to an integer
	isReal   bool
	text     string // in the syntax of its language
	isText   bool
	cut      bool // the text was longer than the limit
}

// signed returns the number as a BIGINT, if it fits.
func (v *value) signed() (int64, bool) { return v.number, v.isNumber && (v.number >= 0 || !v.noSign) }

// unsigned returns the bits of the number as a UBIGINT, if it fits.
func (v *value) unsigned() (int64, bool) {
	return v.number, v.isNumber && (v.number >= 0 || v.noSign)
}

// equal reports whether two values are the same; NaN equals NaN.
func (v value) equal(w value) bool {
	same := math.Float64bits(v.real) == math.Float64bits(w.real)
	v.real, w.real = 0, 0
	v.cut, w.cut = false, false
	return same && v == w
}

// formOf returns how a variable of a type is read, or a user-readable error.
func formOf(t dwarf.Type) (form, error) {
	size := int(t.Size())
	switch t := t.(type) {
	case *dwarf.TypedefType:
		return formOf(t.Type)
	case *dwarf.QualType:
		return formOf(t.Type)
	case *dwarf.BoolType:
		return whole(boolean, size, nil)
	case *dwarf.IntType, *dwarf.CharType:
		return whole(signed, size, nil)
	case *dwarf.UintType, *dwarf.UcharType:
		return whole(unsigned, size, nil)
	case *dwarf.PtrType:
		if e, ok := plain(t.Type).(interface{ Basic() *dwarf.BasicType }); ok && e.Basic().ByteSize == 1 && isChar(plain(t.Type)) {
			return form{kind: cString, size: 8}, nil
		}
		return form{kind: pointer, size: 8}, nil
	case *dwarf.AddrType:
		return form{kind: pointer, size: 8}, nil
	case *dwarf.EnumType:
		names := map[int64]string{}
		for _, v := range t.Val {
			if _, twice := names[v.Val]; !twice {
				names[v.Val] = v.Name
			}
		}
		return whole(signed, size, names)
	case *dwarf.FloatType:
		if size != 4 && size != 8 {
			return form{}, fmt.Errorf("it is a real number of %d bytes, and only 4 and 8 are read", size)
		}
		return form{kind: real, size: size}, nil
	case *dwarf.ArrayType:
		if e, err := formOf(t.Type); err == nil && e.size == 1 && (e.kind == signed || e.kind == unsigned) && size > 0 {
			return form{kind: text, size: min(size, maxText), longer: size > maxText}, nil
		}
		return form{}, fmt.Errorf("it is an array: ask for one of its elements, such as [0]")
	case *dwarf.StructType:
		if t.StructName == "string" && size == 16 && len(t.Field) == 2 && t.Field[0].Name == "str" {
			return form{kind: goString, size: 16}, nil
		}
		if strings.HasPrefix(t.StructName, "basic_string<char,") && fieldAt(t, "_M_dataplus") == 0 && fieldAt(t, "_M_string_length") == 8 {
			return form{kind: cppString, size: 16}, nil
		}
		return form{}, fmt.Errorf("it is a %s: ask for one of its fields%s", t.Kind, firstField(t))
	}
	return form{}, fmt.Errorf("values of its type (%s) are not read", spelled(t))
}

// isChar reports whether a type is C's char, signed or not.
func isChar(t dwarf.Type) bool {
	switch t.(type) {
	case *dwarf.CharType, *dwarf.UcharType:
		return strings.HasSuffix(t.Common().Name, "char") && !strings.HasPrefix(t.Common().Name, "unsigned") && !strings.HasPrefix(t.Common().Name, "signed")
	}
	return false
}

// fieldAt returns the offset of a field, or -1.
func fieldAt(t *dwarf.StructType, name string) int64 {
	for _, f := range t.Field {
		if f.Name == name {
			return f.ByteOffset
		}
	}
	return -1
}

// stringAt reads up to a NUL, at most to the end of the page in which the limit
// is; nil: unreadable. cut reports that no NUL was found.
func stringAt(at uint64, far func(addr uint64, n int) []byte) (out []byte, cut bool) {
	const page = 4096
	for out = []byte{}; len(out) <= maxCString; {
		n := min(maxCString+1-len(out), page-int(at%page))
		b := far(at, n)
		if b == nil {
			return nil, false
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return append(out, b[:end]...), false
		}
		out, at = append(out, b...), at+uint64(n)
	}
	return out[:maxCString], true
}

// unread reports whether v is a text that could not be read.
func (f form) unread(v value) bool {
	return readings[f.kind] != 0 && !v.isText && (f.kind != cString || v.number != 0)
}

func firstField(t *dwarf.StructType) string {
	for _, f := range t.Field {
		if f.Name != "" {
			return ", such as ." + f.Name
		}
	}
	return ""
}

func whole(k kind, size int, names map[int64]string) (form, error) {
	switch size {
	case 1, 2, 4, 8:
		return form{kind: k, size: size, names: names}, nil
	}
	return form{}, fmt.Errorf("it is a number of %d bytes, and only 1, 2, 4 and 8 are read", size)
}

// read decodes the bytes of a variable; far reads memory of its process.
func (f form) read(b []byte, far func(addr uint64, n int) []byte) (v value) {
	if len(b) < f.size {
		return v
	}
	b = b[:f.size]
	switch f.kind {
	case text:
		if end := bytes.IndexByte(b, 0); end >= 0 {
			b = b[:end]
		} else {
			v.cut = f.longer
		}
		v.text, v.isText = string(b), true
		return v
	case goString, cppString:
		at, n := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		if n == 0 {
			v.isText = true
		} else if got := far(at, int(min(n, maxText))); got != nil {
			v.text, v.isText, v.cut = string(got), true, n > maxText
		}
		return v
	}
	var word [8]byte
	copy(word[:], b)
	u := binary.LittleEndian.Uint64(word[:])
	v.isText = true
	switch f.kind {
	case real:
		v.real, v.isReal = math.Float64frombits(u), true
		if f.size == 4 {
			v.real = float64(math.Float32frombits(uint32(u)))
		}
		v.text = strconv.FormatFloat(v.real, 'g', -1, 8*f.size)
		return v
	case signed:
		shift := 64 - 8*f.size
		v.number = int64(u<<shift) >> shift
		v.text = strconv.FormatInt(v.number, 10)
		v.real = float64(v.number)
	case boolean:
		v.number, v.text = int64(u), "true"
		if u == 0 {
			v.text = "false"
		}
		v.real = float64(u)
	case cString:
		v.number, v.real, v.text, v.isText = int64(u), float64(u), "", false
		if u != 0 {
			b, cut := stringAt(u, far)
			v.text, v.isText, v.cut = string(b), b != nil, cut
		}
	case pointer:
		v.number, v.text = int64(u), "0x"+strconv.FormatUint(u, 16)
		v.real = float64(u)
	default:
		v.number, v.text = int64(u), strconv.FormatUint(u, 10)
		v.real = float64(u)
	}
	v.isNumber, v.isReal, v.noSign = true, true, f.kind != signed
	if f.names != nil {
		v.text = codegen.EnumName(f.names, v.number)
	}
	return v
}

// written decodes a record of variable.bpf.c, which contains a text as it was
// at the write.
func (f form) written(word, record []byte) (v value) {
	if readings[f.kind] == 0 {
		return f.read(word, nil)
	}
	if len(record) < int(unsafe.Sizeof(bpf.VariableWriteText{})) {
		return v
	}
	w := (*bpf.VariableWriteText)(unsafe.Pointer(&record[0]))
	if f.kind == cString {
		v.number, v.isNumber, v.noSign = int64(binary.LittleEndian.Uint64(word)), true, true
		v.real, v.isReal = float64(uint64(v.number)), true
	}
	if w.Length != ^uint64(0) {
		text := unsafe.Slice((*byte)(unsafe.Pointer(&w.Text)), len(w.Text))
		v.text, v.isText = string(text[:min(w.Length, uint64(len(w.Text)))]), true
		v.cut = w.Length > maxText || f.kind == cString && w.Length == maxCString // or it ends exactly there
	}
	return v
}
