package variable

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// follow starts a source whose watchpoints follow pointers. tell makes the
// target execute commands one by one; one that ends with ! changes a pointer on
// the path, and tell then waits until the watchpoints have moved.
func follow(t testing.TB, r *target, names ...string) (got *record, tell func(commands ...string), stop func()) {
	t.Helper()
	got, end := observe(t, asked(r.pid, 0, names...))
	got.normal = []string{moved, unsure} // Go's runtime may create threads at any time
	follows := uint64(0)
	tell = func(commands ...string) {
		t.Helper()
		for _, c := range commands {
			c, follow := strings.CutSuffix(c, "!")
			r.tell(t, c)
			if follow {
				follows++
				testenv.Until(t, "the move is counted", func() bool { got.mu.Lock(); defer got.mu.Unlock(); return got.lost[moved] >= follows })
			}
		}
	}
	return got, tell, func() {
		t.Helper()
		got.mu.Lock()
		if got.lost[moved] != follows {
			t.Errorf("watchpoints followed %d times, want %d", got.lost[moved], follows)
		}
		got.mu.Unlock()
		end()
	}
}

// written returns rows as variable=text function, joined.
func written(rows []map[string]string) string {
	var text []string
	for _, row := range rows {
		v, ok := row["var_text"]
		if !ok {
			v = "NULL"
		}
		text = append(text, fmt.Sprintf("%s=%s %s", row["var_name"], v, row["function_name"]))
	}
	return strings.Join(text, ",")
}

// Variables behind pointers are watched where the pointers lead at the moment,
// in all threads; a change of a pointer is a write, by its writer, of what it
// leads to.
func TestWritesBehindPointers(t *testing.T) { reported(t, writesBehindPointers) }

func writesBehindPointers(t testing.TB) {
	testenv.NeedWatchpoints(t)
	c := testenv.CompileC(t, "testdata/pointers.c", "-O1", "-g", "-pthread")
	cpp := testenv.CompileC(t, "testdata/pointers.c", "-x", "c++", "-O1", "-g", "-pthread")
	golang := testenv.CompileGo(t, "testdata/gopointers")
	for _, one := range []struct{ program, variables, commands, want string }{
		{c, "head->id", "i5,o6,h1!,o7,i8,w9,n10,h-1!,o1,h2!,i3", "head->id=5 number,head->id=6 aim,head->id=7 other,head->id=8 number,head->id=9 number,head->id=10 number,head->id=NULL aim,head->id=102 aim,head->id=3 number"},
		{c, "head->next->id head->id", "i1,y2,x2!,y3,h1!,i4,y5,o6",
			"head->id=1 number,head->next->id=2 deep,head->next->id=102 link_to,head->next->id=3 deep,head->next->id=3 aim,head->id=2 aim,head->id=4 number,head->next->id=5 deep,head->id=6 other"},
		{c, "head head->list[2]", "e1,h1!,e2,h1", "head->list[2]=1 element,head=ADDR aim,head->list[2]=71 aim,head->list[2]=2 element,head=ADDR aim,head->list[2]=2 aim"},
		{c, "table[3]", "c5,t1!,c6,t0!", "table[3]=5 cell,table[3]=23 row,table[3]=6 cell,table[3]=5 row"},
		{c, "held->items[1]->id", "k1!,o5,k-1!", "held->items[1]->id=101 hold,held->items[1]->id=5 other,held->items[1]->id=NULL hold"},
		{c, "head->label", "l1,h1!,l0,h0!", "head->label=long name,head->label=NULL aim,head->label=short name,head->label=long aim"},
		{cpp, "head->id head->load", "i5,h1!,o7,w9", "head->id=5 number,head->id=101 aim,head->load=0.25 aim,head->id=7 other,head->id=9 number"},
		{golang, "main.head.id", "i5,h1!,o6,i7,f8!,i9,h-1!,h2!,i3", "main.head.id=5 main.(*node).number,main.head.id=101 main.aim,main.head.id=6 main.(*node).number,main.head.id=7 main.(*node).number,main.head.id=8 main.fresh,main.head.id=9 main.(*node).number,main.head.id=NULL main.aim,main.head.id=102 main.aim,main.head.id=3 main.(*node).number"},
		{golang, "main.head.name", "r1,h1!,r2", "main.head.name=name 1 main.(*node).rename,main.head.name=b main.aim,main.head.name=name 2 main.(*node).rename"},
		{golang, "main.head.next.id", "x1!,o5,y6,f1!,y7", "main.head.next.id=101 main.link,main.head.next.id=5 main.(*node).number,main.head.next.id=6 main.(*node).number,main.head.next.id=100 main.fresh,main.head.next.id=7 main.(*node).number"},
		{golang, "main.table[2]", "c5,g4!,c6,g2!,g1!,c7", "main.table[2]=5 main.cell,main.table[2]=5 main.grow,main.table[2]=6 main.cell,main.table[2]=NULL main.grow,main.table[2]=NULL main.grow"},
	} {
		if one.program == golang && strings.HasPrefix(one.variables, "main.table") {
			one.commands = strings.TrimSuffix(one.commands, ",c7") // it would panic
		}
		r := run(t, one.program)
		got, tell, stop := follow(t, r, strings.Fields(one.variables)...)
		tell(strings.Split(one.commands, ",")...)
		stop()
		for i := range got.rows {
			if got.rows[i]["var_name"] == "head" && strings.HasPrefix(got.rows[i]["var_text"], "0x") {
				got.rows[i]["var_text"] = "ADDR"
			}
			if got.rows[i]["tid"] == "" {
				t.Errorf("nobody wrote %v", got.rows[i])
			}
		}
		if s := written(got.rows); s != one.want {
			t.Errorf("%s:\n%s, want\n%s", one.variables, s, one.want)
		}
	}
}

// A sample is NULL where a pointer is null or leads nowhere; the latter is
// counted.
func TestSamplesBehindPointers(t *testing.T) {
	testenv.NeedUprobes(t)
	c := testenv.CompileC(t, "testdata/pointers.c", "-O1", "-g", "-pthread")
	golang := testenv.CompileGo(t, "testdata/gopointers")
	for _, one := range []struct {
		program, commands, want string
		unread                  uint64
	}{
		{c, "", "head->id=100 head->next->id=101 head.list[2]=70 table[3]=13 held->items[1]->id=NULL head->load=0", 0},
		{c, "h1,k2,t1", "head->id=101 head->next->id=102 head.list[2]=71 table[3]=23 held->items[1]->id=102 head->load=0.25", 0},
		{c, "h-1", "head->id=NULL table[3]=13", 0},
		{c, "x-1", "head->id=100 head->next->id=NULL", 0},
		{c, "h9", "head->id=NULL head->next->id=NULL table[3]=13", 2},
		{golang, "", "main.head.id=100 main.head.next.id=NULL main.head.name=a main.table[3]=13 main.table[4]=NULL main.rows[1][0]=3 main.rows[1][2]=NULL main.table[12]=NULL main.nodes[2].name=c", 0},
		{golang, "f7,g2", "main.head.id=7 main.head.next.id=100 main.head.name=fresh main.table[1]=11 main.table[2]=NULL", 0},
	} {
		r := run(t, one.program)
		if one.commands != "" {
			r.tell(t, strings.Split(one.commands, ",")...)
		}
		var names []string
		for want := range strings.FieldsSeq(one.want) {
			name, _, _ := strings.Cut(want, "=")
			names = append(names, name)
		}
		s, got := byHand(t, asked(r.pid, time.Second, names...))
		s.sample(got)
		if s := told(got); s != one.want || got.lost[unread] != one.unread {
			t.Errorf("after %s:\n%s, want\n%s; %d unread", one.commands, s, one.want, got.lost[unread])
		}
	}
}

// While a pointer changes concurrently with writes behind it, each row has a
// value that was there, and the last row has the final value.
func TestPointersThatChangeAllTheTime(t *testing.T) { reported(t, pointersThatChangeAllTheTime) }

func pointersThatChangeAllTheTime(t testing.TB) {
	testenv.NeedWatchpoints(t)
	r := run(t, testenv.CompileC(t, "testdata/pointers.c", "-O1", "-g", "-pthread"))
	got, stop := observe(t, asked(r.pid, 0, "head->id"))
	got.normal = []string{moved, unseen, unsure, ringFull}
	const last = 100
	r.tell(t, "z"+strconv.Itoa(last))
	value := func() string {
		got.mu.Lock()
		defer got.mu.Unlock()
		if len(got.rows) == 0 {
			return ""
		}
		return got.rows[len(got.rows)-1]["var_value"]
	}
	testenv.Until(t, "the last value is seen", func() bool { return value() == strconv.Itoa(last) })
	testenv.Until(t, "moves are counted", func() bool { got.mu.Lock(); defer got.mu.Unlock(); return got.lost[moved] > 0 })
	stop()
	for _, row := range got.rows {
		n, err := strconv.Atoi(row["var_value"])
		if err != nil || n < 1 || n > 102 {
			t.Fatalf("a row is %v", row)
		}
		if f := row["function_name"]; f != "aim" && f != "other" && f != "" {
			t.Errorf("a row is %v", row)
		}
	}
}

// A processor has four watchpoints; each pointer on the path uses one.
func TestPointersTakeWatchpoints(t *testing.T) {
	testenv.NeedWatchpoints(t)
	r := run(t, testenv.CompileC(t, "testdata/pointers.c", "-O1", "-g", "-pthread"))
	for names, want := range map[string]string{
		"head->next->next->id":             "",
		"head->next->next->next->id":       "head->next->next->next->id cannot be watched: it takes 5 watchpoints, one for itself and one for each pointer on the way (head, head->next, head->next->next, head->next->next->next), and a processor has 4 (SAMPLE(variable_value, 10ms) reads it)",
		"head->id head->load head->label":  "",
		"head head->next head->next->id":   "",
		"head->id table[3] held->items[0]": "head->id, table[3], held->items[0] cannot be watched together: they take 6 watchpoints, each one for itself and one for each pointer on the way (head, table, held), and a processor has 4 (SAMPLE(variable_value, 10ms) reads them)",
		"head->list":                       "ask for one of its elements",
		"head[0]":                          "ask for one of its fields",
		"head->id[2]":                      "int is no array",
		"head->nxt":                        "node has no field nxt",
	} {
		s, err := New().Prepare(t.Context(), asked(r.pid, 0, strings.Fields(names)...))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", names, err, want)
		}
		if err == nil {
			s.Stop()
		}
	}
	s, err := New().Prepare(t.Context(), asked(r.pid, 0, "head->next->id", "head->id"))
	if err != nil {
		t.Fatal(err)
	}
	var sites []string
	for _, site := range s.(*watched).Info().Sites {
		sites = append(sites, site.Function+" "+site.Kind)
	}
	want := "head hardware watchpoint, each thread: pointer on the way,head->next hardware watchpoint, each thread: pointer on the way,head->next->id hardware watchpoint, each thread,head->id hardware watchpoint, each thread"
	if s := strings.Join(sites, ","); s != want {
		t.Errorf("sites %s, want %s", s, want)
	}
	if n := s.Info().Notices; len(n) != 1 || !strings.Contains(n[0], "follow") {
		t.Errorf("notices %q", n)
	}
	s.Stop()
}
