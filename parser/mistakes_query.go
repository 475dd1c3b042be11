package parser

import (
	"fmt"
	"slices"
	"strings"
)

// Mistakes within queries: clauses, joins, literals and expressions.

// foreignOperator handles the operators of other languages.
func foreignOperator(d *diagnosis) *Error {
	adjacent := d.at > 0 && d.tok(-1).Stop == d.tok(0).Start
	switch {
	case d.is(0, "=") && adjacent && d.is(-1, "="):
		return d.error(-1, "== is not an operator", "write =")
	case d.is(0, "=>") && !d.is(-1, "(", ","):
		return d.error(0, "=> names an argument and does not compare", "write >=")
	case d.is(0, "<") && adjacent && d.is(-1, "="):
		return d.error(-1, "=< is not an operator", "write <=")
	}
	return nil
}

// percentage handles 70% x, which was meant as a remainder.
func percentage(d *diagnosis) *Error {
	if d.tok(-1).typ != tokPercent || d.atEnd() || !(d.acceptsWord("AND") || d.accepts(comma)) {
		return nil
	}
	if t := d.tok(0); t.typ == tokReserved || t.typ == tokOp && t.text != "(" {
		return nil
	}
	digits := strings.TrimSuffix(d.text(-1), "%")
	return d.error(-1, fmt.Sprintf("%s is a percentage", d.text(-1)), fmt.Sprintf("for a remainder put a space before the sign: %s %% %s", digits, d.text(0)))
}

// spacedUnit handles numbers without a unit where a duration is required, and units
// separated from their numbers.
func spacedUnit(d *diagnosis) *Error {
	number := func(n int) bool { return d.tok(n).typ == tokInt || d.tok(n).typ == tokFloat }
	join := func(n int) *Error {
		unit := d.text(n)
		near := nearestUnit(unit)
		if near == "" {
			return nil
		}
		msg := unit + " is separated from its number"
		if _, _, ok := findUnit(unit); !ok {
			msg = "unknown unit " + unit
		}
		return d.error(n, msg, d.text(n-1)+near)
	}
	if d.tok(0).typ == tokWord && number(-1) {
		return join(0)
	}
	if d.is(0, "INTERVAL") && (d.tok(1).typ == tokString || number(1)) && d.accepts(someDuration) {
		return d.intervalError(1)
	}
	if !d.accepts(someDuration) || d.accepts(someInt) {
		return nil
	}
	if number(0) {
		if d.tok(1).typ == tokWord {
			if e := join(1); e != nil {
				return e
			}
		}
		return d.error(0, d.text(0)+" has no unit of time", fmt.Sprintf("%[1]sms, %[1]ss, %[1]smin ...", d.text(0)))
	}
	what := d.word(-1)
	if what == "" || what == "WITHIN" {
		what = "WINDOW"
		if d.is(-1, ",") {
			return d.error(0, "a duration is expected, not "+d.found(), "SAMPLE(cpu_usage, 100ms)")
		}
	}
	return d.error(0, what+" needs a duration, not "+d.found(), what+" 1s")
}

// foreignJoin handles the joins of SQL that the language does not have.
func foreignJoin(d *diagnosis) *Error {
	const hint = "a WINDOW JOIN b WINDOW 1s pairs tuples near in time, ASOF JOIN b takes the latest, JOIN b reads a value on demand"
	switch w := d.word(0); w {
	case "INNER", "CROSS", "RIGHT", "FULL", "OUTER", "NATURAL":
		if d.acceptsWord("JOIN") {
			return d.error(0, "there is no "+w+" JOIN", hint)
		}
		if d.word(-1) == "LEFT" {
			return d.error(-1, "there is no LEFT "+w+" JOIN", "a LEFT WINDOW JOIN b WINDOW 1s")
		}
	case "JOIN":
		if d.word(-1) == "LEFT" {
			return d.error(-1, "there is no LEFT JOIN without a window", "a LEFT WINDOW JOIN b WINDOW 1s")
		}
	}
	if d.word(-1) == "USING" && d.is(0, "(") {
		return d.error(-1, "there is no USING", "name the condition: ON a.pid = b.pid")
	}
	return nil
}

// foreignClause handles clauses of SQL that the language does not have.
func foreignClause(d *diagnosis) *Error {
	switch {
	case d.word(-1) == "UNION":
		return d.error(-1, "UNION is always UNION ALL: streams are merged as they come", "UNION ALL")
	case d.word(0) == "OFFSET" && d.acceptsEnd():
		return d.error(0, "OFFSET stands once, directly after LIMIT", "LIMIT 10 OFFSET 20")
	case d.is(0, ",") && d.tok(-1).typ == tokInt && d.word(-2) == "LIMIT":
		return d.error(0, "LIMIT takes one number", "LIMIT "+d.text(1)+" OFFSET "+d.text(-1))
	case d.word(-1) == "TOP" && d.tok(0).typ == tokInt && d.word(-2) == "SELECT":
		return d.error(-1, "there is no TOP", "put LIMIT "+d.text(0)+" at the end, or use TOPK(x, "+d.text(0)+")")
	case (d.word(-1) == "EXCEPT" || d.word(-1) == "INTERSECT") && d.word(0) == "SELECT":
		return d.error(-1, "there is no "+d.word(-1), "UNION ALL merges streams")
	case d.word(-1) == "OVER" && d.is(0, "("):
		return d.error(-1, "there is no OVER", "windows are sources: SELECT ... FROM TUMBLE(stream, 1s) GROUP BY ...")
	case d.word(0) == "ESCAPE":
		return d.error(0, "LIKE has no ESCAPE", "match with a regular expression: x ~ '...'")
	case d.word(-1) == "IF" && d.is(0, "NOT"):
		return d.error(-1, "there is no IF NOT EXISTS", "leave it out; CREATE OR REPLACE replaces")
	case d.word(-1) == "LIMIT", d.word(-1) == "OFFSET" && d.accepts(someInt):
		return d.error(0, d.word(-1)+" needs a whole number, not "+d.found(), d.word(-1)+" 10")
	case d.word(-1) == "ERROR" && d.acceptsWord("WITHIN"):
		return d.error(0, "ERROR is followed by WITHIN and a percentage", "ERROR WITHIN 5% AT CONFIDENCE 95%")
	case d.word(-1) == "AT" && d.acceptsWord("CONFIDENCE"):
		return d.error(0, "AT is followed by CONFIDENCE and a percentage", "AT CONFIDENCE 95%")
	case d.word(0) == "ERROR" && d.word(-2) == "OVERHEAD":
		return d.error(0, "ERROR WITHIN comes before WITHIN OVERHEAD", "ERROR WITHIN 5% WITHIN OVERHEAD 1%")
	case d.word(-1) == "WITHIN" && d.word(-2) == "ERROR":
		return d.error(0, "ERROR WITHIN needs a percentage, not "+d.found(), "ERROR WITHIN 5% AT CONFIDENCE 95%")
	case d.word(-1) == "CONFIDENCE" && d.word(-2) == "AT":
		return d.error(0, "AT CONFIDENCE needs a percentage, not "+d.found(), "AT CONFIDENCE 95%")
	case d.word(-1) == "OVERHEAD" && d.word(-2) == "WITHIN":
		return d.error(0, "WITHIN OVERHEAD needs a percentage, not "+d.found(), "WITHIN OVERHEAD 1%")
	case d.word(-1) == "EMIT":
		return d.error(0, "EMIT needs a mode: FINAL, CHANGES or EVERY and a duration", "EMIT EVERY 1s")
	}
	return nil
}

// wrongQuotes handles names where strings are required.
func wrongQuotes(d *diagnosis) *Error {
	t := d.tok(0)
	if !d.accepts(someString) || d.accepts(someInt) {
		return nil
	}
	switch t.typ {
	case tokQuoted:
		return d.error(0, "double quotes make a name; a string is written in single quotes", quoteString(shorten(t.text[1:len(t.text)-1])))
	case tokWord:
		return d.error(0, "a string is written in single quotes", quoteString(d.text(0)))
	}
	if w := d.word(-1); w != "" {
		return d.error(0, w+" needs a string in single quotes, not "+d.found(), w+" 'text'")
	}
	return nil
}

// commaTooMany handles a comma with nothing after it, or nothing before it.
func commaTooMany(d *diagnosis) *Error {
	switch t := d.tok(0); {
	case d.is(-1, ",") && (d.atEnd() || t.typ == tokReserved && !d.acceptsWord(d.word(0)) && !d.quotable() || d.is(0, ")", ";")):
		return d.error(-1, "something is missing after this comma", fmt.Sprintf("remove the comma before %s, or add what follows it", d.found()))
	case d.is(0, ",") && (d.is(-1, ",") || d.word(-1) == "SELECT" || d.is(-1, "(")):
		return d.error(0, "something is missing before this comma", "remove it, or add what precedes it")
	}
	return nil
}

// commaJoin handles FROM a, b.
func commaJoin(d *diagnosis) *Error {
	if !d.is(-1, ",") || !d.acceptsWord("JOIN") || d.atEnd() {
		return nil
	}
	return d.error(-1, "a comma alone does not join streams", "say how: a WINDOW JOIN b WINDOW 1s ON ..., a ASOF JOIN b, or a JOIN b")
}

// queryInExpression handles subqueries where the language has none.
func queryInExpression(d *diagnosis) *Error {
	if d.is(0, "(") && (d.word(-2) == "WITH" || d.is(-2, ",")) && d.acceptsWord("AS") && !d.acceptsEnd() {
		return d.error(0, "a name in WITH is followed by AS and its query", "the query names the columns: WITH name AS (SELECT a AS x FROM ...)")
	}
	if d.word(0) == "SELECT" && d.is(-1, "AS") && d.accepts(openParen) {
		return d.error(0, "the query of WITH is written in parentheses", "WITH name AS (SELECT ...) SELECT ...")
	}
	if d.word(0) != "SELECT" && d.word(0) != "WITH" || !d.is(-1, "(") {
		return nil
	}
	if _, ok := sourceShapes[d.word(-2)]; ok {
		return d.error(0, "a query among arguments needs its own parentheses", d.word(-2)+"((SELECT ...), ...)")
	}
	return d.error(0, "a query cannot be used in an expression", "put it into FROM, or join with it")
}

// isNull handles IS with anything but NULL.
func isNull(d *diagnosis) *Error {
	n := -1
	if d.word(-1) == "NOT" {
		n = -2
	}
	if d.word(n) != "IS" {
		return nil
	}
	hint := "IS NULL or IS NOT NULL"
	if d.is(0, "TRUE", "FALSE") {
		hint = "compare with it: = " + d.word(0)
	}
	return d.error(0, "IS can be used only with NULL and NOT NULL", hint)
}

// castSyntax handles CAST and INTERVAL as in other dialects.
func castSyntax(d *diagnosis) *Error {
	if open := d.open(); open > 0 && d.tokens[open-1].is("CAST") && d.acceptsWord("AS") && !d.acceptsExpr() {
		return d.error(0, "CAST takes its type after AS", "CAST(x AS BIGINT), or x::BIGINT")
	}
	if t := d.tok(0).typ; d.word(-1) == "INTERVAL" && (t == tokString || t == tokInt || t == tokFloat) {
		return d.intervalError(0)
	}
	return nil
}

// intervalError returns the error of tok(n), a string or a number after INTERVAL that is not
// a duration.
func (d *diagnosis) intervalError(n int) *Error {
	if number := d.text(n); d.tok(n).typ != tokString {
		return d.error(n, "INTERVAL needs a unit after "+number, "INTERVAL "+number+" seconds, or "+number+"s")
	}
	text := strings.TrimSpace(unquoteString(d.tok(n).text))
	unsigned := strings.TrimPrefix(text, "-")
	switch {
	case unsigned == "" || !isDigit(unsigned[0]):
		return d.error(n, d.text(n)+" is not a duration", "INTERVAL '5 seconds', or 5s")
	case numberEnd(unsigned) == len(unsigned):
		return d.error(n, "INTERVAL needs a unit after "+d.text(n), "INTERVAL "+quoteString(text+" s")+", or "+text+"s")
	}
	return d.error(n, d.text(n)+" is not a duration", "units of time are ns us ms s min h d: INTERVAL '5 seconds', or 5s")
}

// needsOperand handles an operator or a clause without an expression after it.
func needsOperand(d *diagnosis) *Error {
	if d.word(-1) == "IN" {
		return d.error(0, "IN needs a list in parentheses, not "+d.found(), "IN (1, 2)")
	}
	if d.is(-1, "(") && d.word(-2) == "IN" && d.is(0, ")", "...") {
		return d.error(0, "IN needs at least one value", "IN (1, 2)")
	}
	if d.at == 0 || !d.acceptsExpr() || d.is(-1, "(", ",") {
		return nil
	}
	if d.tok(0).typ == tokReserved && d.quotable() {
		return nil // a reserved word as a name
	}
	after := strings.ToUpper(d.text(-1))
	if after == "BY" {
		after = d.word(-2) + " BY"
		return d.error(0, fmt.Sprintf("%s needs a list of expressions, not %s", after, d.found()), after+" function_name")
	}
	return d.error(0, fmt.Sprintf("%s needs an expression after it, not %s", after, d.found()), "")
}

// windowOfJoin handles a window join without its window, and the reverse.
func windowOfJoin(d *diagnosis) *Error {
	switch {
	case d.acceptsWord("WITHIN") && d.acceptsWord("WINDOW") && !d.acceptsWord("WHERE"):
		return d.error(0, "a WINDOW JOIN needs the width of its window", "a WINDOW JOIN b WINDOW 1s")
	case d.is(0, "WITHIN") && d.word(1) != "OVERHEAD":
		return d.error(0, "only a WINDOW JOIN has a window", "a WINDOW JOIN b WINDOW 1s")
	case d.is(-1, "WINDOW", "WITHIN") && d.tok(0).typ == tokDuration:
		return d.error(-1, "only a WINDOW JOIN has a window", "a WINDOW JOIN b WINDOW 1s")
	case d.word(1) == "FOLLOWED" && d.acceptsEnd(), d.word(-1) == "FOLLOWED" && d.is(0, "BY"):
		return d.error(0, "FOLLOWED BY must be directly after the window of a WINDOW JOIN", "a WINDOW JOIN b WINDOW 1s a FOLLOWED BY b ON ...")
	}
	return nil
}

// clauseOutOfOrder handles a clause that is repeated or too late.
func clauseOutOfOrder(d *diagnosis) *Error {
	rank := slices.Index(clauseOrder, d.word(0))
	if !d.beginsClause(0) || rank < slices.Index(clauseOrder, "FROM") {
		return nil
	}
	depth := 0
	for i := d.at - 1; i >= 0 && depth >= 0; i-- {
		t := &d.tokens[i]
		switch {
		case t.is(")"):
			depth++
		case t.is("("):
			depth--
		}
		word := strings.ToUpper(t.text)
		if depth != 0 || !d.beginsClause(i-d.at) || !slices.Contains(clauseOrder, word) {
			continue
		}
		before := slices.Index(clauseOrder, word)
		switch {
		case word == "SELECT", before < rank:
			return nil
		case before == rank:
			return d.error(0, d.clause(0)+" is repeated", d.twice())
		}
		return d.error(0, fmt.Sprintf("%s comes before %s", d.clause(0), phraseOf(word)), "the order is SELECT FROM JOIN ON WHERE GROUP BY HAVING UNION ALL ORDER BY LIMIT OFFSET EMIT FOR WITHIN OVERHEAD")
	}
	return nil
}

// beginsClause reports whether the n-th token is a reserved word, or begins WITHIN OVERHEAD, whose
// words are none.
func (d *diagnosis) beginsClause(n int) bool {
	return d.tok(n).typ == tokReserved || d.word(n) == "WITHIN" && d.word(n+1) == "OVERHEAD"
}

func (d *diagnosis) twice() string {
	if d.is(0, "WHERE", "HAVING") {
		return "join the conditions with AND"
	}
	return "remove one"
}

// phraseOf returns a clause's keyword with the keywords that always follow it.
func phraseOf(word string) string {
	if p := phrase[word]; p != "" {
		return p
	}
	return word
}

func (d *diagnosis) clause(n int) string { return phraseOf(d.word(n)) }

// missingFrom handles a SELECT that ends, or continues, without FROM.
func missingFrom(d *diagnosis) *Error {
	if !d.acceptsWord("FROM") || !(d.atEnd() || d.is(0, ")", ";") || d.tok(0).typ == tokReserved) {
		return nil
	}
	return d.noFrom()
}

// noFrom returns the error of a SELECT that needs FROM before the wrong token.
func (d *diagnosis) noFrom() *Error {
	for i := d.at - 1; i > 0; i-- {
		// After a dot any word is a name, FROM too.
		if t := &d.tokens[i]; t.is("FROM") && d.tokens[i-1].is(".") && d.tokens[i-1].Stop < t.Start {
			return d.error(i-1-d.at, "a name is missing after this dot", "")
		}
	}
	return d.error(0, "FROM is missing before "+d.found(), "SELECT ... FROM stream; SHOW STREAMS lists them")
}

// missingOperator handles two adjacent operands.
func missingOperator(d *diagnosis) *Error {
	if d.atEnd() || !d.accepts(equals) && !d.acceptsWord("AND") || d.tok(0).typ == tokReserved || d.tok(0).typ == tokOp {
		return nil
	}
	missing, hint := "an operator", ""
	if d.accepts(comma) {
		missing = "an operator or a comma"
	}
	if d.tok(-1).typ == tokString && d.tok(-1).Stop == d.tok(0).Start {
		hint = "a ' inside a string is written ''"
	}
	return d.error(0, fmt.Sprintf("%s is missing between %s and %s", missing, d.text(-1), d.found()), hint)
}
