package shape

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"endoscope/probes/codegen"
)

// Kind is how the bytes of an object are printed.
type Kind uint8

// The kinds of shapes.
const (
	Absent   Kind = iota // the bytes are not known: null
	Signed               // a number
	Unsigned             // a number
	Bool                 // true or false
	Enum                 // a text: the name of a number; of flags the names, as READ|WRITE
	Float                // a number; "NaN", "Infinity" and "-Infinity" are texts
	Pointer              // a text: the address in hexadecimal
	Chars                // a text: characters up to the first zero byte
	Array                // Count elements of the shape Elem
	Struct               // Fields, also of a union
)

// Shape is the shape of an object.
type Shape struct {
	Kind Kind
	Size int // in bytes
	// Bit and Bits locate a bit field from the first bit of the object on; Bits 0: it is
	// none.
	Bit, Bits int
	Names     map[int64]string // of an Enum
	NoSign    bool             // of an Enum: its numbers are unsigned
	Elem      *Shape
	Count     int
	Fields    []Field
}

// Field is a field of a struct.
type Field struct {
	Name   string
	Offset int
	Shape  *Shape
}

// extendedSize is the size of x86's long double, of which 10 bytes are used.
const extendedSize = 16

// AppendJSON appends an object as JSON to a text. Bytes that are not there are null.
func (s *Shape) AppendJSON(to, object []byte) []byte {
	if len(object) < s.Size || s.Kind == Absent {
		return append(to, "null"...)
	}
	switch s.Kind {
	case Signed:
		return strconv.AppendInt(to, s.signed(object), 10)
	case Unsigned:
		return strconv.AppendUint(to, s.unsigned(object), 10)
	case Bool:
		return strconv.AppendBool(to, s.unsigned(object) != 0)
	case Pointer:
		to = append(to, `"0x`...)
		to = strconv.AppendUint(to, s.unsigned(object), 16)
		return append(to, '"')
	case Enum:
		n := s.signed(object)
		if s.NoSign {
			n = int64(s.unsigned(object))
		}
		return appendText(to, codegen.EnumName(s.Names, n))
	case Float:
		return s.appendFloat(to, object)
	case Chars:
		return appendText(to, untilZero(object[:s.Size]))
	case Array:
		to = append(to, '[')
		for i := range s.Count {
			if i > 0 {
				to = append(to, ", "...)
			}
			to = s.Elem.AppendJSON(to, object[i*s.Elem.Size:])
		}
		return append(to, ']')
	}
	to = append(to, '{')
	for i := range s.Fields {
		f := &s.Fields[i]
		if i > 0 {
			to = append(to, ", "...)
		}
		to = append(appendText(to, f.Name), ": "...)
		to = f.Shape.AppendJSON(to, object[min(f.Offset, len(object)):])
	}
	return append(to, '}')
}

// unsigned returns the number in the first bytes of an object, or in a bit field.
func (s *Shape) unsigned(object []byte) uint64 {
	var word [8]byte
	copy(word[:], object[:min(s.Size, 8)])
	n := binary.LittleEndian.Uint64(word[:])
	if s.Bits == 0 {
		return n
	}
	return n >> s.Bit & (1<<s.Bits - 1)
}

func (s *Shape) signed(object []byte) int64 {
	bits := s.Bits
	if bits == 0 {
		bits = 8 * min(s.Size, 8)
	}
	unused := 64 - bits
	return int64(s.unsigned(object)<<unused) >> unused
}

func (s *Shape) appendFloat(to, object []byte) []byte {
	x, size := 0.0, 64
	switch s.Size {
	case 4:
		x, size = float64(math.Float32frombits(binary.LittleEndian.Uint32(object))), 32
	case 8:
		x = math.Float64frombits(binary.LittleEndian.Uint64(object))
	case extendedSize:
		x = extended(binary.LittleEndian.Uint64(object), binary.LittleEndian.Uint16(object[8:]))
	default:
		return append(to, "null"...)
	}
	switch {
	case math.IsNaN(x):
		return append(to, `"NaN"`...)
	case math.IsInf(x, 1):
		return append(to, `"Infinity"`...)
	case math.IsInf(x, -1):
		return append(to, `"-Infinity"`...)
	}
	format := byte('f') // as ECMAScript prints numbers
	if a := math.Abs(x); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(to, x, format, -1, size)
}

// extended returns x86's 80-bit floating-point number as the nearest float64.
func extended(fraction uint64, sign uint16) float64 {
	const bias, fractionBits = 16383, 63
	exponent := int(sign & 0x7fff)
	x := math.Ldexp(float64(fraction), exponent-bias-fractionBits)
	if exponent == 0x7fff {
		x = math.Inf(1)
		if fraction<<1 != 0 {
			x = math.NaN()
		}
	}
	if sign>>15 != 0 {
		x = -x
	}
	return x
}

func untilZero(text []byte) []byte {
	for i, c := range text {
		if c == 0 {
			return text[:i]
		}
	}
	return text
}

// appendText appends a JSON string. Bytes that are no UTF-8 become U+FFFD.
func appendText[T string | []byte](to []byte, text T) []byte {
	const hex = "0123456789abcdef"
	to = append(to, '"')
	for len(text) > 0 {
		c := text[0]
		if c >= utf8.RuneSelf {
			r, size := decodeRune(text)
			to = utf8.AppendRune(to, r)
			text = text[size:]
			continue
		}
		switch {
		case c == '"' || c == '\\':
			to = append(to, '\\', c)
		case c == '\n':
			to = append(to, `\n`...)
		case c == '\t':
			to = append(to, `\t`...)
		case c == '\r':
			to = append(to, `\r`...)
		case c < ' ' || c == 0x7f:
			to = append(to, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			to = append(to, c)
		}
		text = text[1:]
	}
	return append(to, '"')
}

func decodeRune[T string | []byte](text T) (rune, int) {
	var first [utf8.UTFMax]byte
	return utf8.DecodeRune(first[:copy(first[:], text)])
}
