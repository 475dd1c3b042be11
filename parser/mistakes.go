package parser

import (
	"endoscope/parser/spelling"
	"fmt"
	"slices"
	"strings"
)

// mistakes are the rules for common mistakes, the most specific first. A rule returns nil
// if it does not apply. Rules look at the tokens around the wrong one, tok(0); they suggest
// a correction only if the grammar accepts it.
var mistakes = []func(*diagnosis) *Error{
	misspeltKeyword,
	unknownStatement,
	foreignOperator,
	percentage,
	spacedUnit,
	foreignJoin,
	foreignClause,
	showWhat,
	createWhat,
	insertWhere,
	useWhat,
	setWithout,
	exportParts,
	contextParts,
	wrongQuotes,
	commaTooMany,
	commaJoin,
	queryInExpression,
	isNull,
	castSyntax,
	needsOperand,
	needsName,
	sampleAction,
	windowOfJoin,
	triggerParts,
	reservedName,
	closesNothing,
	missingSemicolon,
	clauseOutOfOrder,
	notClosed,
	missingFrom,
	missingOperator,
}

// statementWords are the first words of statements.
var statementWords = strings.Fields("SELECT WITH EXPLAIN CREATE DROP INSERT USE STOP SUSPEND RESUME SET SHOW DESCRIBE")

// actionWords are the first words of trigger actions.
var actionWords = strings.Fields("SAMPLE MONITOR RECALL STOP NOTIFY WEBHOOK SELECT INSERT")

// misspeltKeyword corrects SELCT, and FORM if it was parsed as an alias, if the statement
// is valid further with the right word.
func misspeltKeyword(d *diagnosis) *Error {
	var table spelling.Table
	for _, n := range []int{0, -1, -2, -3, -4, 1} {
		t := d.tok(n)
		word := d.word(n)
		// container_of is a function, and no CONTAINER.
		if t.typ != tokWord || len(word) < 3 || n < 0 && (contextual[word] != "" || word == "CONTAINER_OF") {
			continue
		}
		limit := 1 + max(1, len(word)/3)
		best, bestReach, bestDistance := "", d.at+max(n, 0), 0
		for _, candidate := range Keywords() {
			dist := 2 * spelling.Distance(&table, word, candidate, limit-1)
			if word[0] != candidate[0] { // misspellings rarely change the first letter
				dist++
			}
			if dist == 0 || dist >= 2*limit {
				continue
			}
			reach, all := d.reach(n, keyword(candidate), d.tokens[min(d.at+n+1, len(d.tokens)):])
			if all {
				reach++
			}
			if reach > bestReach || reach == bestReach && best != "" && dist < bestDistance {
				best, bestReach, bestDistance = candidate, reach, dist
			}
		}
		if best != "" {
			return d.error(n, d.text(n)+" is not expected here", "did you mean "+best+"?")
		}
	}
	return nil
}

// unknownStatement handles a first word that does not begin a statement.
func unknownStatement(d *diagnosis) *Error {
	if d.at != 0 {
		return nil
	}
	if d.is(0, "(") {
		return d.error(0, "a statement does not begin with a parenthesis", "SELECT ...")
	}
	begins := "statements begin with " + inWords(statementWords, "or")
	if d.word(0) == "" {
		return d.error(0, "a statement does not begin with "+d.text(0), begins)
	}
	return d.error(0, d.text(0)+" does not begin a statement", begins)
}

// showWhat handles an object that SHOW does not know.
func showWhat(d *diagnosis) *Error {
	if d.at != 1 || d.word(-1) != "SHOW" {
		return nil
	}
	hint := "SHOW " + inWords(showable, "or")
	if d.is(0, "TABLES", "VIEWS", "TABLE") {
		hint = "SHOW STREAMS"
	}
	if d.atEnd() {
		return d.error(0, "SHOW needs an object", hint)
	}
	return d.error(0, "SHOW does not support "+d.found(), hint)
}

// createWhat handles objects that cannot be created or dropped: tables, views.
func createWhat(d *diagnosis) *Error {
	verb := d.word(-1)
	switch {
	case d.at == 1 && (verb == "CREATE" || verb == "DROP"):
	case d.at == 3 && verb == "REPLACE":
		verb = "CREATE OR REPLACE"
	default:
		return nil
	}
	hint := verb + " STREAM name AS SELECT ..."
	if verb == "DROP" {
		hint = "DROP STREAM name, DROP TRIGGER name, DROP MODEL name, DROP EXPORT name or DROP CONTEXT name"
	}
	switch {
	case d.atEnd():
		return d.error(0, verb+" needs an object", hint)
	case d.tok(0).typ == tokWord && d.tok(1).typ == tokWord:
		return d.error(0, fmt.Sprintf("there is no %s %s", verb, d.found()), hint)
	case verb == "CREATE OR REPLACE":
		return d.error(0, "CREATE OR REPLACE makes a STREAM, a TRIGGER, a MODEL, an EXPORT or a CONTEXT, not "+d.found(), hint)
	}
	return d.error(0, fmt.Sprintf("%s needs STREAM, TRIGGER, MODEL, EXPORT or CONTEXT before %s", verb, d.found()), hint)
}

// insertWhere handles INSERT into something other than a file.
func insertWhere(d *diagnosis) *Error {
	const example = "INSERT INTO file('out.csv') SELECT ..."
	switch {
	case d.word(-1) == "INTO":
		return d.error(0, "INSERT INTO writes to a file, not to "+d.found(), example)
	case d.word(-1) == "INSERT":
		return d.error(0, "INSERT needs INTO and a file", example)
	}
	return nil
}

// useWhat handles a process named in a form that USE does not know.
func useWhat(d *diagnosis) *Error {
	if d.at == 0 || d.at > 2 || d.tokens[0].typ != tokWord || !d.tokens[0].is("USE") {
		return nil
	}
	const hint = "USE PID 42, USE 'name', USE '/path/of/executable', USE CONTAINER 'name' or USE NONE"
	switch t := d.tok(0); {
	case d.at == 2 && d.word(-1) == "PID":
		return d.error(0, "PID needs the number of a process, not "+d.found(), "USE PID 42")
	case d.at == 2 && d.word(-1) == "CONTAINER" && !d.atEnd() && t.typ == tokWord:
		return d.error(0, "the name of a container is written in single quotes", "USE CONTAINER "+quoteString(t.text))
	case d.at == 2 && d.word(-1) == "CONTAINER":
		return d.error(0, "CONTAINER needs the name of a container, not "+d.found(), "USE CONTAINER 'name'; SHOW CONTAINERS lists them")
	case d.at == 2:
		return nil
	case d.atEnd():
		return d.error(0, "USE needs a process", hint)
	case t.typ == tokInt:
		return d.error(0, "a process is named, or given as PID and its number", "USE PID "+d.found())
	case t.typ == tokWord && d.at+1 == len(d.tokens):
		return d.error(0, "the name of a process is written in single quotes", "USE "+quoteString(t.text))
	case t.typ == tokQuoted:
		return wrongQuotes(d)
	}
	return d.error(0, "USE needs a process, not "+d.found(), hint)
}

// setWithout handles SET without its name, its = or its value.
func setWithout(d *diagnosis) *Error {
	if d.at == 0 || d.tokens[0].typ != tokWord || !d.tokens[0].is("SET") {
		return nil
	}
	switch d.at {
	case 1:
		return d.error(0, "SET needs the name of a setting, not "+d.found(), "SET name = value; SHOW SETTINGS lists them")
	case 2:
		return d.error(0, "SET needs = and a value after "+d.text(-1), "SET "+d.text(-1)+" = value")
	case 3:
		return d.error(0, "SET needs a value, not "+d.found(), "a number, a duration, a word or a string in single quotes")
	}
	return nil
}

// quotable reports whether the statement would be valid if the wrong token, a reserved
// word, were in double quotes.
func (d *diagnosis) quotable() bool {
	if d.is(0, "FROM") {
		return false // SELECT a, FROM x: without its FROM it would still be a statement
	}
	_, all := d.reach(0, token{typ: tokQuoted, text: `"x"`}, d.tokens[min(d.at+1, len(d.tokens)):])
	return all
}

// needsName handles a keyword or a dot without a name after it.
func needsName(d *diagnosis) *Error {
	if d.at == 0 || !d.accepts(someName) || d.acceptsExpr() || d.tok(0).typ == tokReserved && d.quotable() {
		return nil
	}
	switch after := d.word(-1); after {
	case "FROM", "JOIN":
		if d.tok(0).typ == tokString {
			return d.error(0, after+" needs a stream after it, not a string", "a file is read with file("+d.found()+")")
		}
		return d.error(0, fmt.Sprintf("%s needs a stream after it, not %s", after, d.found()), "SHOW STREAMS lists them")
	case "STOP":
		if d.at > 1 {
			return d.error(0, "STOP needs a stream after it, not "+d.found(), "SHOW STREAMS lists them")
		}
		return d.error(0, "STOP needs a query or a stream, not "+d.found(), "STOP 1 ends query 1; SHOW QUERIES lists them")
	case "AS", "STREAM", "MODEL", "TRIGGER", "EXPORT", "QUERY", "CONTEXT", "EXISTS", "DESCRIBE", "MONITOR", "RECALL", "WITH":
		return d.error(0, fmt.Sprintf("%s needs a name after it, not %s", after, d.found()), "")
	}
	if d.is(-1, ".") {
		return d.error(0, "a name is missing after this dot", "")
	}
	return nil
}

// triggerParts handles a trigger without WHEN, BEGIN, actions or END.
func triggerParts(d *diagnosis) *Error {
	if !d.tokens[0].is("CREATE") {
		return nil
	}
	switch {
	case d.is(0, "BEGIN") && d.acceptsWord("WHEN"):
		return d.error(0, "WHEN and a condition are missing before BEGIN", "CREATE TRIGGER name ON stream WHEN condition BEGIN ... END")
	case d.is(0, ",") && d.acceptsWord("NOTIFY") && d.acceptsWord("END"):
		return d.error(0, "a semicolon separates actions, not a comma", "BEGIN STOP a; STOP b END")
	case d.recalls() && d.acceptsWord("LAST"):
		return d.error(0, "LAST and a duration are missing before "+d.found(), "RECALL function_call WHERE function_name IN (...) LAST 200ms")
	case slices.Contains(actionWords, d.word(0)) && d.acceptsWord("BEGIN"):
		return d.error(0, "BEGIN is missing before "+d.found(), "BEGIN "+d.found()+" ... END")
	case d.atEnd() && d.acceptsWord("BEGIN"):
		return d.error(0, "the actions of the trigger are missing", "BEGIN NOTIFY 'text' END")
	case d.is(-1, "BEGIN", ";") && d.acceptsWord("NOTIFY"):
		if d.atEnd() {
			break
		}
		return d.error(0, d.found()+" is not an action", "actions are SAMPLE(stream, 100ms), MONITOR stream, RECALL stream LAST 1s, STOP stream, NOTIFY 'text', WEBHOOK 'url', SELECT and INSERT; END ends them")
	}
	if d.atEnd() && d.acceptsWord("END") {
		return d.error(0, "END is missing after the actions of the trigger", "BEGIN ... END")
	}
	return nil
}

// recalls reports whether the wrong token is in a RECALL, behind its stream.
func (d *diagnosis) recalls() bool {
	for i := d.at - 1; i >= 0 && !d.tokens[i].is(";") && !d.tokens[i].is("BEGIN"); i-- {
		if d.tokens[i].is("RECALL") {
			return i < d.at-1
		}
	}
	return false
}

// creates reports whether the statement is CREATE [OR REPLACE] kind, and where the kind is.
func (d *diagnosis) creates(kind string) (word int, ok bool) {
	word = 1
	if len(d.tokens) > 3 && d.tokens[1].is("OR") {
		word = 3
	}
	return word, d.tokens[0].is("CREATE") && len(d.tokens) > word && d.tokens[word].is(kind)
}

// exportParts handles an export without TO, its target or AS, and wrong options.
func exportParts(d *diagnosis) *Error {
	const example = "CREATE EXPORT name TO PROMETHEUS AS SELECT ..."
	word, ok := d.creates("EXPORT")
	if !ok || d.at <= word {
		return nil
	}
	switch {
	case d.is(-1, "TO") && d.acceptsWord("PROMETHEUS") && d.tok(0).typ != tokQuoted:
		return d.error(0, "TO needs PROMETHEUS or a URL in single quotes, not "+d.found(), "TO PROMETHEUS, or TO 'otlp://localhost:4317'")
	case d.at == word+2:
		return d.error(0, "TO and a target are missing before "+d.found(), example)
	case d.acceptsWord("AS") && d.acceptsWord("WITH"):
		return d.error(0, "AS and a query are missing before "+d.found(), example)
	}
	if open := d.open(); open > 0 && d.tokens[open-1].is("WITH") && d.accepts(arrow) {
		return d.error(0, "an option has => and a value after its name, not "+d.found(), "WITH (interval => 5s)")
	}
	return nil
}

// contextParts handles a context without its BEGIN, condition or KEY.
func contextParts(d *diagnosis) *Error {
	const example = "CREATE CONTEXT name AS BEGIN function_start WHERE function_name = 'handle' KEY args.id"
	if word, ok := d.creates("CONTEXT"); !ok || d.at <= word+1 {
		return nil
	}
	switch {
	case d.is(-1, "BEGIN", "END") && d.accepts(someName):
		return d.error(0, fmt.Sprintf("%s needs function_start or function_end after it, not %s", d.word(-1), d.found()), example)
	case d.acceptsWord("AS"), d.acceptsWord("BEGIN"):
		return d.error(0, "AS BEGIN and the start of a function are missing before "+d.found(), example)
	case d.acceptsWord("WHERE"):
		return d.error(0, "WHERE and a condition on function_name are missing before "+d.found(), example)
	case d.acceptsWord("KEY"):
		return d.error(0, "KEY and a value are missing before "+d.found(), example)
	}
	return nil
}

// sampleAction handles wrong arguments of a trigger's SAMPLE.
func sampleAction(d *diagnosis) *Error {
	if d.word(-1) == "SAMPLE" && d.accepts(openParen) {
		return d.error(0, "SAMPLE takes its arguments in parentheses", sourceShapes["SAMPLE"].example)
	}
	if open := d.open(); open < 1 || !d.tokens[open-1].is("SAMPLE") || !d.tokens[0].is("CREATE") || !d.accepts(comma) && !d.is(-1, "(") {
		return nil
	}
	return d.error(0, "SAMPLE takes a stream and an interval", sourceShapes["SAMPLE"].example)
}

// reservedName handles a reserved word that was meant as a name.
func reservedName(d *diagnosis) *Error {
	if d.tok(0).typ != tokReserved || !d.quotable() {
		return nil
	}
	return d.error(0, fmt.Sprintf("%s is a keyword, not a name", d.text(0)), `as a name it is written in double quotes: "`+d.text(0)+`"`)
}

// open returns the innermost parenthesis that is open at the wrong token, or -1.
func (d *diagnosis) open() int {
	var stack []int
	for i := range d.at {
		switch t := &d.tokens[i]; {
		case t.is("("):
			stack = append(stack, i)
		case t.is(")") && len(stack) > 0:
			stack = stack[:len(stack)-1]
		}
	}
	if len(stack) == 0 {
		return -1
	}
	return stack[len(stack)-1]
}

// closesNothing handles an unmatched closing parenthesis.
func closesNothing(d *diagnosis) *Error {
	if d.is(0, ")") && d.open() < 0 {
		return d.error(0, "this closing parenthesis is unmatched", "remove it")
	}
	return nil
}

// missingSemicolon handles the next statement after a complete one.
func missingSemicolon(d *diagnosis) *Error {
	if !slices.Contains(statementWords, d.word(0)) || !d.acceptsEnd() {
		return nil
	}
	return d.error(0, "a semicolon is missing before "+d.found(), "separate statements with ;")
}

// notClosed handles a parenthesis that is never closed.
func notClosed(d *diagnosis) *Error {
	at := d.open()
	if at < 0 || !d.accepts(closeParen) || !(d.atEnd() || d.is(0, ";") || d.tok(0).typ == tokReserved) {
		return nil
	}
	return d.error(at-d.at, "this parenthesis is not closed", "put ) before "+d.found())
}
