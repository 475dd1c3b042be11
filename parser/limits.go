package parser

import (
	"fmt"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// Limits of a statement. They are checked while its tokens are counted, before anything is
// built from it.
const (
	maxLength = 1 << 20 // bytes of the text
	// maxNesting is the maximum nesting of parentheses, cases and signs, so that no walk of
	// a tree exhausts a stack.
	maxNesting   = 200
	maxOperators = 5000
	maxTokens    = 20_000 // without the constants of a tokList
	// Parsing a text allocates at most memoryPerByte bytes for each of its bytes, or
	// minMemory if that is more.
	memoryPerByte = 30
	minMemory     = 8 << 20
)

// The largest number of bytes allocated for a token: for its own copies, and for what the
// grammar builds from it. TestMemory measures them.
const (
	baseMemory     = 8 << 10 // of any statement
	reportMemory   = 1 << 20 // of an error
	tokenMemory    = 800
	constantMemory = 92 // of a tokList, each
	commaMemory    = 3500
	selectMemory   = 11_500
	joinMemory     = 6000
	actionMemory   = 3000
)

// tokenCost returns the largest number of bytes allocated for a token.
func tokenCost(t *token) int {
	switch t.typ {
	case tokList:
		return tokenMemory + constantMemory*t.count + len(t.text)
	case tokDuration, tokSize:
		if len(t.text) > maxPlainDigits {
			return 4 * tokenMemory
		}
	case tokString, tokQuoted: // quotes inside are copied
		return tokenMemory + 2*len(t.text)
	case tokOp:
		if t.text == "," {
			return commaMemory
		}
	case tokReserved, tokWord:
		switch {
		case t.is("SELECT"):
			return selectMemory
		case t.is("JOIN"):
			return joinMemory
		case t.is("STOP"), t.is("NOTIFY"), t.is("WEBHOOK"), t.is("SAMPLE"), t.is("MONITOR"), t.is("RECALL"), t.is("INSERT"):
			return actionMemory
		}
		return tokenMemory + len(t.text)
	}
	return tokenMemory
}

// isOperator reports whether a token counts as an operator.
func isOperator(t *token) bool {
	switch t.typ {
	case tokOp:
		return binaryPrec[t.text] > 0 || t.text == "!=" || t.text == "::"
	case tokReserved:
		return binaryPrec[strings.ToUpper(t.text)] > 0 || t.is("IN") || t.is("BETWEEN") || t.is("IS") || t.is("NOT")
	}
	return false
}

// measure counts the tokens of a text, and the bytes that parsing it allocates at most. It
// allocates nothing. Its error names the first limit that the text exceeds.
func measure(src string) (tokens, memory int, err *Error) {
	if len(src) > maxLength {
		return 0, 0, &Error{Msg: fmt.Sprintf("the text is longer than %d MiB", maxLength>>20), Hint: listHint}
	}
	budget := max(memoryPerByte*len(src), minMemory)
	operators, depth := 0, 0
	memory = baseMemory
	s := scanner{src: src, lists: true}
	for t, ok := s.next(); ok; t, ok = s.next() {
		tokens++
		memory += tokenCost(&t)
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		case isOperator(&t):
			operators++
		}
		msg, hint := "", ""
		switch {
		case depth > maxNesting:
			msg, hint = nestedMsg, nestedHint
		case operators > maxOperators:
			msg, hint = fmt.Sprintf("the statement has more than %d operators", maxOperators), "a AND b, a OR b: conditions on one column can be one list: a IN ('x', 'y')"
		case tokens > maxTokens:
			msg, hint = fmt.Sprintf("the statement has more than %d words, numbers and signs", maxTokens), listHint
		case memory > budget:
			msg, hint = fmt.Sprintf("parsing the statement would need more than %d MiB of memory", budget>>20), listHint
		default:
			continue
		}
		return tokens, memory, &Error{Msg: msg, Hint: hint, Pos: t.Span}
	}
	return tokens, memory, nil
}

// PlanMemory is how many times the memory of parsing a statement planning it may allocate.
const PlanMemory = 10

// Memory returns the number of bytes that parsing a text may allocate at most; of a text
// that exceeds a limit, what its error takes.
func Memory(src string) int64 {
	_, memory, err := measure(src)
	if err != nil {
		return baseMemory
	}
	return int64(memory)
}

const (
	nestedHint = "name a part of it in a WITH clause, or CREATE STREAM"
	listHint   = "a long list of values can be a file: JOIN file('list.csv') l ON ..."
)

var nestedMsg = fmt.Sprintf("the statement is nested more than %d levels deep", maxNesting)

func tooDeep(pos position) *syntaxError {
	return &syntaxError{pos: pos, msg: nestedMsg, hint: nestedHint}
}

// minList is the smallest number of constants that become one tokList. Shorter lists stay
// tokens, about which an error can say more.
const minList = 16

// constants scans constants separated by commas, and calls each with every one of them, if
// it is not nil. It returns the end of the last that a comma, ) or the end of s follows, and
// the number of them.
func constants(s string, each func(typ lexer.TokenType, text string, at int)) (end, count int) {
	for at := 0; ; at++ {
		at = blankEnd(s, at)
		if at == len(s) {
			return end, count
		}
		t := next(s[at:])
		switch t.typ {
		case tokInt, tokFloat, tokPercent, tokDuration, tokSize:
			t = checkNumber(t, false)
			if t.typ >= tokDuration && len(t.text) > maxPlainDigits {
				return end, count
			}
		}
		if t.typ < tokString || t.typ > tokSize {
			return end, count
		}
		start := at
		at = blankEnd(s, at+len(t.text))
		if at < len(s) && s[at] != ',' && s[at] != ')' { // a part of an expression
			return end, count
		}
		if each != nil {
			each(t.typ, t.text, start)
		}
		end, count = start+len(t.text), count+1
		if at == len(s) || s[at] == ')' {
			return end, count
		}
	}
}

// blankEnd returns the end of the white space and the comments at an offset.
func blankEnd(s string, at int) int {
	for {
		at = spaceEnd(s, at)
		if !strings.HasPrefix(s[at:], "--") && !strings.HasPrefix(s[at:], "/*") {
			return at
		}
		t := next(s[at:])
		if t.typ != tokComment {
			return at
		}
		at += len(t.text)
	}
}
