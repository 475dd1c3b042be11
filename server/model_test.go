package server_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

const fileUses = `timestamp,tid,token
1,1,open
2,1,read
3,2,open
4,2,write
5,1,close
6,2,read
7,2,close
`

const misuses = `timestamp,tid,token
1,1,open
2,1,read
3,2,open
4,2,truncate
5,1,read
6,3,open
7,1,close
8,2,close
9,3,read
10,3,close
11,4,open
`

// modelSession is a session of an engine that keeps its models in dir, with the
// tables uses.csv and misuses.csv in it, too.
func modelSession(t testing.TB, dir string) wire.Session {
	t.Helper()
	write(t, filepath.Join(dir, "uses.csv"), fileUses)
	write(t, filepath.Join(dir, "misuses.csv"), misuses)
	return newSessionOf(t, server.Options{ModelDir: filepath.Join(dir, "models")}, wire.Options{})
}

// done runs a statement whose answer is a message.
func message(t testing.TB, s wire.Session, statement string) string {
	t.Helper()
	r := start(t, s, statement)
	read(t, r)
	return r.Message()
}

// A model outlives the engine that made it, until it is dropped.
func TestModelIsKept(t *testing.T) {
	dir := t.TempDir()
	at := func(statement string) string { return strings.ReplaceAll(statement, "DIR", dir) }
	create := at("CREATE MODEL \"a/b c\" AS SELECT AUTOMATON(token, 2, sequence => tid) FROM file('DIR/uses.csv')")
	s := modelSession(t, dir)
	if got := message(t, s, create); got != "model a/b c created: an automaton of 2 sequences, 5 states, 5 arcs" {
		t.Error(got)
	}
	if got := refusal(t, s, create); !strings.Contains(got, "there is a model a/b c already") {
		t.Error(got)
	}
	// The groups of a query are sequences of one model.
	grouped := strings.NewReplacer("CREATE", "CREATE OR REPLACE", ", sequence => tid", "").Replace(create) + " GROUP BY tid"
	if got := message(t, s, grouped); !strings.Contains(got, "2 sequences, 5 states, 5 arcs") {
		t.Error(got)
	}
	message(t, s, at("CREATE MODEL g AS SELECT GRAMMAR(token, rle => 2) FROM file('DIR/uses.csv') WHERE tid = 1"))

	s = modelSession(t, dir) // of another engine
	a := run(t, s, "SHOW MODELS")
	if len(a.rows) != 2 || strings.Join(a.rows[0][:5], "|") != "a/b c|automaton|5 states, 5 arcs|2|7" || !strings.Contains(a.rows[0][6], "CREATE OR REPLACE MODEL") || a.rows[1][0] != "g" {
		t.Errorf("%v", a.rows)
	}
	a = run(t, s, at("SELECT tid, CONFORMS(token, \"a/b c\"), ANOMALY(token, \"a/b c\"), CONFORMS(token, g) FROM file('DIR/misuses.csv') GROUP BY tid"))
	want := []string{
		"1 false read at symbol 3, expected close false",
		"2 false truncate at symbol 2, expected read or write false",
		"3 true NULL true",
		"4 false the end after 1 symbols, expected read or write false",
	}
	for i, row := range a.rows {
		if got := strings.Join(row, " "); i >= len(want) || got != want[i] {
			t.Errorf("row %d: %s, want %s", i, got, want[i])
		}
	}
	// What may still go on is no anomaly.
	if a := run(t, s, at("SELECT CONFORMS(token, \"a/b c\", truncated => TRUE) FROM file('DIR/misuses.csv') WHERE tid = 4")); a.rows[0][0] != "true" {
		t.Errorf("%v", a.rows)
	}
	if a := run(t, s, `DESCRIBE "a/b c"`); len(a.rows) != 5 || a.rows[0][0] != "0 open 1" || !strings.Contains(a.notices[0], "AUTOMATON") {
		t.Errorf("%v %v", a.rows, a.notices)
	}
	if got := message(t, s, `DROP MODEL "a/b c"`); got != "model a/b c dropped" {
		t.Error(got)
	}
	if got := refusal(t, s, `DROP MODEL gg`); !strings.Contains(got, "there is no model gg") {
		t.Error(got)
	}
	if a := run(t, modelSession(t, dir), "SHOW MODELS"); len(a.rows) != 1 || a.rows[0][0] != "g" {
		t.Errorf("%v", a.rows)
	}
}

func TestModelsAreRefused(t *testing.T) {
	dir := t.TempDir()
	s := modelSession(t, dir)
	from := " FROM file('" + filepath.Join(dir, "uses.csv") + "')"
	message(t, s, "CREATE MODEL m AS SELECT AUTOMATON(token)"+from)
	message(t, s, "CREATE MODEL g AS SELECT GRAMMAR(token)"+from)
	for statement, want := range map[string]string{
		"CREATE MODEL n AS SELECT LOOP(token, 3)" + from:                      "LOOP does not describe what may follow what",
		"CREATE MODEL n AS SELECT token" + from:                               "one column, an automaton or a grammar",
		"CREATE MODEL n AS SELECT AUTOMATON(token), COUNT(*)" + from:          "one column, an automaton or a grammar",
		"CREATE MODEL n AS SELECT AUTOMATON(token)" + from + " EMIT EVERY 1s": "made from the final result",
		"SELECT CONFORMS(token, mm)" + from:                                   "there is no model mm",
		"SELECT CONFORMS(token)" + from:                                       "the last argument of CONFORMS is the name of a model",
		"SELECT ANOMALY(token, 3)" + from:                                     "the last argument of ANOMALY is the name of a model",
		"SELECT ANOMALY()" + from:                                             "ANOMALY needs a column and a model",
		"SELECT ANOMALY(token, m, wherever => TRUE)" + from:                   "ANOMALY has no argument called wherever",
		"SELECT ANOMALY(token, g, anywhere => TRUE)" + from:                   "a grammar does not say what follows in its middle",
	} {
		if got := refusal(t, s, statement); !strings.Contains(got, want) {
			t.Errorf("%s\n%s\nwant %s", statement, got, want)
		}
	}
	// Nothing came, so there is nothing to make a model of.
	r := start(t, s, "CREATE MODEL n AS SELECT AUTOMATON(token)"+from+" WHERE tid = 9")
	if _, err := r.Next(context.Background()); err == nil || !strings.Contains(err.Error(), "no sequences: there is nothing") {
		t.Error(err)
	}
	// A file that was spoilt is told, and does not hide the others.
	write(t, filepath.Join(dir, "models", "bad.json"), `{"name":"bad","model":{"endoscope_model":1}}`)
	s = modelSession(t, dir)
	if a := run(t, s, "SHOW MODELS"); len(a.rows) != 2 || len(a.notices) != 1 || !strings.Contains(a.notices[0], "model bad cannot be read") {
		t.Errorf("%v %v", a.rows, a.notices)
	}
	if got := refusal(t, s, "SELECT CONFORMS(token, bad)"+from); !strings.Contains(got, "model bad cannot be read") {
		t.Error(got)
	}
	if got := message(t, s, "DROP MODEL bad"); got != "model bad dropped" {
		t.Error(got)
	}
}

// Where models cannot be kept, they live as long as the engine, and a notice
// says so.
func TestModelThatCannotBeSaved(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "models"), "a file, no directory")
	s := modelSession(t, dir)
	from := " FROM file('" + filepath.Join(dir, "uses.csv") + "') WHERE tid = 1"
	r := start(t, s, "CREATE MODEL m AS SELECT AUTOMATON(token)"+from)
	if a := read(t, r); len(a.notices) != 1 || !strings.Contains(a.notices[0], "not saved") || !strings.HasPrefix(r.Message(), "model m created") {
		t.Errorf("%v, %s", a.notices, r.Message())
	}
	if a := run(t, s, "SELECT CONFORMS(token, m)"+from); a.rows[0][0] != "true" {
		t.Errorf("%v", a.rows)
	}
}

// EMIT CHANGES tells of each sequence once that it is followed, and once that it
// has left the model: a trigger over it is activated at the first call that does.
func TestAnomalyIsReportedOnce(t *testing.T) {
	dir := t.TempDir()
	s := modelSession(t, dir)
	message(t, s, "CREATE MODEL m AS SELECT AUTOMATON(n % 3, sequence => 0) FROM series(30)")
	// A series comes in batches, of which the first are as the model has it.
	query := "SELECT ANOMALY(CASE WHEN n = 5000 OR n > 9000 THEN 0 ELSE n % 3 END, m, truncated => TRUE) AS a FROM series(10000) EMIT CHANGES"
	a := run(t, s, query)
	if len(a.rows) != 2 || a.rows[0][0] != "NULL" || !strings.HasPrefix(a.rows[1][0], "0 at symbol 500") {
		t.Errorf("%v", a.rows)
	}
	run(t, s, "CREATE TRIGGER t ON ("+query+") WHEN a IS NOT NULL BEGIN NOTIFY 'it left the model' END")
	if a := triggered(t, s); len(a.rows) != 1 || !strings.Contains(a.rows[0][4], "0 at symbol 500") {
		t.Errorf("%v", a.rows)
	}
}

const fileUser = `
#include <string.h>
volatile long sink;
__attribute__((noinline, noclone)) void open_file(void) { sink += 1; }
__attribute__((noinline, noclone)) void read_file(void) { sink += 2; }
__attribute__((noinline, noclone)) void close_file(void) { sink += 3; }
int main(int argc, char **argv) {
	for (long n = 0; n < 100; n++) {
		open_file();
		for (long i = 0; i <= n % 3; i++) read_file();
		close_file();
		if (n == 60 && argc > 1 && !strcmp(argv[1], "wrong")) read_file();
	}
}
`

// A model of a program that ran, and an alert on the first call with which a
// later run leaves it.
func TestTriggerOnLeavingAModel(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, fileUser, "-O1")
	o := server.Options{ModelDir: t.TempDir()}
	of := " FROM function_start WHERE function_name IN (open_file, read_file, close_file)"
	s := newSessionOf(t, o, wire.Options{Command: []string{program}})
	if got := message(t, s, "CREATE MODEL files AS SELECT AUTOMATON(function_name, 2)"+of); !strings.Contains(got, "of 1 sequence,") {
		t.Fatal(got)
	}
	for argument, want := range map[string][]string{
		"right": nil,
		// 61 times open and close, and 20 times one, two and three reads, and one.
		"wrong": {`"anomaly":"read_file at symbol 244, expected open_file or ⊣"`},
	} {
		var h heard
		s := newSessionOf(t, o, wire.Options{Command: []string{program, argument}, Notify: h.add})
		run(t, s, "CREATE TRIGGER misuse ON (SELECT ANOMALY(function_name, files) AS anomaly"+of+" EMIT CHANGES) WHEN anomaly IS NOT NULL BEGIN NOTIFY 'a file is used wrongly' END")
		a := triggered(t, s)
		if len(a.rows) != len(want) || len(h.all()) != len(want) {
			t.Fatalf("%s: %v, %q", argument, a.rows, h.all())
		}
		for i, w := range want {
			if !strings.Contains(a.rows[i][4], w) {
				t.Errorf("%s: %s, want %s", argument, a.rows[i][4], w)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(o.ModelDir, "files.json")); err != nil {
		t.Error(err)
	}
}

// Objects that live and die are checked one after the other, each to its end,
// in the memory of those that live.
func TestAnomalyOfObjects(t *testing.T) {
	s := modelSession(t, t.TempDir())
	token := func(wrong, missing string) string {
		return "CASE WHEN n = " + wrong + " THEN 'seek' WHEN n % 3 = 0 THEN 'open' WHEN n % 3 = 1 THEN 'read' ELSE 'close' END, sequence => n / 3, born => n % 3 = 0, dies => n % 3 = 2 OR n = " + missing
	}
	message(t, s, "CREATE MODEL m AS SELECT AUTOMATON("+token("-1", "-1")+") FROM series(29)")
	run(t, s, "SET encoder_budget = 64KiB")
	for _, c := range [][3]string{
		{"-1", "-1", "NULL"},
		{"89995", "-1", "1 of 30000 sequences leave the model, first sequence 29998: seek at symbol 2, expected read"},
		{"-1", "60001", "1 of 30000 sequences leave the model, first sequence 20000: the end after 2 symbols, expected close"},
	} {
		query := "SELECT ANOMALY(" + strings.Replace(token(c[0], c[1]), ", sequence", ", m, sequence", 1) + ", truncated => TRUE) FROM series(90000)"
		if a := run(t, s, query); a.rows[0][0] != c[2] {
			t.Errorf("%s\n%v, want %s", query, a.rows, c[2])
		}
	}
}
