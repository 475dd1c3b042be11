package server_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// TestArgumentsOfMarkedPlaces reads arguments of marked places by their types, which the
// notes say: more than there are columns for, fractions in memory, and variables that are
// named.
func TestArgumentsOfMarkedPlaces(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, flags := range [][]string{{"-O0"}, {"-O2"}, {"-O2", "-no-pie"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			w := startWaiting(t, testenv.CompileC(t, filepath.Join("testdata", "marks", "marks.c"), flags...))
			s := newSession(t, wire.Options{PID: w.pid()})
			cases := []struct {
				columns, place, where string
				of                    func(n int) string
			}{
				{"arg0, arg1, arg2, args.arg3, args.arg4", "many", "arg5 = -5",
					func(n int) string { return fmt.Sprint(n, -n, n-1, float64(n)/2, -float64(n)/4) }},
				{"args.arg0, args.arg7, args.arg3 > 0.75, args.arg5, str(args.arg8)", "many", "args.arg6 < 0",
					func(n int) string { return fmt.Sprintf("%d 65535 %t -5 a text", n, n > 1) }},
				{"arg0, arg1, arg2, args.arg4, arg3 <> 0", "variables", "args.arg0 > 0",
					func(n int) string { return fmt.Sprint(n, -20, 30, float64(n)/4, true) }},
				{"args.arg0, args.arg1, args.arg2, args.arg3, args.arg6, args.arg7", "indexed", "tid > 0",
					func(n int) string {
						table := []int{10, -20, 30, -40}
						return fmt.Sprint(table[n], table[n-1], table[n], " NULL ", table[n-1], uint32(-n))
					}},
				{"args, hex(args.arg1)", "stripped", "tid > 0", func(n int) string { return fmt.Sprintf(`{"arg0": null, "arg1": %d} %#x`, n, n) }},
				{`regexp_extract(args, '^(.*), "arg8": [0-9]+}$', 1)`, "many", "arg6 = -arg0",
					func(n int) string {
						return fmt.Sprintf(`{"arg0": %d, "arg1": %d, "arg2": %d, "arg3": %v, "arg4": %v, "arg5": -5, "arg6": %d, "arg7": 65535`, n, -n, n-1, float64(n)/2, -float64(n)/4, -n)
					}},
				{"arg1", "stripped", "tid > 0", func(n int) string { return fmt.Sprint(n) }},
			}
			var queries []wire.Result
			for _, c := range cases {
				queries = append(queries, start(t, s, fmt.Sprintf("SELECT %s FROM function_start WHERE function_name = 'usdt:app:%s' AND %s", c.columns, c.place, c.where)))
			}
			for query, want := range map[string]string{
				"SELECT arg0 FROM function_start WHERE function_name = 'usdt:app:stripped'":      "is the variable nothing_of_that_name, which is not among the symbols that are left",
				"SELECT arg3 FROM function_start WHERE function_name = 'usdt:app:many'":          "arg3 is a floating-point number: args.arg3 reads it",
				"SELECT args.arg9 FROM function_start WHERE function_name = 'usdt:app:many'":     "usdt:app:many has no args.arg9",
				"SELECT args.arg0 FROM function_start WHERE function_name = 'usdt:app:stripped'": "args.arg0 of usdt:app:stripped cannot be read",
			} {
				if _, err := s.Execute(t.Context(), query); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %s", query, err, want)
				}
			}
			w.goOn()
			for i, c := range cases {
				got := read(t, queries[i])
				var have, want []string
				for n, row := range got.rows {
					have = append(have, strings.Join(row, " "))
					want = append(want, c.of(n+1))
				}
				if diff := cmp.Diff(want, have); diff != "" || len(have) != 3 {
					t.Errorf("%s: -want +got\n%s", c.columns, diff)
				}
			}
		})
	}
}
