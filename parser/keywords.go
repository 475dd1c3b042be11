package parser

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reserved are the clause keywords: as names of columns or streams they must be in double
// quotes, or after a dot.
var reserved = wordSet(`
	ALL AND AS BEGIN BETWEEN BY CASE CREATE DISTINCT ELSE EMIT END FALSE FOR
	FROM GROUP HAVING ILIKE IN INSERT INTO IS JOIN LIKE LIMIT NOT NULL ON OR
	ORDER SELECT THEN TRUE UNION WHEN WHERE WINDOW WITH`)

// isReserved reports whether a word is a reserved keyword, in any case.
func isReserved(word string) bool {
	var upper [3 * len("DISTINCT")]byte // no keyword is longer
	if len(word) > len(upper) {
		return false
	}
	for i := range len(word) {
		if word[i] >= utf8.RuneSelf { // the upper case of a letter like ſ is in ASCII
			return reserved[strings.ToUpper(word)]
		}
		upper[i] = word[i]
		if 'a' <= upper[i] && upper[i] <= 'z' {
			upper[i] -= 'a' - 'A'
		}
	}
	return reserved[string(upper[:len(word)])]
}

// notAlias are words that are names elsewhere but not after a column or a source without
// AS, because there a clause, an action or the next statement follows.
var notAlias = wordSet(`
	ASC ASOF CROSS DESC DESCRIBE ERROR EXPLAIN FULL INNER LEFT MONITOR NATURAL NOTIFY
	OFFSET OUTER PARTITION RECALL RESUME RIGHT SET SHOW STOP SUSPEND USE WEBHOOK
	WITHIN`)

// contextual are the words that are keywords in one context only and names everywhere else.
// The value lists the words after which it is a keyword; "" is the beginning of a statement
// or an action, "'" a string, and "*" any position.
var contextual = map[string]string{
	"ANALYZE": "EXPLAIN", "ASC": "*", "ASOF": "*", "AT": "*", "CAST": "*", "CHANGES": "EMIT", "CONFIDENCE": "AT", "CONTAINER": "USE", "CONTEXT": "CREATE REPLACE DROP",
	"CONTINUOUS": "CREATE REPLACE", "DESC": "*", "DESCRIBE": "", "DROP": "", "ERROR": "*", "EVERY": "EMIT",
	"EXISTS": "IF", "EXPLAIN": "", "EXPORT": "CREATE REPLACE DROP", "FILTER": ")", "FINAL": "EMIT", "FOLLOWED": "*", "FUNCTION": "DESCRIBE",
	"FLEET": "ON", "IF": "STREAM TRIGGER MODEL EXPORT QUERY CONTEXT", "INTERVAL": "*", "KEY": ") '", "LEFT": "*", "MODEL": "CREATE REPLACE DROP", "MONITOR": "", "NONE": "USE",
	"NOTIFY": "", "OFFSET": "*", "ONCE": "CREATE REPLACE", "OVERHEAD": "WITHIN", "PARTITION": "*", "PID": "USE", "PROMETHEUS": "TO", "QUERY": "CREATE REPLACE DROP", "REPLACE": "OR",
	"RECALL": "", "RESUME": "", "SAMPLE": "", "SET": "", "SHOW": "", "STOP": "",
	"STREAM": "CREATE REPLACE DROP", "SUSPEND": "", "THREAD": "SUSPEND RESUME", "TO": "*",
	"TRIGGER": "CREATE REPLACE ONCE CONTINUOUS DROP", "USE": "", "WEBHOOK": "", "WITHIN": "*",
}

// showable are the objects of SHOW.
var showable = []string{
	"CHECKS", "CONTAINERS", "CONTEXTS", "DROPS", "EXPORTS", "FUNCTIONS", "HOSTS", "MODELS", "PROBES", "PROCESSES", "QUERIES", "SETTINGS", "STREAMS", "TRIGGERS",
}

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// Showable returns the words that may follow SHOW, in upper case, sorted.
func Showable() []string { return slices.Clone(showable) }

// Keywords returns every word that is a keyword in some context, in upper case, sorted, for
// completion in an editor. The names of sources (SAMPLE, TUMBLE, ...) are included.
func Keywords() []string {
	all := maps.Clone(reserved)
	for w := range contextual {
		all[w] = true
	}
	for _, w := range showable {
		all[w] = true
	}
	for _, w := range sourceName {
		all[strings.ToUpper(w)] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func isWordStart(r rune) bool { return r == '_' || unicode.IsLetter(r) }

// isWordPart includes $, which occurs in compiler-generated names: access$100.
func isWordPart(r rune) bool {
	return isWordStart(r) || r == '$' || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r)
}

// isWord reports whether s is a name that needs no quotes, ignoring keywords.
func isWord(s string) bool {
	for i, r := range s {
		if i == 0 && !isWordStart(r) || !isWordPart(r) {
			return false
		}
	}
	return s != ""
}
