package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/structure"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// Encodings of real programs. Each decodes to what the program says itself that it
// did; how large they are stands in the log, beside what Reiss and Renieris found
// of theirs (Encoding program executions, ICSE 2001, table 2, whose decimal points
// are lost in the text that we have).

// encoded is one row of a query: its texts and its encodings, by column.
type encoded struct {
	texts     map[int]string
	encodings map[int]encoders.Encoding
}

// encodings runs a query to its end, which must be complete.
func encodings(t *testing.T, s wire.Session, query string) (rows []encoded) {
	t.Helper()
	return encodingsOf(t, start(t, s, query))
}

// encodingsOf reads the rows of a query that runs.
func encodingsOf(t *testing.T, r wire.Result) (rows []encoded) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for {
		ev, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind != wire.Rows {
			continue
		}
		for i := range ev.Batch.Len() {
			row := encoded{map[int]string{}, map[int]encoders.Encoding{}}
			for c := range ev.Batch.Cols {
				v := ev.Batch.Cols[c].Value(ev.Batch.Row(i))
				if x, ok := v.A.(encoders.Encoding); ok {
					row.encodings[c] = x
				} else {
					row.texts[c] = cell(v)
				}
			}
			rows = append(rows, row)
		}
	}
	if sum := r.Summary(); len(sum.Losses) > 0 {
		t.Fatalf("the result is not complete: %+v", sum)
	}
	return rows
}

// letters are the calls that a lossless encoding was made of, as the programs log
// them: by the letter of each function.
func letters(t *testing.T, x encoders.Encoding, sequence int, letter map[string]byte) string {
	t.Helper()
	l, ok := x.(encoders.Lossless)
	if !ok || !l.Exact() {
		t.Fatalf("%T is not lossless", x)
	}
	names := l.Names()
	var b strings.Builder
	for s := range l.Decode(sequence) {
		c := byte('<')
		if s != encoders.Return {
			if c, ok = letter[names[s]]; !ok {
				t.Fatalf("%s has no letter", names[s])
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// same compares what an encoding decodes to with what the program logged.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Errorf("%s: %d symbols, of %d; different from symbol %d on: %.40q, not %.40q", what, len(got), len(want), i, got[i:], want[i:])
}

// nodes encodes what each node of a graph of calls calls, as Reiss and Renieris do:
// it gives how many bytes that takes with another encoder for each.
func nodes(t *testing.T, dag encoders.Encoding, encoder func(a *encoders.Alphabet) encoders.Encoder) (bytes int) {
	t.Helper()
	for line := range strings.Lines(dag.String()) {
		_, right, ok := strings.Cut(strings.TrimSpace(line), " -> ")
		if !ok {
			t.Fatalf("%q is no node", line)
		}
		a := encoders.NewAlphabet()
		e := encoder(a)
		for token := range strings.FieldsSeq(right) {
			n := 1
			if number, name, ok := strings.Cut(token, ":"); ok {
				fmt.Sscan(number, &n)
				token = name
			}
			e.Append(slices.Repeat([]encoders.Symbol{a.Symbol(token)}, n), nil)
		}
		bytes += len(e.Encode().String()) + 1
	}
	return bytes
}

// table2 logs the sizes of a program's encodings as in the paper's table 2.
func table2(t *testing.T, program string, functions int, calls string, dag, grammar, fsa encoders.Encoding) {
	t.Helper()
	raw := int64(32 * len(calls)) // a record of the ring buffer
	dagGrammar := nodes(t, dag, func(a *encoders.Alphabet) encoders.Encoder {
		return structure.NewGrammarEncoder(a, structure.GrammarOptions{Runs: true}, encoders.Limits{})
	})
	dagFSA := nodes(t, dag, func(a *encoders.Alphabet) encoders.Encoder {
		e, err := structure.NewAutomatonEncoder(a, structure.AutomatonOptions{K: 3}, encoders.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
	t.Logf("| %s | %d | %s | %s | %s | %s | %s | %s |", program, functions, size(int64(len(calls))/2), size(raw),
		size(int64(dagGrammar)), size(int64(dagFSA)), size(int64(len(grammar.String()))), size(int64(len(fsa.String()))))
}

func size(n int64) string {
	switch {
	case n >= 10e6:
		return fmt.Sprintf("%dm", n/1e6)
	case n >= 10e3:
		return fmt.Sprintf("%dk", n/1e3)
	}
	return fmt.Sprint(n)
}

// encodingProgram compiles one of testdata/encodings.
func encodingProgram(t *testing.T, source string) string {
	t.Helper()
	return testenv.CompileC(t, filepath.Join("testdata", "encodings", source), "-O1")
}

// A knight's tour: a quarter of a million calls, with ENDOSCOPE_SOAK a million.
func TestEncodingsOfKnightsTour(t *testing.T) {
	testenv.NeedUprobes(t)
	most := 250_000
	if os.Getenv("ENDOSCOPE_SOAK") != "" {
		most = 1_000_000
	}
	log := filepath.Join(t.TempDir(), "calls")
	program := encodingProgram(t, "knight.c")
	letter := map[string]byte{"find_rest": 'r', "is_free": 'f', "visit": 'v', "take_back": 't'}
	var x []encoders.Encoding
	var calls string
	for _, two := range [][2]string{
		{"CALLDAG(event, function_name)", "CALLSTRING(event, function_name)"},
		{"GRAMMAR(event, function_name, rle => exact)", "AUTOMATON(event, function_name, 3)"},
	} {
		// However far the encoders are behind the program, it all waits for them.
		s := newSessionOf(t, server.Options{QueueBatches: 1 << 13}, wire.Options{Command: []string{program, strconv.Itoa(most), log}})
		message(t, s, "SET max_event_rate = 0")
		message(t, s, "SET max_overhead = 0") // every call is awaited, however dear it is on a busy machine
		message(t, s, "SET encoder_budget = 256MiB")
		rows := encodings(t, s, "SELECT "+two[0]+", "+two[1]+" FROM function_call WHERE function_name IN (find_rest, is_free, visit, take_back)")
		if calls = contents(t, log); len(calls) < 2*most {
			t.Fatalf("the program made only %d calls", len(calls)/2)
		}
		for c := range two {
			x = append(x, rows[0].encodings[c])
			if !strings.HasPrefix(two[c], "AUTOMATON") {
				same(t, two[c], letters(t, rows[0].encodings[c], 0, letter), calls)
			}
		}
	}
	table2(t, "knight's tour", len(letter), calls, x[0], x[2], x[3])
	t.Logf("the automaton:\n%s", x[3])
}

// A recursive-descent parser, and a model of it: another run conforms, and one
// that takes a token too many leaves it.
func TestEncodingsOfParser(t *testing.T) {
	testenv.NeedUprobes(t)
	program := encodingProgram(t, "parser.c")
	log := filepath.Join(t.TempDir(), "calls")
	o := server.Options{ModelDir: t.TempDir()}
	session := func(args ...string) wire.Session {
		s := newSessionOf(t, o, wire.Options{Command: append([]string{program}, args...)})
		message(t, s, "SET max_event_rate = 0")
		message(t, s, "SET max_overhead = 0") // every call is awaited, however dear it is on a busy machine
		return s
	}
	letter := map[string]byte{"expression": 'e', "term": 't', "factor": 'f', "number": 'd', "peek": 'p', "next": 'n'}
	const of = " FROM function_call WHERE function_name IN (expression, term, factor, number, peek, next)"
	rows := encodings(t, session("2000", log), `SELECT CALLDAG(event, function_name), GRAMMAR(event, function_name, rle => exact), AUTOMATON(event, function_name, 3), NLEVEL(event, function_name, 2)`+of)
	x, calls := rows[0].encodings, contents(t, log)
	same(t, "graph", letters(t, x[0], 0, letter), calls)
	same(t, "grammar", letters(t, x[1], 0, letter), calls)
	table2(t, "parser", len(letter), calls, x[0], x[1], x[2])
	if got, want := nlevelCount(t, x[3], "number"), strings.Count(calls, "d"); got != want {
		t.Errorf("number was called %d times, not %d", got, want)
	}
	// Of what is called next, whoever calls it: a token too many is two calls of
	// next with nothing in between. States that have only some tails in common are
	// kept apart, or there would be one.
	started := strings.Replace(of, "function_call", "function_start", 1)
	message(t, session("2000", log), "CREATE MODEL parser AS SELECT AUTOMATON(function_name, 3, merge => equal)"+started)
	for args, want := range map[string]bool{"": true, "wrong": false} {
		a := run(t, session(strings.Fields("1000 "+log+" "+args)...), "SELECT CONFORMS(function_name, parser), ANOMALY(function_name, parser)"+started)
		if a.rows[0][0] != fmt.Sprint(want) || (a.rows[0][1] == "NULL") != want {
			t.Errorf("%q: %v", args, a.rows)
		}
	}
}

// nlevelCount is how often a function was called, by an n-level encoding.
func nlevelCount(t *testing.T, x encoders.Encoding, function string) int {
	t.Helper()
	for line := range strings.Lines(x.String()) {
		f := strings.Fields(line)
		if len(f) == 5 && f[4] == function { // calls, times and no caller
			var n int
			fmt.Sscan(f[0], &n)
			return n
		}
	}
	t.Fatalf("%s is not in\n%s", function, x)
	return 0
}

// A C++ program, object by object: grouped by class, each object a sequence from
// its birth to its death.
func TestEncodingsOfObjects(t *testing.T) {
	testenv.NeedUprobes(t)
	log := filepath.Join(t.TempDir(), "calls")
	s := newSessionOf(t, server.Options{}, wire.Options{Command: []string{encodingProgram(t, "accounts.cc"), "300", log}})
	message(t, s, "SET max_event_rate = 0")
	message(t, s, "SET max_overhead = 0") // every call is awaited, however dear it is on a busy machine
	letter := map[string]byte{
		"Account::open": 'o', "Account::withdraw": 'w', "Account::deposit": 'd', "Account::check": 'c', "Account::close": 'x',
		"Savings::withdraw": 'W', "Audited::audit": 'a', "Audited::close": 'X',
	}
	const ends = `sequence => receiver, born => event = 'ENTER' AND function_name = 'Account::open', dies => event = 'LEAVE' AND function_name LIKE '%::close' AND depth = 0`
	counted := run(t, newSessionOf(t, server.Options{}, wire.Options{Command: []string{encodingProgram(t, "accounts.cc"), "300", log}}),
		"SELECT COUNT(*), COUNT(DISTINCT receiver_class) FROM function_start WHERE class IN ('Account', 'Savings') AND function_name ~ '::[a-z]' AND receiver_class = 'Audited'")
	rows := encodings(t, s, `SELECT receiver_class, GRAMMAR(event, function_name, rle => exact, `+ends+`), CALLDAG(event, function_name, `+ends+`), AUTOMATON(event, function_name, 3, `+ends+`),
		HIERARCHY_CONSECUTIVE(class), SUM(lookup_distance) FILTER (WHERE event = 'ENTER'), MAX(class_lineage)
		FROM function_call WHERE class IN ('Account', 'Savings', 'Audited') AND function_name ~ '::[a-z]' GROUP BY receiver_class ORDER BY receiver_class`)
	// How far from an object's class the methods are found.
	distances := map[string]map[byte]int{
		"Account": {},
		"Savings": {'o': 1, 'w': 1, 'd': 1, 'c': 1, 'x': 1},
		"Audited": {'o': 2, 'w': 2, 'd': 2, 'c': 2, 'x': 2, 'W': 1},
	}
	want := map[string][]string{}
	for line := range strings.Lines(contents(t, log)) {
		class, calls, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[class] = append(want[class], calls)
	}
	inherited := 0 // calls of methods that Audited has not itself
	for _, calls := range want["Audited"] {
		inherited += strings.Count(calls, "<") - strings.Count(calls, "a") - strings.Count(calls, "X")
	}
	if got := strings.Join(counted.rows[0], " "); got != fmt.Sprintf("%d 1", inherited) {
		t.Errorf("%s calls of inherited methods on objects of Audited, not %d", got, inherited)
	}
	if len(rows) != len(want) {
		t.Fatalf("%d classes, not %d", len(rows), len(want))
	}
	for _, row := range rows {
		class := row.texts[0]
		for _, c := range []int{1, 2} {
			x := row.encodings[c]
			if n := x.Of().Sequences; n != len(want[class]) {
				t.Errorf("%d objects of %s, not %d", n, class, len(want[class]))
				continue
			}
			for i, calls := range want[class] {
				same(t, fmt.Sprintf("%s %d", class, i), letters(t, x, i, letter), calls)
			}
		}
		if !strings.HasPrefix(row.encodings[4].String(), "hierarchy-consecutive: 1 hit") {
			t.Errorf("%s: %s, where all classes are of one hierarchy", class, row.encodings[4])
		}
		steps := 0
		for _, c := range []byte(strings.Join(want[class], "")) {
			steps += distances[class][c]
		}
		if row.texts[5] != fmt.Sprint(steps) {
			t.Errorf("%s: %s steps, not %d", class, row.texts[5], steps)
		}
		table2(t, "objects of "+class, len(letter), strings.Join(want[class], ""), row.encodings[2], row.encodings[1], row.encodings[3])
		t.Logf("automaton:\n%s", row.encodings[3])
	}
}

// What the methods of one class call, on whatever object, belongs to its objects;
// what happens outside of them does not.
func TestInnerCallsOfObjects(t *testing.T) {
	testenv.NeedUprobes(t)
	log := filepath.Join(t.TempDir(), "calls")
	s := newSessionOf(t, server.Options{}, wire.Options{Command: []string{encodingProgram(t, "accounts.cc"), "50", log}})
	rows := encodings(t, s, `SELECT CALLSTRING(event, function_name, sequence => CASE WHEN class = 'Audited' THEN receiver END, inner => tid,
		dies => event = 'LEAVE' AND function_name = 'Audited::close')
		FROM function_call WHERE class IN ('Account', 'Savings', 'Audited') AND function_name ~ '::[a-z]'`)
	letter := map[string]byte{"Account::check": 'c', "Account::close": 'x', "Audited::audit": 'a', "Audited::close": 'X'}
	n := 0
	for line := range strings.Lines(contents(t, log)) {
		class, calls, _ := strings.Cut(strings.TrimSpace(line), " ")
		if class != "Audited" {
			continue
		}
		var want []byte
		depth, from := 0, 0 // of Audited's own methods: where the outermost began
		for i := range len(calls) {
			switch {
			case calls[i] != '<':
				if depth == 0 {
					from = i
				}
				depth++
			default:
				if depth--; depth == 0 && strings.Contains("aX", calls[from:from+1]) {
					want = append(want, calls[from:i+1]...)
				}
			}
		}
		same(t, fmt.Sprintf("object %d", n), letters(t, rows[0].encodings[0], n, letter), string(want))
		n++
	}
	if got := rows[0].encodings[0].Of().Sequences; got != n {
		t.Errorf("%d objects, not %d", got, n)
	}
}

// A model of how objects are used, and an alert when one of them, of three hundred,
// is used in another way: with the first call that leaves the model, while the
// program runs.
func TestTriggerOnObjectLeavingAModel(t *testing.T) {
	testenv.NeedUprobes(t)
	program := encodingProgram(t, "accounts.cc")
	log := filepath.Join(t.TempDir(), "calls")
	o := server.Options{ModelDir: t.TempDir()}
	const uses = ` sequence => receiver, born => function_name = 'Account::open', dies => function_name LIKE '%::~%')`
	const of = ` FROM function_start WHERE class IN ('Account', 'Savings', 'Audited')`
	message(t, newSessionOf(t, o, wire.Options{Command: []string{program, "300", log}}), "CREATE MODEL accounts AS SELECT AUTOMATON(function_name, 2, merge => equal,"+uses+of)
	for argument, want := range map[string]string{"": "", "wrong": "Account::deposit at symbol "} {
		var h heard
		command := append([]string{program, "100", log}, strings.Fields(argument)...)
		s := newSessionOf(t, o, wire.Options{Command: command, Notify: h.add})
		run(t, s, "CREATE TRIGGER misuse ON (SELECT ANOMALY(function_name, accounts,"+uses+" AS anomaly"+of+" EMIT CHANGES) WHEN anomaly IS NOT NULL BEGIN NOTIFY 'an account is used wrongly' END")
		a := triggered(t, s)
		if want == "" {
			if len(a.rows) != 0 || len(h.all()) != 0 {
				t.Errorf("as the model has it: %v", a.rows)
			}
			continue
		}
		if len(a.rows) != 1 || !strings.Contains(a.rows[0][4], want) || len(h.all()) != 1 {
			t.Errorf("%s: %v, %q", argument, a.rows, h.all())
		}
		t.Log(a.rows)
	}
}

// The files of a program, by a table of what the C library's functions do with them:
// in which argument they have the file, or that it is their result.
func TestSequencesOfFiles(t *testing.T) {
	testenv.NeedUprobes(t)
	cmd := exec.Command(testenv.CompileC(t, filepath.Join("testdata", "encodings", "stdio.c"), "-O0", "-fno-builtin"), filepath.Join(t.TempDir(), "out"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	s := newSession(t, wire.Options{PID: cmd.Process.Pid})
	// fopen leaves by a tail call, behind which nobody sees what it returns; what it
	// calls to open a file returns that, too.
	message(t, s, `CREATE STREAM stdio AS (SELECT timestamp, function_name AS f,
		CASE function_name WHEN '_IO_file_fopen' THEN retval WHEN 'fread' THEN arg3 WHEN 'fputs' THEN arg1 ELSE arg0 END AS file
		FROM function_duration WHERE module = 'libc.so.6' AND function_name IN (_IO_file_fopen, fputs, fread, fclose))`)
	q := start(t, s, "SELECT RLE(f, sequence => file, born => f = '_IO_file_fopen' AND file <> 0, dies => f = 'fclose') FROM stdio")
	fmt.Fprintln(in, "go")
	a := read(t, q)
	want := []string{
		"_IO_file_fopen 2:fputs", "_IO_file_fopen fread fclose",
		"_IO_file_fopen 3:fputs fclose", "_IO_file_fopen fread fclose",
		"_IO_file_fopen 4:fputs", "_IO_file_fopen fread fclose",
		"_IO_file_fopen 5:fputs fclose", "_IO_file_fopen fread fclose",
	}
	if got := a.rows[0][0]; got != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// redis under load, a sequence for each connection: ours find back what they sent,
// among those of redis-benchmark.
func TestEncodingsOfConnections(t *testing.T) {
	testenv.NeedUprobes(t)
	r := startRedis(t)
	s := newSession(t, wire.Options{PID: r.pid})
	const ends = `sequence => arg0, born => function_name = 'linkClient', dies => function_name = 'unlinkClient'`
	q := start(t, s, `SELECT GRAMMAR(function_name, rle => exact, `+ends+`), AUTOMATON(function_name, 3, `+ends+`), RLE(function_name, `+ends+`)
		FROM function_start WHERE function_name IN (linkClient, unlinkClient, getCommand, setCommand, incrCommand, lpushCommand)`)
	commands := []struct{ send, function string }{{"GET k", "getCommand"}, {"SET k 1", "setCommand"}, {"INCR n", "incrCommand"}, {"LPUSH l x", "lpushCommand"}}
	var want []string
	var all sync.WaitGroup
	for c := range 8 {
		random := rand.New(rand.NewPCG(uint64(c), 3))
		var send strings.Builder
		sent := []string{"linkClient"}
		const each = 500
		for range each {
			command := commands[random.IntN(c%len(commands)+1)]
			fmt.Fprintf(&send, "%s\r\n", command.send)
			sent = append(sent, command.function)
		}
		want = append(want, strings.Join(append(sent, "unlinkClient"), " "))
		all.Go(func() {
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			go fmt.Fprint(conn, send.String())
			in := bufio.NewReader(conn)
			for n := 0; n < each; {
				line, err := in.ReadString('\n')
				if err != nil {
					t.Error(err)
					return
				}
				if !strings.HasPrefix(line, "$") || strings.HasPrefix(line, "$-1") { // a value follows its length
					n++
				}
			}
		})
	}
	r.load(t, "-t", "get,set", "-n", "5000", "-c", "10")
	all.Wait()
	testenv.Until(t, "the load's connections are closed", func() bool { return r.connections(t) <= 1 })
	q.Stop()
	rows := encodingsOf(t, q)
	x := rows[0].encodings
	for c, what := range map[int]string{0: "grammar", 2: "runs"} {
		l := x[c].(encoders.Lossless)
		found := map[string]int{}
		for i := range l.Of().Sequences {
			var b []string
			for symbol := range l.Decode(i) {
				b = append(b, l.Names()[symbol])
			}
			found[strings.Join(b, " ")]++
		}
		for i, sent := range want {
			if found[sent] == 0 {
				t.Errorf("%s: what connection %d sent is not among the %d sequences", what, i, l.Of().Sequences)
			}
		}
		if n := l.Of().Sequences; n < len(want)+20 {
			t.Errorf("%s: only %d connections", what, n)
		}
	}
	of := x[0].Of()
	t.Logf("| redis, %d connections | 6 | %s | %s | | | %s | %s |", of.Sequences, size(of.Symbols), size(32*of.Symbols), size(int64(len(x[0].String()))), size(int64(len(x[1].String()))))
}
