package parser

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func sorted(list []string) []string { slices.Sort(list); return list }

// corpus seeds the fuzzers: a statement of each kind, and broken ones.
var corpus = []string{
	"SELECT FROM SAMPLE(cpu_usage, 100ms)",
	"SELECT fd.function_name, AVG(fd.duration) FROM function_duration fd, WINDOW JOIN SAMPLE(cpu_usage, 100ms) as cu WINDOW 1min WHERE cu.percent_busy > 70% AND fd.function_name IN (f1, f2,...) GROUP BY fd.function_name",
	"CREATE ONCE TRIGGER t f1 WINDOW JOIN f2 WINDOW 1min f1 FOLLOWED BY f2 WHEN a = 'x' BEGIN SAMPLE(c, 1s); MONITOR s WHERE x FOR 5s; STOP s; NOTIFY 'it''s'; WEBHOOK 'u' END",
	"WITH a AS (SELECT b FROM c) SELECT DISTINCT CASE x WHEN 1 THEN 2 ELSE - -3 END, count(*) FILTER (WHERE z), topk(a, n => 3), t.* FROM a LEFT WINDOW JOIN b WITHIN 1s ON p = q UNION ALL SELECT * FROM d ORDER BY 1 DESC LIMIT 5 EMIT EVERY 1s FOR 1d",
	"SELECT a FROM SESSION(TUMBLE(CONSISTENT((SELECT * FROM e)), 1s), 5min PARTITION BY a, b) x ASOF JOIN HOP(file('x.csv'), 1, 10) y JOIN series(10) z",
	"SELECT NOT a BETWEEN 1 AND 2 OR b NOT LIKE 'x' AND c !~ d || e::BIGINT % 3 FROM s WHERE $1 IS NOT NULL AND INTERVAL '1' MINUTE > 0x10 -- c\n/* d */",
	"EXPLAIN ANALYZE SELECT 1 FROM a; CREATE OR REPLACE STREAM x AS (SELECT a FROM b) CREATE MODEL m AS SELECT a FROM x; DROP MODEL m",
	"INSERT INTO file('o.csv') SELECT a FROM b; USE PID 3; USE 'x'; USE NONE; STOP 3; SUSPEND THREAD 'x'; RESUME; SET a = -5%; SHOW STREAMS LIKE 'x'; DESCRIBE FUNCTION f; DESCRIBE sys.queries",
	"SELECT a FORM x", "SELECT (((", "'", "/*", "\"", "CREATE TRIGGER BEGIN CASE ; END", "SELECT 9223372036854775808 - -9223372036854775808 FROM x",
	"SELECT 1e999, 5msec, 1e5s FROM x", "\xff\x00", "SELECT \u202e FROM x", ";;)", "IN IS NOT", "SELECT a,", "7%(", "CREATE STREAM x AS (SELECT", "SELECT INTERVAL '1' MI",
}

func FuzzParse(f *testing.F) {
	for _, src := range corpus {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if _, err := Parse(src); err != nil {
			checkError(t, src, err)
			if !utf8.ValidString(src) {
				return
			}
			if text := Format(err.(*Error)); !strings.HasPrefix(text, "error: ") || strings.Count(text, "\n") > 3 {
				t.Errorf("%q: %s", src, text)
			}
		}
		Complete(src)
		at := 0
		for _, tok := range Highlight(src) {
			if tok.Start < at || tok.Stop <= tok.Start || tok.Stop > len(src) || strings.TrimSpace(src[at:tok.Start]) != "" {
				t.Fatalf("%q: the token %v after byte %d", src, tok, at)
			}
			at = tok.Stop
		}
		at = 0
		for _, p := range Split(src) {
			if p.Offset < at || p.Text == "" || !strings.HasPrefix(src[p.Offset:], p.Text) {
				t.Fatalf("%q: the piece %+v", src, p)
			}
			at = p.Offset + len(p.Text)
		}
	})
}

// TestNames holds words that are keywords elsewhere to be names.
func TestNames(t *testing.T) {
	for _, name := range strings.Fields(`timestamp duration stack event state count handler class module time thread process
		stream trigger model function every final changes once pid none show stop set use sample tumble filter interval cast
		first last min max left right full inner desc asc offset rate within text json date year value key user type`) {
		for _, src := range []string{
			"SELECT " + name + " FROM s WHERE " + name + " = 'x' AND s." + name + " IN (" + name + ") GROUP BY " + name,
			"SELECT a AS " + name + " FROM " + name,
			"SELECT f(" + name + ", " + name + " => " + name + ") FROM s AS " + name,
			"SET " + name + " = " + name,
			"DESCRIBE " + name,
		} {
			if _, err := Parse(src); err != nil {
				t.Errorf("%v", err)
			}
		}
	}
	for name := range reserved {
		if _, err := Parse("SELECT " + name + " AS b FROM s"); err == nil && name != "NULL" && name != "TRUE" && name != "FALSE" {
			t.Errorf("%s is reserved and named a column", name)
		}
		for _, src := range []string{`SELECT "` + name + `" FROM "` + name + `"`, "SELECT args." + name + " FROM s"} {
			if s, err := Parse(src); err != nil {
				t.Errorf("%v", err)
			} else {
				roundTrip(t, s)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	repeat := strings.Repeat
	for _, c := range []struct{ name, src, msg string }{
		{"parentheses", "SELECT " + repeat("(", 1e5) + "1" + repeat(")", 1e5) + " FROM s", "nested more than 200 levels"},
		{"queries", repeat("SELECT a FROM (", 1000), "nested more than 200 levels"},
		{"sources", "SELECT a FROM " + repeat("TUMBLE(", 1e5), "nested more than 200 levels"},
		{"NOT", "SELECT a FROM s WHERE " + repeat("NOT ", 1000) + "b", "nested more than 200 levels"},
		{"minus", "SELECT " + repeat("- ", 1000) + "b FROM s", "nested more than 200 levels"},
		{"casts", "SELECT b" + repeat("::BIGINT", 1000) + " FROM s", "nested more than 200 levels"},
		{"cases", "SELECT " + repeat("CASE ", 1000) + " FROM s", "nested more than 200 levels"},
		{"operators", "SELECT a" + repeat(" + a", 1e5) + " FROM s", "more than 5000 operators"},
		{"length", "SELECT '" + repeat("x", maxLength) + "' FROM s", "longer than 1 MiB"},
		{"garbage", "SELECT a FROM s WHERE " + repeat("x ", 10_000), "not expected"},
		{"words", "SELECT a FROM s WHERE " + repeat("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ", 25000), "more than 20000 words"},
		{"columns", "SELECT a" + repeat(", a", 5000) + " FROM s", "more than 8 MiB of memory"},
	} {
		_, err := Parse(c.src)
		if err == nil || !strings.Contains(err.Error(), c.msg) {
			t.Errorf("%s: the error is %.300v", c.name, err)
			continue
		}
		checkError(t, c.src, err)
	}
	for _, src := range []string{
		"SELECT " + repeat("(", 199) + "1" + repeat(")", 199) + " FROM s",
		"SELECT a" + repeat(" + a", maxOperators) + " FROM s",
		"SELECT a FROM s WHERE b IN (1" + repeat(", 12", 1e5) + ")",
	} {
		s, err := Parse(src)
		if err != nil {
			t.Fatalf("%.300v", err)
		}
		if _, err := Parse(s.String()); err != nil {
			t.Errorf("%.300v", err)
		}
	}
}

func TestParseOne(t *testing.T) {
	for src, msg := range map[string]string{
		"":                         "there is no statement",
		" -- nothing\n;":           "there is no statement",
		"SHOW STREAMS; SHOW DROPS": "this begins a second",
		"CREATE STREAM s AS (SELECT a FROM b) SHOW STREAMS": "this begins a second",
	} {
		_, err := Parse(src)
		if err == nil || !strings.Contains(err.Error(), msg) {
			t.Errorf("%q: %v", src, err)
			continue
		}
		checkError(t, src, err)
	}
	if s, err := Parse(" SHOW STREAMS ; -- done"); err != nil || s.String() != "SHOW STREAMS" {
		t.Errorf("%v, %v", s, err)
	}
}

func TestKeywords(t *testing.T) {
	all := Keywords()
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("not in order, or not once each: %v", all)
	}
	for _, w := range []string{"SELECT", "FOLLOWED", "TUMBLE", "SERIES", "STREAMS", "ANALYZE"} {
		if !slices.Contains(all, w) {
			t.Errorf("%s is not among them", w)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range []struct{ name, src string }{{"sample", corpus[0]}, {"join", corpus[1]}, {"trigger", corpus[2]}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.src)))
			for b.Loop() {
				if _, err := Parse(c.src); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "statements/s")
		})
	}
	b.Run("error", func(b *testing.B) {
		for b.Loop() {
			if _, err := Parse("SELECT a FORM x WHERE b > 1"); err == nil {
				b.Fatal("no error")
			}
		}
	})
	long := "SELECT a FROM s WHERE b IN (1" + strings.Repeat(", 123456", 1e5) + ")"
	b.Run("long", func(b *testing.B) {
		b.SetBytes(int64(len(long)))
		for b.Loop() {
			if _, err := Parse(long); err != nil {
				b.Fatal(err)
			}
		}
	})
}
