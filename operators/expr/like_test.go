package expr

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLike(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		yes, not []string
	}{
		{"", []string{""}, []string{"a"}},
		{"%", []string{"", "a\nb"}, nil},
		{"%%", []string{"", "abc"}, nil},
		{"abc", []string{"abc"}, []string{"", "ab", "abcd", "xabc", "ABC"}},
		{"ab%", []string{"ab", "abc"}, []string{"xab", "a"}},
		{"%ab", []string{"ab", "xab", "abab"}, []string{"abx"}},
		{"%ab%", []string{"ab", "xabx"}, []string{"a b"}},
		{"a%b", []string{"ab", "axxb", "abb"}, []string{"a", "b", "abx"}},
		{"%a%b%", []string{"ab", "xaxbx"}, []string{"ba"}},
		{"_", []string{"a", "ñ", "\n"}, []string{"", "ab"}},
		{"_%", []string{"a", "ñb"}, []string{""}},
		{"%_", []string{"a", "bñ"}, []string{""}},
		{"a_c", []string{"abc", "añc"}, []string{"ac", "abbc"}},
		{"%a_", []string{"ab", "aab", "xaab"}, []string{"a"}},
		{`50\%`, []string{"50%"}, []string{"500", `50\%`}},
		{`a\_b`, []string{"a_b"}, []string{"acb"}},
		{`a\\b`, []string{`a\b`}, []string{`a\\b`}},
		{`%\%%`, []string{"%", "a%b"}, []string{"ab"}},
		{`a\`, []string{`a\`}, []string{"a"}},
		{`\a`, []string{"a"}, []string{`\a`}},
	} {
		match := compileLike(c.pattern)
		for _, s := range c.yes {
			if !match(s) {
				t.Errorf("%q is not like %q", s, c.pattern)
			}
		}
		for _, s := range c.not {
			if match(s) {
				t.Errorf("%q is like %q", s, c.pattern)
			}
		}
	}
}

// TestLikeEqualsRegexp: a pattern means the regular expression with .* for %
// and . for _.
func TestLikeEqualsRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune(`ab%_\ñ`)), 0, 8, -1).Draw(t, "pattern")
		s := rapid.StringOfN(rapid.SampledFrom([]rune(`ab%_\ñ`)), 0, 10, -1).Draw(t, "text")
		var re strings.Builder
		re.WriteString(`(?s)\A`)
		for runes := []rune(pattern); len(runes) > 0; runes = runes[1:] {
			switch c := runes[0]; {
			case c == '%':
				re.WriteString(".*")
			case c == '_':
				re.WriteString(".")
			case c == '\\' && len(runes) > 1:
				runes = runes[1:]
				re.WriteString(regexp.QuoteMeta(string(runes[0])))
			default:
				re.WriteString(regexp.QuoteMeta(string(c)))
			}
		}
		re.WriteString(`\z`)
		if got, want := compileLike(pattern)(s), regexp.MustCompile(re.String()).MatchString(s); got != want {
			t.Fatalf("%q like %q: %v, want %v", s, pattern, got, want)
		}
	})
}

// TestLikeIsNotExponential would not end if every % were tried again.
func TestLikeIsNotExponential(t *testing.T) {
	if compileLike(strings.Repeat("%a_", 30) + "b")(strings.Repeat("a", 5000)) {
		t.Error("matched")
	}
}

// TestPatternCache: patterns that are not constant are compiled as they come, more
// of them than are kept.
func TestPatternCache(t *testing.T) {
	compiled := 0
	c := patternCache[string]{compile: func(p string) (string, error) { compiled++; return strings.ToUpper(p), nil }}
	for range 2 {
		for k := range maxPatterns {
			p := strings.Repeat("x", k)
			if got, err := c.get(p); err != nil || got != strings.ToUpper(p) {
				t.Fatal(got, err)
			}
		}
	}
	if compiled != maxPatterns {
		t.Errorf("compiled %d of %d patterns", compiled, maxPatterns)
	}
	if _, err := c.get("one more"); err != nil || len(c.compiled) > maxPatterns {
		t.Errorf("%d patterns kept, %v", len(c.compiled), err)
	}
}
