package expr

import (
	"strings"
	"unicode/utf8"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// likeMatcher is a compiled LIKE pattern.
type likeMatcher func(s string) bool

// compileLike compiles a pattern of % (any text), _ (one character) and backslash, which
// makes the next character literal; a backslash at the end is literal. Patterns that are
// text with % at the ends become prefix, suffix, equality and substring tests.
func compileLike(pattern string) likeMatcher {
	tokens := likeTokens(pattern)
	var lead, trail bool
	inner := tokens
	if len(inner) > 0 && inner[0].kind == anyText {
		lead, inner = true, inner[1:]
	}
	if len(inner) > 0 && inner[len(inner)-1].kind == anyText {
		trail, inner = true, inner[:len(inner)-1]
	}
	if len(inner) == 0 {
		if lead {
			return func(string) bool { return true }
		}
		return func(s string) bool { return s == "" }
	}
	if len(inner) == 1 && inner[0].kind == literal {
		t := inner[0].text
		switch {
		case lead && trail:
			return func(s string) bool { return strings.Contains(s, t) }
		case lead:
			return func(s string) bool { return strings.HasSuffix(s, t) }
		case trail:
			return func(s string) bool { return strings.HasPrefix(s, t) }
		}
		return func(s string) bool { return s == t }
	}
	return func(s string) bool { return matchTokens(tokens, s) }
}

type tokenKind uint8

const (
	literal tokenKind = iota // text
	oneChar                  // _
	anyText                  // %
)

type likeToken struct {
	kind tokenKind
	text string
}

func likeTokens(pattern string) []likeToken {
	var tokens []likeToken
	var lit []byte
	flush := func() {
		if len(lit) > 0 {
			tokens = append(tokens, likeToken{literal, string(lit)})
			lit = lit[:0]
		}
	}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			lit = append(lit, pattern[i])
		case c == '%':
			flush()
			if len(tokens) == 0 || tokens[len(tokens)-1].kind != anyText {
				tokens = append(tokens, likeToken{kind: anyText})
			}
		case c == '_':
			flush()
			tokens = append(tokens, likeToken{kind: oneChar})
		default:
			lit = append(lit, c)
		}
	}
	flush()
	return tokens
}

// matchTokens matches greedily. On failure it resumes after the last %, extended by one
// character; earlier ones need no retry, so it takes at most len(tokens)·len(s) steps.
func matchTokens(tokens []likeToken, s string) bool {
	t, star, resume := 0, -1, ""
	for {
		if t < len(tokens) && tokens[t].kind == anyText {
			star, resume = t, s
			t++
			continue
		}
		if t == len(tokens) && s == "" {
			return true
		}
		if t < len(tokens) {
			if rest, ok := tokens[t].match(s); ok {
				s = rest
				t++
				continue
			}
		}
		if star < 0 || resume == "" {
			return false
		}
		_, size := utf8.DecodeRuneInString(resume)
		resume = resume[size:]
		s, t = resume, star+1
	}
}

// match matches a literal or one character at the start of s and returns the rest.
func (t likeToken) match(s string) (rest string, ok bool) {
	if t.kind == literal {
		return strings.CutPrefix(s, t.text)
	}
	if s == "" {
		return "", false
	}
	_, size := utf8.DecodeRuneInString(s)
	return s[size:], true
}

func like(e *plan.Call, args []node) (node, error) {
	return newMatch(e, args, func(p string) (likeMatcher, error) { return compileLike(p), nil })
}

// ilike compares both sides in lower case.
func ilike(e *plan.Call, args []node) (node, error) {
	return newMatch(e, args, func(p string) (likeMatcher, error) {
		match := compileLike(strings.ToLower(p))
		return func(s string) bool { return match(strings.ToLower(s)) }, nil
	})
}

// newMatch builds a test of text against a pattern. A constant pattern is compiled once,
// others are cached.
func newMatch(e *plan.Call, args []node, compile func(string) (likeMatcher, error)) (node, error) {
	if p, ok := constText(args[1]); ok {
		match, err := compile(p)
		if err != nil {
			return nil, err
		}
		return newRowNode(e.T, args[:1], func(o *output, args []*batch.Column, i int) error {
			o.col.Bool[i] = match(text(args[0], i))
			return nil
		}), nil
	}
	lately := patternCache[likeMatcher]{compile: compile}
	return newRowNode(e.T, args, func(o *output, args []*batch.Column, i int) error {
		match, err := lately.get(text(args[1], i))
		if err != nil {
			return err
		}
		o.col.Bool[i] = match(text(args[0], i))
		return nil
	}), nil
}

// maxPatterns is the largest number of cached patterns for a pattern that is not constant.
const maxPatterns = 256

type patternCache[M any] struct {
	compile  func(string) (M, error)
	compiled map[string]M
}

func (c *patternCache[M]) get(pattern string) (M, error) {
	if m, ok := c.compiled[pattern]; ok {
		return m, nil
	}
	m, err := c.compile(pattern)
	if err != nil {
		return m, err
	}
	if len(c.compiled) >= maxPatterns || c.compiled == nil {
		c.compiled = make(map[string]M)
	}
	c.compiled[pattern] = m
	return m, nil
}
