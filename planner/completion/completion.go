package completion

import (
	"context"
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
)

// Candidate is a possible completion of the word at the cursor.
type Candidate struct {
	Text string
	Kind string // "keyword", "stream", "column", "function", ...
}

// Session has the names that a statement can use; see wire.Session.
type Session interface {
	Complete(ctx context.Context, kind, of, prefix string) []string
}

// At returns the completions of the word before the cursor, and that word. text is the
// whole input, cursor a byte offset in it.
func At(ctx context.Context, s Session, text string, cursor int) (word string, found []Candidate) {
	at := scan(text[:cursor])
	ask := func(kind, of, prefix string) {
		for _, name := range s.Complete(ctx, kind, of, prefix) {
			if c := (Candidate{name, kind}); !slices.Contains(found, c) { // several streams have a timestamp
				found = append(found, c)
			}
		}
	}
	switch {
	case at.inString:
		switch {
		case at.after("function_name") || at.after("class") || at.after("module"):
			ask("function", "", at.word)
		case at.last == "USE" || at.after("process") || at.after("exe"):
			ask("process", "", at.word)
		}
		return at.word, found
	case at.qualifier != "":
		ask("column", streamOf(text, at.qualifier), at.word)
		return at.word, found
	case at.names("MODEL"):
		ask("model", "", at.word)
		return at.word, found
	case at.names("TRIGGER"):
		ask("trigger", "", at.word)
		return at.word, found
	case at.names("QUERY"):
		ask("query", "", at.word)
		return at.word, found
	case at.names("CONTEXT"):
		ask("context", "", at.word)
		return at.word, found
	case at.names("EXPORT"):
		ask("export", "", at.word)
		return at.word, found
	case at.expectsStream():
		ask("stream", "", at.word)
		if at.last == "DESCRIBE" {
			ask("model", "", at.word)
		}
		return at.word, found
	case at.last == "SHOW":
		return at.word, matching(parser.Showable(), at.word)
	case at.last == "SET":
		ask("setting", "", at.word)
		return at.word, found
	}
	if call, n := at.argument(); n > 0 && (call == "CONFORMS" || call == "ANOMALY") {
		ask("model", "", at.word)
	}
	from := streams(text)
	for _, stream := range from {
		ask("column", stream, at.word)
	}
	if len(from) == 0 && at.word != "" { // no stream is chosen yet: columns of all streams
		ask("column", "", at.word)
	}
	if at.after("function_name") || at.after("class") || at.after("module") {
		ask("function", "", at.word)
	}
	if at.word != "" {
		found = append(found, calls(at.word)...)
		found = append(found, matching(elsewhere, at.word)...)
	}
	return at.word, found
}

// calls returns the functions that begin with word, with an opening parenthesis.
func calls(word string) (found []Candidate) {
	words := parser.Keywords()
	add := func(name string) {
		if !slices.Contains(words, strings.ToUpper(name)) {
			found = append(found, beginning(word, name, "(", "call")...)
		}
	}
	for _, f := range plan.AggFuncs {
		add(f.Name)
	}
	for _, f := range plan.Encoders {
		add(f.Name)
	}
	for _, f := range slices.Concat(plan.StackAggs, plan.SketchAggs) {
		add(f.Name)
	}
	for _, f := range plan.PresentAggs {
		add(f.Name)
	}
	for _, f := range plan.Scalars { // the operators among them (and, or) are keywords
		if !strings.Contains(f.Name, ".") { // a field of a result
			add(f.Name)
		}
	}
	return found
}

// elsewhere are the keywords that do not only follow SHOW.
var elsewhere = slices.DeleteFunc(parser.Keywords(), func(word string) bool { return slices.Contains(parser.Showable(), word) })

// matching returns the keywords that begin with word.
func matching(keywords []string, word string) (found []Candidate) {
	for _, k := range keywords {
		found = append(found, beginning(word, k, "", "keyword")...)
	}
	return found
}

// beginning returns name as a candidate, in the case of word, if it begins with word.
func beginning(word, name, end, kind string) []Candidate {
	upper := strings.ToUpper(name)
	if !strings.HasPrefix(upper, strings.ToUpper(word)) {
		return nil
	}
	if word == strings.ToLower(word) {
		return []Candidate{{strings.ToLower(name) + end, kind}}
	}
	return []Candidate{{upper + end, kind}}
}

// place describes the position of the cursor in the text before it.
type place struct {
	word      string   // the part of the word before the cursor
	qualifier string   // alias, of alias.word
	inString  bool     // within '...': word is the text since the quote
	words     []string // the preceding words in order; ( ) , = are words
	last      string   // the last of words, in upper case
}

// scan reads the text before the cursor. The text need not parse, since the statement
// is incomplete.
func scan(text string) place {
	var p place
	i := 0
	for i < len(text) {
		c := text[i]
		switch {
		case c == '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				p.inString, p.word = true, text[i+1:]
				return p.done()
			}
			p.words = append(p.words, "''")
			i += end + 2
		case strings.HasPrefix(text[i:], "--"):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				p.words = nil
				return p.done()
			}
			i += end
		case wordByte(c):
			from := i
			for i < len(text) && wordByte(text[i]) {
				i++
			}
			w := text[from:i]
			if i < len(text) {
				p.words = append(p.words, w)
				break
			}
			p.word = w
			if dot := strings.IndexByte(w, '.'); dot > 0 && !strings.HasPrefix(w, "args.") {
				p.qualifier, p.word = w[:dot], w[dot+1:]
			}
		case c == ';':
			p.words = nil
			i++
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		default:
			p.words = append(p.words, string(c))
			i++
		}
	}
	return p.done()
}

func (p place) done() place {
	if len(p.words) > 0 {
		p.last = strings.ToUpper(p.words[len(p.words)-1])
	}
	return p
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '_' || c == '.' || c == '$' || c >= 0x80
}

// after reports whether the word is compared with a column: column = x, column IN (a,
// b, x, column LIKE x.
func (p place) after(column string) bool {
	for i := len(p.words) - 1; i >= 0; i-- {
		w := p.words[i]
		if name := w[strings.LastIndexByte(w, '.')+1:]; strings.EqualFold(name, column) {
			return i+1 < len(p.words)
		}
		switch strings.ToUpper(w) {
		case "=", "<", ">", "!", "~", "(", ",", "IN", "LIKE", "ILIKE", "NOT", "''":
		default:
			// A bare name is an element of the list if a comma follows it.
			if i+1 >= len(p.words) || p.words[i+1] != "," {
				return false
			}
		}
	}
	return false
}

// names reports whether the name of an existing object of this kind is expected:
// after DROP or CREATE OR REPLACE and its kind.
func (p place) names(kind string) bool {
	n := len(p.words)
	if n < 2 || p.last != kind {
		return false
	}
	switch strings.ToUpper(p.words[n-2]) {
	case "DROP", "REPLACE":
		return true
	case "ONCE", "CONTINUOUS":
		return n >= 3 && strings.EqualFold(p.words[n-3], "REPLACE")
	}
	return false
}

// argument returns the function whose parentheses enclose the cursor, in upper case,
// and the number of arguments before it; "" if there is none.
func (p place) argument() (call string, n int) {
	depth := 0
	for i, w := range slices.Backward(p.words) {
		switch {
		case w == ")":
			depth++
		case w == "(" && depth > 0:
			depth--
		case w == "(" && i > 0:
			return strings.ToUpper(p.words[i-1]), n
		case w == "," && depth == 0:
			n++
		}
	}
	return "", 0
}

// expectsStream reports whether a stream name is expected.
func (p place) expectsStream() bool {
	switch p.last {
	case "FROM", "JOIN", "DESCRIBE", "MONITOR", "RECALL":
		return true
	case "(":
		if n := len(p.words); n >= 2 {
			switch strings.ToUpper(p.words[n-2]) {
			case "SAMPLE", "TUMBLE", "HOP", "SESSION", "CONSISTENT":
				return true
			}
		}
	case ",": // FROM a x, b
		return p.clause() == "FROM"
	}
	return false
}

// clause returns the keyword that begins the current clause, outside parentheses.
func (p place) clause() string {
	depth := 0
	for _, w := range slices.Backward(p.words) {
		switch w = strings.ToUpper(w); w {
		case ")":
			depth++
		case "(":
			depth--
		case "SELECT", "FROM", "WHERE", "ON", "BY", "HAVING", "WITH":
			if depth == 0 {
				return w
			}
		}
		if depth < 0 {
			return ""
		}
	}
	return ""
}

// streams returns the names after FROM, JOIN and SAMPLE( in a text, including those
// after the cursor, since a SELECT list is often written last.
func streams(text string) (names []string) {
	words := append(scan(text+" ").words, "")
	for i := range len(words) - 1 {
		switch strings.ToUpper(words[i]) {
		case "FROM", "JOIN":
		case "(":
			if i == 0 || !strings.EqualFold(words[i-1], "SAMPLE") {
				continue
			}
		default:
			continue
		}
		if name := words[i+1]; name != "" && wordByte(name[0]) && words[min(i+2, len(words)-1)] != "(" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// streamOf returns the stream that an alias stands for in a text: the word before it,
// or before AS, or the alias itself.
func streamOf(text, alias string) string {
	words := scan(text + " ").words
	for i, w := range words {
		if i == 0 || !strings.EqualFold(w, alias) {
			continue
		}
		before := words[i-1]
		if strings.EqualFold(before, "AS") && i >= 2 {
			before = words[i-2]
		}
		if before == ")" { // SAMPLE(stream, 100ms) alias
			for j := i - 1; j >= 0; j-- {
				if words[j] == "(" && j+1 < i {
					return words[j+1]
				}
			}
		}
		for _, s := range streams(text) {
			if s == before {
				return s
			}
		}
	}
	return alias
}
