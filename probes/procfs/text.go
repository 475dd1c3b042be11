package procfs

import "bytes"

// text is the unparsed rest of a file. Its methods parse from its front and
// allocate nothing.
type text []byte

// line removes and returns a line, without its end; false at the end.
func (t *text) line() (text, bool) {
	if len(*t) == 0 {
		return nil, false
	}
	i := bytes.IndexByte(*t, '\n')
	if i < 0 {
		l := *t
		*t = nil
		return l, true
	}
	l := (*t)[:i]
	*t = (*t)[i+1:]
	return l, true
}

func (t *text) space() {
	b := *t
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	*t = b
}

// word removes and returns what is before the next blank; empty at the end.
func (t *text) word() []byte {
	t.space()
	b := *t
	i := 0
	for i < len(b) && b[i] != ' ' && b[i] != '\t' {
		i++
	}
	*t = b[i:]
	return b[:i]
}

// skip removes n words.
func (t *text) skip(n int) {
	for range n {
		t.word()
	}
}

// uint parses a decimal number; false, and nothing is removed, if there is
// none. A number beyond 64 bits wraps, as the kernel's own counters do.
func (t *text) uint() (uint64, bool) {
	t.space()
	b := *t
	var v uint64
	i := 0
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		v = v*10 + uint64(b[i]-'0')
		i++
	}
	*t = b[i:]
	return v, i > 0
}

// count is uint, 0 if there is none.
func (t *text) count() uint64 {
	v, _ := t.uint()
	return v
}

// decimal parses a number such as 12.34.
func (t *text) decimal() (float64, bool) {
	whole, ok := t.uint()
	if !ok {
		return 0, false
	}
	v := float64(whole)
	if len(*t) > 0 && (*t)[0] == '.' {
		*t = (*t)[1:]
		digits := len(*t)
		fraction, _ := t.uint()
		scale := 1.0
		for range digits - len(*t) {
			scale *= 10
		}
		v += float64(fraction) / scale
	}
	return v, true
}

// after returns what follows prefix, on any line; false if it does not occur.
func (t text) after(prefix string) (text, bool) {
	if len(t) < len(prefix) {
		return nil, false
	}
	i := bytes.Index(t, []byte(prefix))
	if i < 0 {
		return nil, false
	}
	return t[i+len(prefix):], true
}
