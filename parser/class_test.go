package parser_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/parser"
)

func TestClassify(t *testing.T) {
	for text, want := range map[string]parser.Class{
		"SELECT * FROM cpu_usage":                                      {Kind: "SELECT", Reads: true},
		"WITH a AS (SELECT * FROM cpu_usage) SELECT * FROM a":          {Kind: "SELECT", Reads: true},
		"explain SELECT * FROM cpu_usage":                              {Kind: "EXPLAIN", Reads: true},
		"EXPLAIN /**/ ANALYZE SELECT * FROM cpu_usage":                 {Kind: "EXPLAIN ANALYZE", Reads: true},
		"EXPLAIN CREATE MODEL m AS SELECT AUTOMATON(a) FROM cpu_usage": {Kind: "EXPLAIN", Reads: true},
		"show streams":       {Kind: "SHOW STREAMS", Reads: true},
		"DESCRIBE cpu_usage": {Kind: "DESCRIBE", Reads: true},
		"INSERT INTO file('a.csv') SELECT * FROM cpu_usage":                    {Kind: "INSERT"},
		"CREATE OR REPLACE STREAM s AS SELECT * FROM cpu_usage":                {Kind: "CREATE STREAM", Changes: true},
		"CREATE MODEL m AS SELECT AUTOMATON(a) FROM cpu_usage":                 {Kind: "CREATE MODEL", Changes: true},
		"-- a note\ncreate trigger t ON cpu_usage WHEN 1 BEGIN NOTIFY 'x' END": {Kind: "CREATE TRIGGER", Changes: true},
		"-- a note\nDROP TRIGGER t":                                            {Kind: "DROP TRIGGER", Changes: true},
		"DROP/**/MODEL m":                                                      {Kind: "DROP MODEL", Changes: true},
		"drop stream s;":                                                       {Kind: "DROP STREAM", Changes: true},
		"/**/STOP/**/7":                                                        {Kind: "STOP", Changes: true},
		"suspend":                                                              {Kind: "SUSPEND", Changes: true, Session: "reporting"},
		"/**/resume -- it":                                                     {Kind: "RESUME", Changes: true, Session: "reporting"},
		"SUSPEND thread 'a'":                                                   {Kind: "SUSPEND", Changes: true, Session: "reporting of thread a"},
		"RESUME/**/THREAD/**/'a'":                                              {Kind: "RESUME", Changes: true, Session: "reporting of thread a"},
		"USE NONE":                                                             {Kind: "USE", Session: "target"},
		"use/**/pid 7":                                                         {Kind: "USE", Session: "target"},
		"SET lateness = 1s":                                                    {Kind: "SET", Session: "setting lateness"},
		"set/**/Lateness/**/=/**/2s":                                           {Kind: "SET", Session: "setting lateness"},
	} {
		st, err := parser.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := parser.Classify(st); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// Every statement of the language has a class, and reads or does something.
func TestClassifyKnowsEveryStatement(t *testing.T) {
	files, err := filepath.Glob("testdata/parse/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	kinds := map[string]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			st, err := parser.Parse(line)
			if err != nil { // part of a statement, or of a tree
				continue
			}
			c := parser.Classify(st)
			kinds[c.Kind] = true
			if c.Kind == "" || c.Reads && (c.Changes || c.Session != "") {
				t.Errorf("%s: %+v", st, c)
			}
		}
	}
	if len(kinds) < 20 {
		t.Errorf("only %v were seen", kinds)
	}
}
