package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// TestConditionsOnValues gives the same rows whether the kernel tests conditions on
// arguments or the engine does.
func TestConditionsOnValues(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileC(t, filepath.Join("testdata", "values", "types.c"), "-g", "-O2")
	for _, kernel := range []string{"on", "off"} {
		w := startWaiting(t, program)
		s := newSession(t, wire.Options{PID: w.pid()})
		ask(t, s, "SET kernel = "+kernel)
		conditions := []struct {
			function, condition string
			rows                int
		}{
			{"integers", "args.i = -2000000000 AND args.uc > 100", 3},
			{"integers", "args.c < -100", 0},
			{"unsigneds", "args.yes AND NOT args.no AND args.u = 4000000000", 3},
			{"unsigneds", "args.color = 'GREEN'", 3},
			{"unsigneds", "args.color IN ('RED', 'GREEN') AND args.color LIKE 'GR%' AND args.color <> 'BLUE'", 3},
			{"unsigneds", "args.color = 'RED'", 0},
			{"texts", "args.text LIKE 'SELECT%'", 3},
			{"texts", "args.text NOT LIKE 'SELECT%'", 0},
			{"texts", "str(arg0, 6) IN ('INSERT', 'SELECT')", 3},
			{"texts", "args.empty = ''", 3},
			{"texts", "args.null IS NULL AND NOT (args.text = 'x')", 3},
			{"texts", "args.null = 'x' OR args.null <> 'x'", 0},
			{"fields", "args.req.id = -5 AND args.req.path = '/index.html'", 3},
			{"fields", "args.nothing.id IS NULL", 3},
			{"fields", "args.nothing.id = 0 OR args.nothing.id <> 0", 0},
			{"fields", "args.req.large = 9223372036854775808", 3},
			{"elements", "args.list[1].id = -2 AND args.list[0].grid[1][2] < 0", 3},
			{"elements", "args.argv[1] LIKE 'sec%' AND args.none[7].id IS NULL", 3},
			{"elements", "args.argv[2] IS NOT NULL OR args.numbers[1] = 6", 0},
		}
		var queries []wire.Result
		for _, c := range conditions {
			if said := lines(ask(t, s, fmt.Sprintf("EXPLAIN SELECT duration FROM function_duration WHERE function_name = '%s' AND (%s)", c.function, c.condition))); kernel == "on" && regexp.MustCompile(`(?m)^ *filter .*\(server\)`).MatchString(said) {
				t.Errorf("%s is not tested in the kernel:\n%s", c.condition, said)
			}
			queries = append(queries, start(t, s, fmt.Sprintf("SELECT duration FROM function_duration WHERE function_name = '%s' AND (%s)", c.function, c.condition)))
		}
		w.goOn()
		for i, c := range conditions {
			if got := len(read(t, queries[i]).rows); got != c.rows {
				t.Errorf("kernel %s: %s where %s: %d rows, want %d", kernel, c.function, c.condition, got, c.rows)
			}
		}
	}
}

// TestPostgresSlowStatements reads the text of slow statements from exec_simple_query,
// and compares with what the server itself logs of slow ones. Those here take far more
// time than the limit, or far less.
func TestPostgresSlowStatements(t *testing.T) {
	testenv.NeedUprobes(t)
	p := startPostgres(t, "log_statement=none", "log_min_duration_statement=500ms")
	s := newSession(t, wire.Options{Exe: p.exe})
	name := execSimpleQuery(t, s)
	q := start(t, s, fmt.Sprintf("SELECT str(arg0), duration FROM function_duration WHERE function_name = '%s' AND duration > 500ms", name))
	for _, statement := range []string{"SELECT 1", "SELECT pg_sleep(0.8), 'first'", "SELECT 2 /* quick */", "SELECT pg_sleep(0.8) /* second */"} {
		p.run("psql", "-h", p.dir, "-p", fmt.Sprint(p.port), "-c", statement, "bench")
	}
	q.Stop()
	got := read(t, q)
	complete(t, got)
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	var want, have []string
	for _, m := range regexp.MustCompile(`(?m)^LOG:  duration: [0-9.]+ ms  statement: (.*)$`).FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(m[1], "pg_sleep") {
			want = append(want, m[1])
		}
	}
	for _, row := range got.rows {
		if strings.Contains(row[0], "pg_sleep") {
			have = append(have, row[0])
		}
	}
	if diff := cmp.Diff(want, have); diff != "" || len(want) != 2 {
		t.Errorf("-logged +observed\n%s\n%s", diff, text)
	}
}

// TestTextsCutOff: what a setting cuts off is counted; a prefix is what was asked for.
func TestTextsCutOff(t *testing.T) {
	testenv.NeedUprobes(t)
	w := startWaiting(t, testenv.CompileC(t, filepath.Join("testdata", "values", "types.c"), "-g", "-O2"))
	s := newSession(t, wire.Options{PID: w.pid()})
	ask(t, s, "SET max_string = 8")
	const query = "SELECT %s FROM function_start WHERE function_name = 'fields'"
	cut := start(t, s, fmt.Sprintf(query, "args.req.path"))
	prefix := start(t, s, fmt.Sprintf(query, "str(args.req.path, 6)")+" AND str(args.req.path, 4) = '/ind'")
	w.goOn()
	for _, q := range []struct {
		result wire.Result
		text   string
		counts int
	}{{cut, "/index.h", 1}, {prefix, "/index", 0}} {
		got := read(t, q.result)
		complete(t, got)
		if len(got.rows) != 3 || got.rows[0][0] != q.text || len(got.summary.Counts) != q.counts {
			t.Errorf("%v, counted %v", got.rows, got.summary.Counts)
		}
	}
}
