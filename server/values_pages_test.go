package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// absentPages is the number of texts of pages.c, each on a page of its own.
const absentPages = 1000

func absentText(i int) string { return fmt.Sprintf("text %03d", i) }

// unreadableValues is the cause counted for memory that cannot be read.
const unreadableValues = "arguments that could not be read"

// timesCounted returns how often a cause was counted.
func timesCounted(a reply, cause string) (n uint64) {
	for _, c := range a.summary.Counts {
		if c.Cause == cause {
			n += c.N
		}
	}
	return n
}

// TestValuesOnAbsentPages reads texts and fields that the program itself never touches:
// each call's are right, and only what has no memory is NULL, and counted.
func TestValuesOnAbsentPages(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileC(t, filepath.Join("testdata", "values", "pages.c"), "-g", "-O1")
	var named, given [][]string
	for i := range absentPages {
		named = append(named, []string{absentText(i), fmt.Sprint(i)})
		given = append(given, []string{absentText(i)})
	}
	named = append(named, []string{"NULL", "NULL"}, []string{"NULL", "NULL"})
	var groups [][]string
	for i := range absentPages {
		groups = append(groups, []string{absentText(i), "1"})
	}
	groups = append(groups, []string{"NULL", "2"})
	type query struct {
		text string
		want [][]string
		bad  uint64 // calls with unreadable values
	}
	starts := query{"SELECT args.name, args.page.id FROM function_start WHERE function_name = 'named'", named, 1}
	durations := query{"SELECT args.name, args.page.id FROM function_duration WHERE function_name = 'named'", named, 1}
	results := query{"SELECT retval FROM function_duration WHERE function_name = 'give'", given, 0}
	numbered, typed := query{"SELECT str(arg1), arg0 FROM function_start WHERE function_name = 'usdt:app:page'", named[:absentPages], 0}, query{"SELECT str(args.arg1), args.arg0 FROM function_start WHERE function_name = 'usdt:app:page'", named[:absentPages], 0}
	number := query{"SELECT COUNT(*), SUM(arg0) FROM function_start WHERE function_name = 'usdt:app:page'", [][]string{{"1000", "499500"}}, 0}
	raw := query{"SELECT str(arg0), 0 * arg1 FROM function_start WHERE function_name = 'named' AND str(arg0) LIKE 'text 5%'", nil, 1}
	for i := 500; i < 600; i++ {
		raw.want = append(raw.want, []string{absentText(i), "0"})
	}
	grouped := query{"SELECT args.name, COUNT(*) FROM function_start WHERE function_name = 'named' GROUP BY args.name ORDER BY args.name", groups, 1}
	folded := query{"SELECT COUNT(*), SUM(args.page.id) FROM function_duration WHERE function_name = 'named' AND args.name LIKE 'text 5%'", [][]string{{"100", "54950"}}, 1}
	var nowhere [][]string
	for range named {
		nowhere = append(nowhere, []string{"NULL", "NULL"})
	}
	for _, c := range []struct {
		pages string
		set   []string
		query query
	}{
		{"untouched", nil, starts},
		{"dropped", nil, starts},
		{"reclaimed", nil, starts},
		{"dropped", nil, durations},
		{"dropped", nil, results},
		{"dropped", nil, raw},
		{"dropped", nil, numbered},
		{"dropped", nil, typed},
		{"dropped", nil, number},
		{"dropped", nil, grouped},
		{"dropped", nil, folded},
		{"dropped", []string{"probe_links = 'multi'"}, durations},
		{"dropped", []string{"probe_links = 'multi'"}, results},
		{"dropped", []string{"probe_links = 'perf'"}, durations},
		{"dropped", []string{"return_probes = 'exits'"}, durations},
		{"dropped", []string{"return_probes = 'exits'"}, results},
		{"dropped", []string{"return_probes = 'exits'"}, folded},
		{"dropped", []string{"kernel = off"}, folded},
		{"dropped", []string{"absent_memory = 'null'"}, query{starts.text, nowhere, absentPages + 1}},
	} {
		t.Run(strings.Join(append(slices.Clone(c.set), c.pages, c.query.text), ", "), func(t *testing.T) {
			w := startWaiting(t, program, c.pages)
			s := newSession(t, wire.Options{PID: w.pid()})
			for _, set := range c.set {
				ask(t, s, "SET "+set)
			}
			q := start(t, s, c.query.text)
			witness := start(t, s, "SELECT arg0 FROM function_start WHERE function_name = 'report'")
			w.goOn()
			got := read(t, q)
			complete(t, got)
			if !slices.EqualFunc(got.rows, c.query.want, slices.Equal) {
				t.Errorf("%d rows, want %d\ngot  %.300q\nwant %.300q", len(got.rows), len(c.query.want), fmt.Sprint(got.rows), fmt.Sprint(c.query.want))
			}
			if n := timesCounted(got, unreadableValues); n != c.query.bad {
				t.Errorf("%d calls had unreadable values, want %d", n, c.query.bad)
			}
			said := read(t, witness)
			if len(said.rows) != 1 {
				t.Fatalf("the program reported %v", said.rows)
			}
			absent, err := strconv.Atoi(said.rows[0][0])
			if err != nil || absent == 0 || c.pages == "dropped" && absent != 3*absentPages {
				t.Errorf("%s of %d pages were absent", said.rows[0][0], 3*absentPages)
			}
			if err := w.cmd.Wait(); err != nil {
				t.Errorf("the program ended with %v", err)
			}
		})
	}
}

// TestValuesThatComeLate: a thread whose argument is on a page that comes late waits for
// it, and is counted. Calls of another thread on the same processor go on meanwhile, each
// with its own values.
func TestValuesThatComeLate(t *testing.T) {
	testenv.NeedUprobes(t)
	const late = 8
	program := testenv.CompileC(t, filepath.Join("testdata", "values", "late.c"), "-g", "-O1", "-pthread")
	for _, c := range []struct {
		set, columns, from string
		folded             bool
	}{
		{"probe_links = auto", "args.name, args.i", "function_start", false},
		{"probe_links = auto", "args.name, args.i", "function_duration", false},
		{"probe_links = 'multi'", "args.name, args.i", "function_duration", false},
		{"return_probes = 'exits'", "args.name, args.i", "function_duration", false},
		{"probe_links = auto", "COUNT(*), SUM(args.i), COUNT(*) FILTER (WHERE args.name LIKE 'late%')", "TUMBLE(function_start, 250ms)", true},
		{"return_probes = 'exits'", "COUNT(*), SUM(args.i), COUNT(*) FILTER (WHERE args.name LIKE 'late%')", "TUMBLE(function_duration, 250ms)", true},
	} {
		t.Run(c.set+", "+c.from, func(t *testing.T) {
			w := startWaiting(t, program)
			s := newSession(t, wire.Options{PID: w.pid()})
			ask(t, s, "SET "+c.set)
			ask(t, s, "SET lateness = 1s")
			text := "SELECT " + c.columns + " FROM " + c.from + " WHERE function_name = 'named'"
			if said := lines(ask(t, s, "EXPLAIN "+text)); c.folded && !strings.Contains(said, "one group  (kernel)") {
				t.Errorf("the kernel does not aggregate:\n%s", said)
			}
			q := start(t, s, text)
			witness := start(t, s, "SELECT arg0, arg1 FROM function_start WHERE function_name = 'report'")
			w.goOn()
			got := read(t, q)
			complete(t, got)
			said := read(t, witness)
			if len(said.rows) != 1 || said.rows[0][1] != "0" {
				t.Fatalf("calls, and calls that did not wait: %v, %+v", said.rows, said.summary)
			}
			if err := w.cmd.Wait(); err != nil {
				t.Errorf("the program ended with %v", err)
			}
			calls, _ := strconv.Atoi(said.rows[0][0])
			if c.folded {
				var sums [3]int
				for _, row := range got.rows {
					for i := range sums {
						n, _ := strconv.Atoi(row[i])
						sums[i] += n
					}
				}
				if want := [3]int{calls + late, calls*(calls-1)/2 + late*(late-1)/2, late}; sums != want {
					t.Errorf("got %v, want %v", sums, want)
				}
			} else {
				next, nextLate := 0, 0
				for _, row := range got.rows {
					switch {
					case slices.Equal(row, []string{fmt.Sprintf("here %d", next&7), fmt.Sprint(next)}):
						next++
					case slices.Equal(row, []string{fmt.Sprintf("late %d", nextLate), fmt.Sprint(nextLate)}):
						nextLate++
					default:
						t.Fatalf("after %d and %d calls: %v", next, nextLate, row)
					}
				}
				if next != calls || nextLate != late {
					t.Errorf("%d and %d calls, want %d and %d", next, nextLate, calls, late)
				}
			}
			if n := timesCounted(got, unreadableValues); n != 0 {
				t.Errorf("%d calls had unreadable values", n)
			}
			if n := timesCounted(got, "calls that waited for memory"); n != late {
				t.Errorf("%d calls waited, want %d", n, late)
			}
			if n := timesCounted(got, "milliseconds of waiting for memory"); n < late*50 {
				t.Errorf("they waited %d ms, want %d at least", n, late*50)
			}
		})
	}
}

// TestQueryEndsWhileAThreadWaits: a query that ends while a thread waits for a page ends
// when the page has come, with the row of that call.
func TestQueryEndsWhileAThreadWaits(t *testing.T) {
	testenv.NeedUprobes(t)
	w := startWaiting(t, testenv.CompileC(t, filepath.Join("testdata", "values", "late.c"), "-g", "-O1", "-pthread"), "told")
	s := newSession(t, wire.Options{PID: w.pid()})
	q := start(t, s, "SELECT args.name FROM function_start WHERE function_name = 'named' AND args.name LIKE 'late%'")
	w.goOn()
	testenv.Until(t, "a thread waits for its page", func() bool {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", w.pid()))
		return slices.ContainsFunc(files, func(name string) bool {
			place, err := os.ReadFile(name)
			return err == nil && string(place) == "handle_userfault"
		})
	})
	q.Stop()
	w.goOn()
	got := read(t, q)
	complete(t, got)
	if len(got.rows) != 1 || got.rows[0][0] != "late 0" {
		t.Errorf("rows %v", got.rows)
	}
	for range 8 {
		w.goOn()
	}
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}
