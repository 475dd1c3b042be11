package replay

import (
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
)

// object scans one JSON object. Keys and values are slices of the text or,
// where they contain escapes, of a scratch buffer; it allocates nothing as long
// as that is large enough.
type object struct {
	b       []byte // what is still to be scanned
	scratch []byte
	first   bool
}

// open begins an object; false if line is none.
func (o *object) open(line []byte) bool {
	o.b, o.scratch, o.first = line, o.scratch[:0], true
	return o.skipByte('{')
}

// next returns the next member. more is false after the last; ok is false if
// the text is no JSON object.
func (o *object) next() (key []byte, value cell, more, ok bool) {
	if o.skipByte('}') {
		o.space()
		return nil, cell{}, false, len(o.b) == 0
	}
	if !o.first && !o.skipByte(',') {
		return nil, cell{}, false, false
	}
	o.first = false
	o.space()
	if key, ok = o.string(); !ok || !o.skipByte(':') {
		return nil, cell{}, false, false
	}
	o.space()
	value, ok = o.value()
	return key, value, ok, ok
}

func (o *object) space() {
	for len(o.b) > 0 && (o.b[0] == ' ' || o.b[0] == '\t' || o.b[0] == '\r' || o.b[0] == '\n') {
		o.b = o.b[1:]
	}
}

// skipByte skips c, and space before it, if it is next.
func (o *object) skipByte(c byte) bool {
	o.space()
	if len(o.b) == 0 || o.b[0] != c {
		return false
	}
	o.b = o.b[1:]
	return true
}

func (o *object) value() (cell, bool) {
	if len(o.b) == 0 {
		return cell{}, false
	}
	switch o.b[0] {
	case '"':
		s, ok := o.string()
		return cell{quoted, s}, ok
	case 't':
		return o.literal("true", boolean)
	case 'f':
		return o.literal("false", boolean)
	case 'n':
		return o.literal("null", absent)
	case '{', '[':
		return o.nested()
	}
	return o.number()
}

func (o *object) literal(word string, k kind) (cell, bool) {
	if len(o.b) < len(word) || string(o.b[:len(word)]) != word {
		return cell{}, false
	}
	c := cell{k, o.b[:len(word)]}
	o.b = o.b[len(word):]
	return c, true
}

// number scans -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (o *object) number() (cell, bool) {
	b, i := o.b, 0
	run := func() bool {
		start := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !run() {
		return cell{}, false
	}
	if i < len(b) && b[i] == '.' {
		if i++; !run() {
			return cell{}, false
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !run() {
			return cell{}, false
		}
	}
	o.b = b[i:]
	return cell{number, b[:i]}, true
}

// nested scans an array or object and returns its text.
func (o *object) nested() (cell, bool) {
	depth, inString := 0, false
	for i := 0; i < len(o.b); i++ {
		switch c := o.b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				text := o.b[:i+1]
				o.b = o.b[i+1:]
				return cell{nested, text}, json.Valid(text)
			}
		}
	}
	return cell{}, false
}

// string scans a string and returns it unescaped; bytes that are not UTF-8
// become U+FFFD, as in encoding/json.
func (o *object) string() ([]byte, bool) {
	if len(o.b) == 0 || o.b[0] != '"' {
		return nil, false
	}
	for i := 1; i < len(o.b); i++ {
		switch c := o.b[i]; {
		case c == '"':
			s := o.b[1:i]
			o.b = o.b[i+1:]
			return s, true
		case c == '\\' || c >= utf8.RuneSelf:
			return o.unescape(i)
		case c < ' ':
			return nil, false
		}
	}
	return nil, false
}

// unescape is string for one whose first n bytes, with the opening quote, need
// no conversion.
func (o *object) unescape(n int) ([]byte, bool) {
	start := len(o.scratch)
	o.scratch = append(o.scratch, o.b[1:n]...)
	b := o.b[n:]
	for len(b) > 0 {
		switch c := b[0]; {
		case c == '"':
			o.b = b[1:]
			return o.scratch[start:], true
		case c < ' ':
			return nil, false
		case c == '\\':
			r, size := escape(b)
			if size == 0 {
				return nil, false
			}
			o.scratch = utf8.AppendRune(o.scratch, r)
			b = b[size:]
		case c < utf8.RuneSelf:
			o.scratch = append(o.scratch, c)
			b = b[1:]
		default:
			r, size := utf8.DecodeRune(b)
			o.scratch = utf8.AppendRune(o.scratch, r)
			b = b[size:]
		}
	}
	return nil, false
}

// escape decodes an escape sequence and returns its length, 0 if it is invalid.
// An unpaired surrogate is U+FFFD.
func escape(b []byte) (r rune, size int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, ok := unicodeEscape(b)
		if !ok {
			return 0, 0
		}
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if low, ok := unicodeEscape(b[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return utf8.RuneError, 6
	}
	return 0, 0
}

func unicodeEscape(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
