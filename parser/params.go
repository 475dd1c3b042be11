package parser

import "strconv"

// Params returns the largest n of the parameters $n of a statement, 0 if it has none.
func Params(src string) int {
	most := 0
	s := scanner{src: src}
	for t, ok := s.next(); ok; t, ok = s.next() {
		if t.typ == tokParam {
			if n, err := strconv.Atoi(t.text[1:]); err == nil && n <= maxParam {
				most = max(most, n)
			}
		}
	}
	return most
}
