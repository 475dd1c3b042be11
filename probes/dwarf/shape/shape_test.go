package shape

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// object returns the bytes of numbers of fixed sizes, one after the other.
func object(t *testing.T, numbers ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, n := range numbers {
		if err := binary.Write(&b, binary.LittleEndian, n); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestObjectsAsJSON(t *testing.T) {
	int32s := &Shape{Kind: Signed, Size: 4}
	colors := map[int64]string{0: "RED", 1: "GREEN"}
	long := [2]uint64{0xc000000000000000, 0x4000} // 3.0 as long double: 1.5 * 2^1
	for _, c := range []struct {
		shape  *Shape
		object []byte
		want   string
	}{
		{int32s, object(t, int32(-5)), `-5`},
		{&Shape{Kind: Unsigned, Size: 8}, object(t, uint64(math.MaxUint64)), `18446744073709551615`},
		{&Shape{Kind: Unsigned, Size: 1}, object(t, uint8(200)), `200`},
		{&Shape{Kind: Signed, Size: 1}, object(t, uint8(200)), `-56`},
		{&Shape{Kind: Bool, Size: 1}, object(t, uint8(2)), `true`},
		{&Shape{Kind: Bool, Size: 1}, object(t, uint8(0)), `false`},
		{&Shape{Kind: Enum, Size: 4, Names: colors}, object(t, int32(1)), `"GREEN"`},
		{&Shape{Kind: Pointer, Size: 8}, object(t, uint64(0x7fff1234)), `"0x7fff1234"`},
		{&Shape{Kind: Pointer, Size: 8}, object(t, uint64(0)), `"0x0"`},
		{&Shape{Kind: Float, Size: 4}, object(t, float32(0.1)), `0.1`},
		{&Shape{Kind: Float, Size: 8}, object(t, -2.5e300), `-2.5e+300`},
		{&Shape{Kind: Float, Size: 8}, object(t, 1e9), `1000000000`},
		{&Shape{Kind: Float, Size: 8}, object(t, math.Inf(-1)), `"-Infinity"`},
		{&Shape{Kind: Float, Size: 8}, object(t, math.NaN()), `"NaN"`},
		{&Shape{Kind: Float, Size: 16}, object(t, long), `3`},
		{&Shape{Kind: Chars, Size: 6}, []byte("a\"\\\n\x01\x00"), `"a\"\\\n\u0001"`},
		{&Shape{Kind: Chars, Size: 4}, []byte("\xc3\xa4\xffz"), `"ä` + "\ufffd" + `z"`},
		{&Shape{Kind: Chars, Size: 4}, []byte("full"), `"full"`},
		{&Shape{Kind: Absent, Size: 4}, object(t, int32(1)), `null`},
		{int32s, []byte{1}, `null`},
		{&Shape{Kind: Signed, Size: 4, Bit: 3, Bits: 2}, object(t, uint32(0b11000)), `-1`},
		{&Shape{Kind: Unsigned, Size: 4, Bit: 3, Bits: 2}, object(t, uint32(0b11000)), `3`},
		{&Shape{Kind: Array, Size: 12, Elem: int32s, Count: 3}, object(t, int32(1), int32(-2), int32(3)), `[1, -2, 3]`},
		{&Shape{Kind: Array, Elem: int32s}, nil, `[]`},
		{&Shape{Kind: Struct, Size: 24, Fields: []Field{
			{"x", 0, int32s},
			{"at", 4, &Shape{Kind: Array, Size: 8, Elem: int32s, Count: 2}},
			{"in", 12, &Shape{Kind: Struct, Size: 4, Fields: []Field{{"a\"b", 0, int32s}}}},
			{"end", 24, int32s},
		}}, object(t, int32(1), int32(2), int32(3), int32(4), int64(0)), `{"x": 1, "at": [2, 3], "in": {"a\"b": 4}, "end": null}`},
		{&Shape{Kind: Struct}, nil, `{}`},
	} {
		got := string(c.shape.AppendJSON(nil, c.object))
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.shape, got, c.want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%+v: %s is no JSON", c.shape, got)
		}
	}
}

// TestTextsAreReadBack: what a program of another maker reads is the text.
func TestTextsAreReadBack(t *testing.T) {
	for c := range 256 {
		text := "a" + string(rune(c)) + "é\u2028"
		var back string
		if err := json.Unmarshal(appendText(nil, text), &back); err != nil || back != text {
			t.Errorf("%q: %q (%v)", text, back, err)
		}
	}
}

func TestPrintingDoesNotAllocate(t *testing.T) {
	s := &Shape{Kind: Struct, Size: 24, Fields: []Field{
		{"n", 0, &Shape{Kind: Signed, Size: 4}}, {"name", 4, &Shape{Kind: Chars, Size: 12}}, {"load", 16, &Shape{Kind: Float, Size: 8}},
	}}
	in, buffer := object(t, int32(7), [12]byte{'a', 'b'}, 0.25), []byte(strings.Repeat(" ", 256))
	if n := testing.AllocsPerRun(100, func() { buffer = s.AppendJSON(buffer[:0], in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := string(buffer); got != `{"n": 7, "name": "ab", "load": 0.25}` {
		t.Error(got)
	}
}
