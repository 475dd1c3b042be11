package structure

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"endoscope/operators/encoders"
)

// ParseRLE parses the text form of runs, one line for each sequence. Long runs
// (B*) have no length: the encoding is exact only if there are none. Long groups
// cannot be parsed.
func ParseRLE(text string) (*RLE, error) {
	a := encoders.NewAlphabet()
	e := &RLE{}
	p := parser{alphabet: a}
	lines, err := p.lines(text)
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		open, times := -1, int64(0) // where a group began, how often it is
		for _, w := range line {
			n := w.n
			if n == 0 {
				n, e.cutoff = math.MaxInt64, math.MaxInt64-1
			}
			switch {
			case w.rule:
				return nil, fmt.Errorf("%s is a rule, and runs have none", w.name)
			case w.is("(") && open < 0:
				open, times = len(e.runs), n
			case w.is(")") && open >= 0 && n == 1:
				group := e.runs[open:len(e.runs):len(e.runs)]
				e.longest = max(e.longest, len(group))
				for range times - 1 {
					e.runs = append(e.runs, group...)
				}
				open = -1
			case w.is("(") || w.is(")"):
				return nil, fmt.Errorf("a group is written 3:( A B )")
			default:
				e.runs = append(e.runs, Run{p.symbol(w), n})
			}
		}
		if open >= 0 {
			return nil, fmt.Errorf("a group is not closed")
		}
		e.ends = append(e.ends, len(e.runs))
	}
	e.names = a.Names()
	e.Source = sourceOf(e, len(e.ends))
	return e, nil
}

// ParseGrammar reads the text form of a grammar, or of a graph of calls.
func ParseGrammar(text string) (*Grammar, error) {
	p := parser{alphabet: encoders.NewAlphabet()}
	lines, err := p.lines(text)
	if err != nil {
		return nil, err
	}
	g := &Grammar{productions: &productions{stats: make([]encoders.Stats, len(lines))}}
	numbers := map[string]uint32{}
	for i, line := range lines {
		if len(line) < 2 || !line[0].rule || line[1].name != encoders.Arrow || line[1].quoted {
			return nil, fmt.Errorf("line %d is no rule: R1 -> A B", i+1)
		}
		name := line[0].name
		if _, twice := numbers[name]; twice {
			return nil, fmt.Errorf("line %d: %s is there twice", i+1, name)
		}
		numbers[name] = uint32(i)
		if name[0] == 'S' || name == "R0" {
			g.starts++
		}
	}
	for i, line := range lines {
		for _, w := range line[2:] {
			it := item{n: w.n}
			if w.rule {
				r, known := numbers[w.name]
				if !known || int(r) < g.starts {
					return nil, fmt.Errorf("line %d: there is no rule %s", i+1, w.name)
				}
				it.value = ruleBit | r
			} else {
				it.value = p.symbol(w)
			}
			switch {
			case it.n == 0:
				g.options.Runs, g.options.Cutoff = true, 1
			case it.n > 1:
				g.options.Runs = true
			}
			g.items = append(g.items, it)
		}
		g.ends = append(g.ends, len(g.items))
	}
	if err := g.wellFounded(); err != nil {
		return nil, err
	}
	g.names = p.alphabet.Names()
	if g.Exact() {
		g.count()
	}
	g.Source = sourceOf(g, g.starts)
	return g, nil
}

// wellFounded returns an error if there is no start string, or a rule uses itself.
func (g *productions) wellFounded() error {
	if g.starts == 0 {
		return fmt.Errorf("a grammar begins with a rule R0")
	}
	done := make([]bool, len(g.ends))
	var bad error
	g.upward(func(p int) {
		for _, it := range g.rightSide(p) {
			if isRule(it.value) && !done[it.value&^ruleBit] && bad == nil {
				bad = fmt.Errorf("a rule uses itself")
			}
		}
		done[p] = true
	})
	return bad
}

// sourceOf returns the Source of a parsed encoding. The length of the sequences is
// known only if the encoding is exact.
func sourceOf(e encoders.Lossless, sequences int) encoders.Source {
	s := encoders.Source{Sequences: sequences}
	if !e.Exact() {
		return s
	}
	hashes := make([]uint64, len(e.Names()))
	for i, name := range e.Names() {
		hashes[i] = encoders.NameHash(encoders.Symbol(i), name)
	}
	for i := range sequences {
		var d encoders.Digest
		for x := range e.Decode(i) {
			d.Add([]encoders.Symbol{x}, hashes)
		}
		s.Digests = append(s.Digests, d)
		s.Symbols += d.N
		s.Encoded += d.N
	}
	return s
}

// parser reads words.
type parser struct{ alphabet *encoders.Alphabet }

// word is a word of a text form: a name, n times.
type word struct {
	name   string
	quoted bool
	rule   bool
	n      int64 // 0: long
}

// is reports whether w is the unquoted word name.
func (w word) is(name string) bool { return !w.quoted && w.name == name }

func (p *parser) symbol(w word) encoders.Symbol {
	if w.quoted {
		return p.alphabet.Function(w.name)
	}
	return p.alphabet.Symbol(w.name)
}

// lines returns the words of each line, without remarks.
func (p *parser) lines(text string) (lines [][]word, err error) {
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, encoders.RemarkMark+" ") {
			continue
		}
		var words []word
		for rest := strings.TrimLeft(line, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
			var w word
			if w, rest, err = nextWord(rest); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			words = append(words, w)
		}
		lines = append(lines, words)
	}
	return lines, nil
}

// nextWord reads [n:]name[*], the name perhaps in quotes.
func nextWord(text string) (w word, rest string, err error) {
	w.n = 1
	if d := encoders.Digits(text); d > 0 && d < len(text) && text[d] == ':' {
		if w.n, err = strconv.ParseInt(text[:d], 10, 64); err != nil || w.n < 1 {
			return w, "", fmt.Errorf("%s is no number of times", text[:d])
		}
		text = text[d+1:]
	}
	if strings.HasPrefix(text, `"`) {
		q, err := strconv.QuotedPrefix(text)
		if err != nil {
			return w, "", fmt.Errorf("a quote is not closed: %s", text)
		}
		if w.name, err = strconv.Unquote(q); err != nil {
			return w, "", fmt.Errorf("%s is no text", q)
		}
		w.quoted, rest = true, text[len(q):]
		if strings.HasPrefix(rest, "*") {
			w.n, rest = 0, rest[1:]
		}
		if rest != "" && rest[0] != ' ' {
			return w, "", fmt.Errorf("a space is missing before %s", rest)
		}
		return w, rest, nil
	}
	w.name, rest, _ = strings.Cut(text, " ")
	if len(w.name) > 1 && strings.HasSuffix(w.name, "*") {
		w.name, w.n = strings.TrimSuffix(w.name, "*"), 0
	}
	if w.name == "" {
		return w, "", fmt.Errorf("a name is missing")
	}
	w.rule = encoders.IsRuleName(w.name)
	return w, rest, nil
}
