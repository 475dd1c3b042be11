package replay

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// scan reads an object into a map, and reports whether it is one.
func scan(line string) (map[string]cell, bool) {
	var o object
	if !o.open([]byte(line)) {
		return nil, false
	}
	m := map[string]cell{}
	for {
		key, value, more, ok := o.next()
		if !ok {
			return nil, false
		}
		if !more {
			return m, true
		}
		m[string(key)] = value
	}
}

func checkAgainstJSON(t *rapid.T, line string) {
	var want map[string]json.RawMessage
	valid := json.Unmarshal([]byte(line), &want) == nil && want != nil
	got, ok := scan(line)
	if ok != valid {
		t.Fatalf("%q: an object %v, want %v", line, ok, valid)
	}
	if !ok {
		return
	}
	if len(got) != len(want) {
		t.Fatalf("%q: %d members, want %d", line, len(got), len(want))
	}
	for key, raw := range want {
		c, found := got[key]
		if !found {
			t.Fatalf("%q: no member %q", line, key)
		}
		text := string(raw)
		var k kind
		switch raw[0] {
		case '"':
			k = quoted
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				t.Fatal(err)
			}
			text = s
		case '{', '[':
			k = nested
		case 't', 'f':
			k = boolean
		case 'n':
			k = absent
		default:
			k = number
		}
		if c.kind != k || string(c.text) != text {
			t.Fatalf("%q: %q is %d %q, want %d %q", line, key, c.kind, c.text, k, text)
		}
	}
}

func TestObjectAgainstOracle(t *testing.T) {
	value := rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Float64Range(-1e300, 1e300), func(f float64) any { return f }),
		rapid.Map(rapid.Int64(), func(i int64) any { return i }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.SampledFrom([]any{nil, []any{}, map[string]any{"a": []any{"]", `"`, 1.5}}, "\u2028\x00\U0001F600"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		b, err := json.Marshal(rapid.MapOf(rapid.String(), value).Draw(t, "object"))
		if err != nil {
			t.Fatal(err)
		}
		checkAgainstJSON(t, string(b))
		// Also with one byte changed, which is often invalid JSON.
		i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		b[i] = rapid.Byte().Draw(t, "byte")
		checkAgainstJSON(t, string(b))
	})
}

func TestObjectTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{
			"{", "}", "[", "]", ",", ":", `"`, `"a"`, `"b"`, `\`, `\u00e9`, `\ud83d`, `\ude00`, `\u12`, `\n`, `\x`,
			"0", "-", "1.5", "e+9", "01", ".", "true", "false", "null", "nul", " ", "\t", "\n", "\x01", "é", "\xff",
		})).Draw(t, "pieces")
		line := strings.Join(pieces, "")
		checkAgainstJSON(t, line)
		checkAgainstJSON(t, `{"k":`+line+`}`)
		checkAgainstJSON(t, `{"k":"`+line+`"}`)
	})
}
