package server_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// integers finds those in the text of a list.
var integers = regexp.MustCompile(`BIGINT false (\d+)`)

// TestOverheadOfValues: what values the calls have is what was seen of them: a lower bound of
// how many are different, counts with bounds of those that were seen, and a first and a last one
// without. Of functions that are observed all the time all of it is exact.
func TestOverheadOfValues(t *testing.T) {
	testenv.NeedUprobes(t)
	c := startCounter(t)
	s := newSession(t, wire.Options{PID: c.pid})
	res := start(t, s, `SELECT function_name, COUNT(DISTINCT arg0), exact(COUNT(*)), FIRST(arg0), LAST(arg0), TOPK(arg0, 2), COUNT(*)
		FROM function_start WHERE function_name IN (hot, warm, rare) GROUP BY function_name WITHIN OVERHEAD 10%`)
	const turns = 200_000
	truth := c.turn(turns)
	res.Stop()
	a := read(t, res)
	complete(t, a)
	if len(a.rows) != len(truth) {
		t.Fatalf("%d functions: %v", len(a.rows), a.rows)
	}
	for _, r := range a.rows {
		t.Log(r)
		name, distinct, exact, first, last, low, high := r[0], r[1], r[2] == "true", r[3], r[4], r[7], r[8]
		want := map[string]int{"hot": 7, "warm": turns / 50, "rare": turns / 20_000}[name]
		n, err := strconv.Atoi(distinct)
		if err != nil || n > want || low != distinct {
			t.Errorf("%s has %s different values (at least %s), it is %d", name, distinct, low, want)
		}
		if !exact {
			if high != "NULL" || r[9] != "NULL" || r[12] != "NULL" {
				t.Errorf("%s has bounds that are not known: %v", name, r)
			}
			continue
		}
		step := turns / want
		if n != want || high != distinct || first != "0" || last != fmt.Sprint(turns-step) || r[9] != first || r[12] != last {
			t.Errorf("%s is exact, and has %v", name, r)
		}
		// Each value occurs once, and of equal counts the smallest comes first.
		most := fmt.Sprint([]string{"0", "1", fmt.Sprint(step), "1"})
		for _, cell := range []string{r[5], r[13], r[14]} {
			var numbers []string
			for _, m := range integers.FindAllStringSubmatch(cell, -1) {
				numbers = append(numbers, m[1])
			}
			if top := fmt.Sprint(numbers); top != most {
				t.Errorf("%s has the values %s, want %s", name, top, most)
			}
		}
	}
}
