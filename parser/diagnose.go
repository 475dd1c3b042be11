package parser

import (
	"endoscope/parser/spelling"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// diagnosis builds the error of a statement that fails at a token. The grammar itself
// determines the possible tokens: a candidate replaces the wrong token, and is accepted if
// the statement then fails later.
type diagnosis struct {
	tokens []token
	at     int // index of the wrong token; len(tokens): the end
	memory int // that candidates may allocate: each costs a parse
}

// newDiagnosis returns the diagnosis of a statement that fails at a token. Its candidates
// may allocate what parsing the text once has left of minMemory.
func newDiagnosis(tokens []token, at int) *diagnosis {
	d := &diagnosis{tokens: tokens, at: min(max(at, 0), len(tokens)), memory: minMemory - reportMemory}
	d.affords(len(tokens))
	return d
}

// diagnose returns an error in the user's terms.
func diagnose(tokens []token, wrong *syntaxError) *Error {
	d := newDiagnosis(tokens, wrong.pos.Column)
	if d.tok(0).typ == tokInvalid {
		e := *d.tok(0).bad
		e.Pos = d.tok(0).Span
		return &e
	}
	if wrong.msg != "" {
		return d.error(0, wrong.msg, wrong.hint)
	}
	for _, rule := range mistakes {
		if e := rule(d); e != nil {
			return e
		}
	}
	return d.expected()
}

// endToken stands for what follows the last token.
var endToken = token{typ: lexer.EOF}

// tok returns the token n positions after the wrong one.
func (d *diagnosis) tok(n int) *token {
	if i := d.at + n; i >= 0 && i < len(d.tokens) {
		return &d.tokens[i]
	}
	return &endToken
}

// word returns tok(n) in upper case if it is a word, else "".
func (d *diagnosis) word(n int) string {
	if t := d.tok(n); t.typ == tokWord || t.typ == tokReserved {
		return strings.ToUpper(t.text)
	}
	return ""
}

// is reports whether tok(n) is one of these texts.
func (d *diagnosis) is(n int, texts ...string) bool {
	return slices.ContainsFunc(texts, d.tok(n).is)
}

// atEnd reports whether the statement ends where more was expected.
func (d *diagnosis) atEnd() bool { return d.at == len(d.tokens) }

// error returns an error at tok(n).
func (d *diagnosis) error(n int, msg, hint string) *Error {
	pos := d.tok(n).Span
	if d.at+n >= len(d.tokens) {
		pos = Span{end(d.tokens), end(d.tokens)}
	}
	return &Error{Msg: msg, Hint: hint, Pos: pos}
}

// found returns the wrong token, for a message.
func (d *diagnosis) found() string {
	if d.atEnd() {
		return "the end"
	}
	return d.text(0)
}

// text returns tok(n) as it was written, for a message.
func (d *diagnosis) text(n int) string { return shorten(d.tok(n).text) }

// reach returns the number of correct tokens if tok(n) is replaced, and whether all are.
func (d *diagnosis) reach(n int, by token, rest []token) (int, bool) {
	if d.at+n < 0 || !d.affords(d.at+n) {
		return 0, false
	}
	tried := append(slices.Clone(d.tokens[:d.at+n]), by)
	_, wrong := recognise(append(tried, rest...))
	if wrong == nil {
		return len(tried) + len(rest), true
	}
	return wrong.pos.Column, false
}

// affords reports whether the first n tokens may be parsed once more, and counts the memory.
func (d *diagnosis) affords(n int) bool {
	for i := range n {
		if d.memory -= tokenCost(&d.tokens[i]); d.memory < 0 {
			return false
		}
	}
	return true
}

// accepts reports whether a token could replace the wrong one.
func (d *diagnosis) accepts(t token) bool {
	n, _ := d.reach(0, t, nil)
	return n > d.at
}

// acceptsEnd reports whether the statement could have ended before the wrong token.
func (d *diagnosis) acceptsEnd() bool {
	if !d.affords(d.at) {
		return false
	}
	_, wrong := recognise(d.tokens[:d.at])
	return wrong == nil
}

func (d *diagnosis) acceptsWord(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return d.accepts(keyword(w)) })
}

func keyword(word string) token {
	if reserved[word] {
		return token{typ: tokReserved, text: word}
	}
	return token{typ: tokWord, text: word}
}

// Samples of tokens that are not keywords.
var (
	someName     = token{typ: tokWord, text: "x"}
	someInt      = token{typ: tokInt, text: "1"}
	someDuration = token{typ: tokDuration, text: "1s"}
	somePercent  = token{typ: tokPercent, text: "1%"}
	someString   = token{typ: tokString, text: "''"}
	openParen    = token{typ: tokOp, text: "("}
	closeParen   = token{typ: tokOp, text: ")"}
	comma        = token{typ: tokOp, text: ","}
	equals       = token{typ: tokOp, text: "="}
	arrow        = token{typ: tokOp, text: "=>"}
)

// acceptsExpr reports whether an expression could begin at the wrong token.
func (d *diagnosis) acceptsExpr() bool {
	return d.acceptsWord("CASE") && d.accepts(openParen)
}

// phrase maps a keyword to itself with the keywords that always follow it.
var phrase = map[string]string{
	"GROUP": "GROUP BY", "ORDER": "ORDER BY", "UNION": "UNION ALL", "PARTITION": "PARTITION BY",
	"FOLLOWED": "FOLLOWED BY", "LEFT": "LEFT WINDOW JOIN", "ASOF": "ASOF JOIN", "WITHIN": "WITHIN OVERHEAD", "ERROR": "ERROR WITHIN", "AT": "AT CONFIDENCE",
}

// operatorWords are not listed separately where an operator is possible.
var operatorWords = wordSet("AND OR NOT LIKE ILIKE IN IS BETWEEN")

// clauseOrder is the order of a query's clauses, and of lists of them.
var clauseOrder = []string{
	"WITH", "SELECT", "DISTINCT", "FROM", "JOIN", "WINDOW", "LEFT", "ASOF", "ON", "WHERE", "GROUP", "HAVING", "UNION",
	"ORDER", "LIMIT", "EMIT", "FOR", "ERROR", "WITHIN",
}

// keywords lists the keywords that are possible at the wrong token.
func (d *diagnosis) keywords() []string {
	candidates := slices.Collect(maps.Keys(reserved))
	if !d.accepts(someName) { // otherwise any unreserved word would be accepted, as a name
		candidates = slices.AppendSeq(candidates, maps.Keys(contextual))
		candidates = append(candidates, showable...)
	}
	list := slices.DeleteFunc(candidates, func(w string) bool { return !d.accepts(keyword(w)) })
	slices.SortFunc(list, func(a, b string) int {
		if i, j := slices.Index(clauseOrder, a), slices.Index(clauseOrder, b); i != j {
			return i - j
		}
		return strings.Compare(a, b)
	})
	return list
}

// maxListed is the largest number of possibilities listed in the message; more become a
// hint.
const maxListed = 5

// expected returns an error that lists what is possible at the wrong token.
func (d *diagnosis) expected() *Error {
	var list []string
	expr, operator := d.acceptsExpr(), d.accepts(equals)
	switch {
	case expr:
		list = append(list, "an expression")
	case d.accepts(someName):
		list = append(list, "a name")
	}
	if !expr {
		for _, c := range []struct {
			sample token
			what   string
		}{
			{someDuration, "a duration such as 100ms"}, {somePercent, "a percentage such as 1%"}, {someInt, "a whole number"}, {someString, "a string in single quotes"},
			{openParen, "("},
		} {
			if d.accepts(c.sample) && !(operator && c.sample == openParen) { // ( after a name makes a call
				list = append(list, c.what)
			}
		}
	}
	if operator {
		list = append(list, "an operator")
	}
	if d.accepts(comma) {
		list = append(list, "a comma")
	}
	if d.accepts(closeParen) {
		list = append(list, ")")
	}
	words := d.keywords()
	if slices.Contains(words, "FROM") {
		words = []string{"FROM"} // the clauses after it are possible without it, and rarely meant
	}
	for _, w := range words {
		switch {
		case operator && operatorWords[w], expr && (operatorWords[w] || w == "CASE" || w == "TRUE" || w == "FALSE" || w == "NULL"):
			continue
		case phrase[w] != "":
			w = phrase[w]
		}
		list = append(list, w)
	}
	if d.acceptsEnd() && !d.atEnd() && !slices.Contains(words, "FROM") {
		list = append(list, "the end")
	}
	switch {
	case len(list) == 0 || d.memory < 0: // not all were tried
		return d.error(0, d.found()+" is not expected here", "")
	case len(list) > maxListed:
		return d.error(0, d.found()+" is not expected here", "possible here: "+inWords(list, "or"))
	}
	return d.error(0, "expected "+inWords(list, "or")+", found "+d.found(), "")
}

// nearest returns the word of a list that was probably meant, or "". Both are in upper
// case.
func nearest(word string, list []string) string {
	best, bestDistance := "", 1+max(1, len(word)/3)
	if len(word) < 3 {
		return ""
	}
	var table spelling.Table
	for _, candidate := range list {
		if n := spelling.Distance(&table, word, candidate, bestDistance-1); n < bestDistance {
			best, bestDistance = candidate, n
		}
	}
	return best
}
