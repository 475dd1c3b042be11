package parser

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []string
	}{
		{"nothing", " -- a comment;\n ; ;", nil},
		{"semicolons", "SHOW STREAMS; SHOW DROPS", []string{"SHOW STREAMS", "SHOW DROPS"}},
		{"strings", "SELECT ';' FROM \"a;b\"; SHOW DROPS", []string{"SELECT ';' FROM \"a;b\"", "SHOW DROPS"}},
		{"comments", "SHOW /* ; */ STREAMS -- ;\n; -- x\nSHOW DROPS -- ;", []string{"SHOW /* ; */ STREAMS", "SHOW DROPS"}},
		{"parentheses", "SELECT f(a; b); SHOW DROPS", []string{"SELECT f(a; b)", "SHOW DROPS"}},
		{"trigger", "CREATE TRIGGER t x WHEN y BEGIN STOP a; STOP b; END; SHOW DROPS",
			[]string{"CREATE TRIGGER t x WHEN y BEGIN STOP a; STOP b; END", "SHOW DROPS"}},
		{"CASE in an action", "CREATE TRIGGER t x WHEN CASE WHEN y THEN z END BEGIN SELECT CASE a WHEN b THEN c END FROM d; STOP e END; SHOW DROPS",
			[]string{"CREATE TRIGGER t x WHEN CASE WHEN y THEN z END BEGIN SELECT CASE a WHEN b THEN c END FROM d; STOP e END", "SHOW DROPS"}},
		{"columns called end", "CREATE TRIGGER t x WHEN args.begin BEGIN MONITOR y WHERE args.end; STOP z END; SHOW DROPS",
			[]string{"CREATE TRIGGER t x WHEN args.begin BEGIN MONITOR y WHERE args.end; STOP z END", "SHOW DROPS"}},
		{"EXPLAIN", "EXPLAIN CREATE TRIGGER t x WHEN y BEGIN STOP a; STOP b END; explain analyze create model m as (select a from b) SHOW DROPS",
			[]string{"EXPLAIN CREATE TRIGGER t x WHEN y BEGIN STOP a; STOP b END", "explain analyze create model m as (select a from b)", "SHOW DROPS"}},
		{"BEGIN elsewhere", "BEGIN; SHOW DROPS", []string{"BEGIN", "SHOW DROPS"}},
		{"CASE not ended", "SELECT CASE a FROM b; SHOW DROPS", []string{"SELECT CASE a FROM b", "SHOW DROPS"}},
		{"CREATE STREAM", "CREATE STREAM s AS (SELECT f(a) FROM (SELECT b FROM c) d) SELECT a FROM s",
			[]string{"CREATE STREAM s AS (SELECT f(a) FROM (SELECT b FROM c) d)", "SELECT a FROM s"}},
		{"CREATE OR REPLACE MODEL", "create or replace model m as (select a from b); SHOW DROPS",
			[]string{"create or replace model m as (select a from b)", "SHOW DROPS"}},
		{"CREATE STREAM, many", "CREATE STREAM a AS (SELECT b FROM c) CREATE STREAM d AS (SELECT e FROM f) SHOW DROPS",
			[]string{"CREATE STREAM a AS (SELECT b FROM c)", "CREATE STREAM d AS (SELECT e FROM f)", "SHOW DROPS"}},
		{"CREATE STREAM without parentheses", "CREATE STREAM s AS WITH q AS (SELECT a FROM b) SELECT c FROM (SELECT d FROM q) AS e; SHOW DROPS",
			[]string{"CREATE STREAM s AS WITH q AS (SELECT a FROM b) SELECT c FROM (SELECT d FROM q) AS e", "SHOW DROPS"}},
		{"WITH", "WITH q AS (SELECT a FROM b) SELECT stream AS c FROM q", []string{"WITH q AS (SELECT a FROM b) SELECT stream AS c FROM q"}},
		{"not closed", "SHOW STREAMS; SELECT 'a; b", []string{"SHOW STREAMS", "SELECT 'a; b"}},
	} {
		var got []string
		for _, p := range Split(c.src) {
			got = append(got, p.Text)
			if !strings.HasPrefix(c.src[p.Offset:], p.Text) {
				t.Errorf("%s: %q does not stand at %d", c.name, p.Text, p.Offset)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestComplete(t *testing.T) {
	for src, want := range map[string]bool{
		"":                                true,
		"  -- only a comment":             true,
		"/* begun":                        false,
		"SELECT a":                        false,
		"SELECT a FROM b":                 false,
		"SELECT a FROM b;":                true,
		"SELECT a FROM b; -- done":        true,
		"SELECT a FROM b; SHOW":           false,
		"SELECT ';":                       false,
		"SELECT ';'":                      false,
		"SELECT \"a;":                     false,
		"SELECT a FROM b /* ;":            false,
		"SELECT count(a FROM b;":          true, // wrong for ever: it should be told
		"SELECT ` FROM b;":                true,
		"FROB;":                           true,
		"CREATE STREAM s AS (SELECT a":    false,
		"CREATE STREAM s AS (SELECT a)":   true,
		"CREATE STREAM s AS SELECT (a)":   false,
		"CREATE TRIGGER t x WHEN y BEGIN": false,
		"CREATE TRIGGER t x WHEN y BEGIN STOP a;":                                      false,
		"CREATE TRIGGER t x WHEN y BEGIN SELECT CASE a WHEN b THEN c END":              false,
		"CREATE TRIGGER t x WHEN y BEGIN SELECT CASE a WHEN b THEN c END FROM d END":   true,
		"CREATE TRIGGER t x WHEN y BEGIN SELECT CASE a WHEN b THEN c END FROM d; END;": true,
	} {
		if got := Complete(src); got != want {
			t.Errorf("%q: complete is %t", src, got)
		}
	}
}

func TestHighlight(t *testing.T) {
	letters := map[TokenKind]byte{
		TokenName: 'n', TokenKeyword: 'K', TokenFunction: 'f', TokenString: 's', TokenNumber: '1', TokenParam: '$',
		TokenOperator: 'o', TokenComment: '-', TokenInvalid: '!',
	}
	for _, c := range []struct{ src, want string }{
		{"SELECT count(*), a.from FROM sample WHERE b > 70% -- c", "KKKKKK fffffoooo nonnnn KKKK nnnnnn KKKKK n o 111 ----"},
		{"CREATE ONCE TRIGGER once ON stream", "KKKKKK KKKK KKKKKKK nnnn KK nnnnnn"},
		{"BEGIN SAMPLE(a, 1s); STOP stop END", "KKKKK KKKKKKono 11oo KKKK nnnn KKK"},
		{"SHOW STREAMS LIKE 'x'; USE PID 3", "KKKK KKKKKKK KKKK ssso KKK KKK 1"},
		{"EXPLAIN SELECT final, $1 FROM \"a\" EMIT FINAL", "KKKKKKK KKKKKK nnnnno $$ KKKK nnn KKKK KKKKK"},
		{"SELECT ` 'open", "KKKKKK ! !!!!!"},
		{"a FOLLOWED BY b 5msec", "n KKKKKKKK KK n !!!!!"},
	} {
		got := []byte(strings.Repeat(" ", len(c.src)))
		for _, tok := range Highlight(c.src) {
			for i := tok.Start; i < tok.Stop; i++ {
				got[i] = letters[tok.Kind]
			}
		}
		if string(got) != c.want {
			t.Errorf("%s\n%s, not\n%s", c.src, got, c.want)
		}
	}
}
