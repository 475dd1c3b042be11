package server_test

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// passed is a function of a target, what it is passed and returns, and how much of that is
// known at least in every build: names of arguments, and "retval".
type passed struct {
	name   string
	values map[string]string
	known  string
}

// argumentsNamed are values of arguments a to h: 1001 to 1008, and others.
func argumentsNamed(names string, others ...string) map[string]string {
	values := map[string]string{}
	for _, n := range names {
		values["args."+string(n)] = fmt.Sprint(1001 + n - 'a')
	}
	for i := 0; i+1 < len(others); i += 2 {
		values[others[i]] = others[i+1]
	}
	return values
}

// TestUnreadIsNotGuessed reads what functions are passed and return that compilers change
// as they like where nobody looks: it is what it is, or refused.
func TestUnreadIsNotGuessed(t *testing.T) {
	testenv.NeedUprobes(t)
	cpp := []passed{
		{"global_", argumentsNamed("ab", "retval", "1003"), "args.b retval"},
		{"static_", argumentsNamed("ab", "retval", "1004"), "args.b retval"},
		{"pointed", argumentsNamed("ab", "retval", "1005"), "args.b retval"},
		{"dropped", argumentsNamed("ab", "retval", "2003"), "args.a args.b"},
		{"used", argumentsNamed("ab", "retval", "1003002"), "args.a args.b retval"},
		{"passed_on", argumentsNamed("ab", "retval", "1003002"), "args.a args.b"},
		{"escaping", argumentsNamed("abc", "retval", "2005"), "retval"},
		{"part", argumentsNamed("a", "args.p.x", "1020", "args.p.y", "1021", "retval", "2022"), "args.a retval"},
		{"many", argumentsNamed("abcgh", "retval", "2011"), "args.c args.h retval"},
		{"wrapped", argumentsNamed("a"), "args.a"},
		{"constant", argumentsNamed("ab", "retval", "7"), "args.b"},
		{"always", argumentsNamed("a", "retval", "9"), "args.a"},
		{"Shelf::put", argumentsNamed("ab", "args.this.room", "5", "retval", "1006"), "args.b retval"},
		{"Shelf::take", argumentsNamed("a", "retval", "1006"), "args.a"},
		{"Shelf::make", argumentsNamed("ab", "retval", "1006"), "args.a"},
		{"either", argumentsNamed("ab", "retval", "1008"), "args.b retval"},
	}
	rust := []passed{
		{"rusty::unread", argumentsNamed("ab", "retval", "1003"), "args.b retval"},
		{"rusty::pointed", map[string]string{"args._a": "1001", "args.b": "1002", "retval": "1005"}, "args.b retval"},
		{"rusty::dropped", argumentsNamed("ab", "retval", "true"), "args.a args.b"},
		{"rusty::used", argumentsNamed("ab", "retval", "1003002"), "args.a args.b retval"},
		{"rusty::passed_on", argumentsNamed("ab", "retval", "1003002"), "args.a args.b"},
		{"rusty::text", argumentsNamed("b", "args.s", "seven", "retval", "1007"), "args.b retval"},
		{"rusty::owned", argumentsNamed("ab", "retval", "1002"), "args.b retval"},
		{"rusty::Shelf::put", map[string]string{"args.self.room": "5", "args._a": "1001", "args.b": "1002", "retval": "1006"}, "args.b retval"},
		{"rusty::Shelf::look", argumentsNamed("a", "args.self.room", "5", "retval", "1006"), "args.a retval"},
		{"rusty::Shelf::take", argumentsNamed("a", "args.self.room", "5", "retval", "1006"), "args.a"},
	}
	c := func(compiler string, flags ...string) func(t *testing.T) string {
		return func(t *testing.T) string {
			program := filepath.Join(t.TempDir(), "program")
			flags := append(flags, "-g", "-o", program, filepath.Join("testdata", "results", "unread.cpp"))
			if out, err := exec.Command(testenv.NeedProgram(t, compiler), flags...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", compiler, err, out)
			}
			return program
		}
	}
	for _, build := range []struct {
		name      string
		compile   func(t *testing.T) string
		functions []passed
	}{
		{"GCC of the whole program", c("g++", "-O3", "-flto", "-fwhole-program"), cpp},
		{"Clang", c("clang++", "-O2"), cpp},
		{"Rust", func(t *testing.T) string {
			return compileRust(t, filepath.Join("testdata", "results", "unread.rs"), "-Copt-level=3")
		}, rust},
	} {
		t.Run(build.name, func(t *testing.T) {
			w := startWaiting(t, build.compile(t))
			s := newSession(t, wire.Options{PID: w.pid()})
			type asked struct {
				passed
				columns []string
				result  wire.Result
			}
			var queries []asked
			for _, f := range build.functions {
				q := asked{passed: f}
				from := fmt.Sprintf(" FROM function_duration WHERE function_name LIKE '%s%%'", f.name)
				for _, column := range slices.Sorted(maps.Keys(f.values)) {
					if _, err := s.Execute(t.Context(), "EXPLAIN SELECT "+column+from); err == nil {
						q.columns = append(q.columns, column)
					} else if slices.Contains(strings.Fields(f.known), column) {
						t.Errorf("%s of %s: %v", column, f.name, err)
					}
				}
				if len(q.columns) > 0 {
					q.result = start(t, s, "SELECT "+strings.Join(q.columns, ", ")+from)
					queries = append(queries, q)
				}
			}
			w.goOn()
			for _, q := range queries {
				got := read(t, q.result)
				if len(got.rows) < 3 {
					t.Errorf("%s: no calls", q.name)
				}
				for _, row := range got.rows {
					for i, column := range q.columns {
						if row[i] == "NULL" && !slices.Contains(strings.Fields(q.known), column) {
							continue
						}
						if row[i] != q.values[column] {
							t.Errorf("%s of %s is %s, want %s", column, q.name, row[i], q.values[column])
						}
					}
				}
			}
		})
	}
}
