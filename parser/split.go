package parser

// Piece is the text of one statement and its offset in the whole.
type Piece struct {
	Text   string
	Offset int
}

// Split splits a text into statements, without parsing them: at semicolons outside strings,
// comments, parentheses and BEGIN ... END, and after the closing parenthesis of CREATE
// STREAM ... AS ( ... ). The semicolons, comments around statements and empty statements
// are dropped.
func Split(src string) []Piece {
	var pieces []Piece
	for _, tokens := range cut(significant(scan(src))) {
		start := tokens[0].Start
		pieces = append(pieces, Piece{Text: src[start:end(tokens)], Offset: start})
	}
	return pieces
}

// Complete reports whether a multi-line editor should run src now: it ends with a finished
// statement, or has none. A semicolon inside open parentheses ends a statement too, because
// no correct statement has one there and the error should be shown.
func Complete(src string) bool {
	tokens := significant(scan(src))
	if len(tokens) == 0 {
		return true
	}
	last := &tokens[len(tokens)-1]
	if last.unclosed {
		return false
	}
	var c cutter
	for i := range tokens {
		c.step(tokens, i)
	}
	return c.blocks == 0 && (last.is(";") || c.ended)
}

// cut returns the tokens of each statement.
func cut(tokens []token) [][]token {
	var pieces [][]token
	var c cutter
	start := 0
	for i := range tokens {
		c.step(tokens, i)
		separator := tokens[i].is(";") && c.parens == 0 && c.blocks == 0
		if !separator && !c.viewEnded {
			continue
		}
		stop := i
		if !separator {
			stop++
		}
		if stop > start {
			pieces = append(pieces, tokens[start:stop])
		}
		start = i + 1
	}
	if start < len(tokens) {
		pieces = append(pieces, tokens[start:])
	}
	return pieces
}

// cutter tracks the position of a token in a statement.
type cutter struct {
	length    int  // tokens of the statement so far, except EXPLAIN ANALYZE
	creates   bool // it begins with CREATE
	view      bool // it is CREATE STREAM or CREATE MODEL before AS
	context   bool // it is CREATE CONTEXT, whose BEGIN and END are no block
	body      bool // inside the parentheses after that AS
	parens    int
	blocks    int  // BEGIN, and CASE within, without their END
	viewEnded bool // this token closes the parentheses of a CREATE STREAM
	ended     bool // this token ends the statement even without a semicolon
}

// begins reports whether token i is what a CREATE creates.
func (c *cutter) begins(tokens []token, i int) bool {
	return c.creates && (c.length == 1 || c.length == 3 && tokens[i-1].is("REPLACE"))
}

func (c *cutter) step(tokens []token, i int) {
	if c.viewEnded || c.length > 0 && tokens[i-1].is(";") && c.parens == 0 && c.blocks == 0 {
		*c = cutter{}
	}
	t := &tokens[i]
	c.ended = false
	if c.length == 0 && (t.is("EXPLAIN") || t.is("ANALYZE") && i > 0 && tokens[i-1].is("EXPLAIN")) {
		return // the explained statement ends like any other
	}
	switch {
	case c.length > 0 && tokens[i-1].is("."): // a name: args.end
	case t.is("("):
		if c.view && c.parens == 0 && tokens[i-1].is("AS") {
			c.view, c.body = false, true
		}
		c.parens++
	case t.is(")"):
		c.parens = max(c.parens-1, 0)
		c.viewEnded = c.body && c.parens == 0
		c.ended = c.viewEnded
	case t.is("CREATE"):
		c.creates = c.length == 0
	case t.is("STREAM"), t.is("MODEL"):
		c.view = c.view || c.begins(tokens, i)
	case t.is("AS"):
		// The query has no parentheses: its own AS has no meaning here.
		c.view = c.view && i+1 < len(tokens) && tokens[i+1].is("(")
	case t.is("CONTEXT"):
		c.context = c.context || c.begins(tokens, i)
	case t.is("BEGIN"):
		if c.creates && !c.context {
			c.blocks++
		}
	case t.is("CASE"):
		if c.blocks > 0 {
			c.blocks++
		}
	case t.is("END"):
		c.ended = c.blocks == 1
		c.blocks = max(c.blocks-1, 0)
	}
	c.length++
}
