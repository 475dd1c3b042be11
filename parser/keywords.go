package parser

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// reserved are the clause keywords: they name a column or a stream only in
// double quotes, or after a dot.
var reserved = wordSet(`
	ALL AND AS BEGIN BETWEEN BY CASE CREATE DISTINCT ELSE EMIT END FALSE FOR
	FROM GROUP HAVING ILIKE IN INSERT INTO IS JOIN LIKE LIMIT NOT NULL ON OR
	ORDER SELECT THEN TRUE UNION WHEN WHERE WINDOW WITH`)

// notAlias are words that are names elsewhere but not after a column or a
// source without AS, since what follows there is a clause, an action or the
// next statement.
var notAlias = wordSet(`
	ASC ASOF CROSS DESC DESCRIBE EXPLAIN FULL INNER LEFT MONITOR NATURAL NOTIFY
	OFFSET OUTER PARTITION RESUME RIGHT SET SHOW STOP SUSPEND USE WEBHOOK
	WITHIN`)

// contextual are the words that are keywords in one place only and names
// everywhere else. The value says after which words, "" being the beginning
// of a statement or an action, and "*" any place.
var contextual = map[string]string{
	"ANALYZE": "EXPLAIN", "ASC": "*", "ASOF": "*", "CAST": "*", "CHANGES": "EMIT",
	"CONTINUOUS": "CREATE REPLACE", "DESC": "*", "DESCRIBE": "", "DROP": "", "EVERY": "EMIT",
	"EXPLAIN": "", "FILTER": ")", "FINAL": "EMIT", "FOLLOWED": "*", "FUNCTION": "DESCRIBE",
	"INTERVAL": "*", "LEFT": "*", "MODEL": "CREATE REPLACE DROP", "MONITOR": "", "NONE": "USE",
	"NOTIFY": "", "ONCE": "CREATE REPLACE", "PARTITION": "*", "PID": "USE", "REPLACE": "OR",
	"RESUME": "", "SAMPLE": "", "SET": "", "SHOW": "", "STOP": "",
	"STREAM": "CREATE REPLACE DROP", "SUSPEND": "", "THREAD": "SUSPEND RESUME",
	"TRIGGER": "CREATE REPLACE ONCE CONTINUOUS DROP", "USE": "", "WEBHOOK": "", "WITHIN": "*",
}

// showable is what SHOW shows.
var showable = []string{
	"DROPS", "FUNCTIONS", "MODELS", "PROBES", "PROCESSES", "QUERIES", "SETTINGS", "STREAMS", "TRIGGERS",
}

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// Keywords returns every word with a meaning of its own in some place of a
// statement, in upper case and in order: what an editor completes. The names
// of sources (SAMPLE, TUMBLE, ...) are among them.
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

// isWordPart includes $, which the names of compilers contain: access$100.
func isWordPart(r rune) bool {
	return isWordStart(r) || r == '$' || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r)
}

// isWord says whether s is a name that needs no quotes, keywords aside.
func isWord(s string) bool {
	for i, r := range s {
		if i == 0 && !isWordStart(r) || !isWordPart(r) {
			return false
		}
	}
	return s != ""
}
