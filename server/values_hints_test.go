package server_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/parser"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// TestHintsOnValues says what to ask instead, where functions and what they take are not
// called as the query says.
func TestHintsOnValues(t *testing.T) {
	testenv.NeedUprobes(t)
	source := filepath.Join("testdata", "values", "types.cpp")
	w := startWaiting(t, testenv.CompileC(t, source, "-g", "-O2"))
	arrays := startWaiting(t, testenv.CompileC(t, filepath.Join("testdata", "values", "types.c"), "-g", "-O2"))
	stripped := testenv.CompileC(t, source, "-O2", "-Wl,--build-id=0x0123456789abcdef")
	if out, err := exec.Command(testenv.NeedProgram(t, "strip"), stripped).CombinedOutput(); err != nil {
		t.Fatalf("strip: %v\n%s", err, out)
	}
	bare := startWaiting(t, stripped)
	for _, c := range []struct {
		pid         int
		query, hint string
	}{
		{w.pid(), "SELECT args.this FROM function_start WHERE function_name = 'shop::Order::add' AND args.this.none = 1", "its fields are version, customer, state, total"},
		{w.pid(), "SELECT args.order.none FROM function_start WHERE function_name = 'shop::named'", "its fields are version, customer, state, total"},
		{w.pid(), "SELECT tid FROM function_start WHERE function_name = 'shop::overloaded(int)'", `DESCRIBE FUNCTION "shop::overloaded" lists`},
		{w.pid(), "SELECT tid FROM function_start WHERE function_name = 'shop::Order::add' AND args.as = 'Opne'", "did you mean 'Open'?"},
		{w.pid(), "SELECT tid FROM function_start WHERE function_name = 'shop::Order::add' AND args.as IN ('Open', 'Lost')", "it has Closed, Open"},
		{w.pid(), "SELECT tid FROM function_start WHERE function_name = 'shop::Order::add' AND args.as = 5", "compare an enum with the name of a value"},
		{arrays.pid(), "SELECT args.b.bytes[0], args.b[0] FROM function_start WHERE function_name = 'large'", "its fields are .bytes, .end"},
		{arrays.pid(), "SELECT args.lost[0].id FROM function_start WHERE function_name = 'elements'", "did you mean args.list?"},
		{arrays.pid(), "SELECT args.numbers[i] FROM function_start WHERE function_name = 'elements'", "an element of an array has a number, or an argument as its index: args.list[2], args.list[args.i]"},
		{arrays.pid(), "SELECT arg0[1] FROM function_start WHERE function_name = 'elements'", "args.list[2] and retval[2] are elements"},
		{bare.pid(), "SELECT tid FROM function_start WHERE function_name = 'exec_simple_query'", "a debug file for build-id 0123456789abcdef under /usr/lib/debug"},
	} {
		s := newSession(t, wire.Options{PID: c.pid})
		_, err := s.Execute(t.Context(), c.query)
		var e *parser.Error
		if !errors.As(err, &e) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s: %v\nwant the hint %s", c.query, err, c.hint)
		}
	}
}

// TestOverloads chooses one of several functions of a name by the linker's name for it,
// which DESCRIBE FUNCTION tells.
func TestOverloads(t *testing.T) {
	testenv.NeedUprobes(t)
	w := startWaiting(t, testenv.CompileC(t, filepath.Join("testdata", "values", "types.cpp"), "-g", "-O2"))
	s := newSession(t, wire.Options{PID: w.pid()})
	text := ""
	for _, row := range ask(t, s, `DESCRIBE FUNCTION "shop::overloaded"`).rows {
		if all := strings.Join(row, "\n"); strings.Contains(all, "const char *text") {
			text = row[5]
		}
	}
	if text != "_ZN4shop10overloadedEPKc" {
		t.Fatalf("the overload of a text has the other names %q", text)
	}
	q := start(t, s, "SELECT args.text FROM function_start WHERE function_name = '"+text+"'")
	w.goOn()
	if got := read(t, q); len(got.rows) != 3 || got.rows[0][0] != "two" {
		t.Errorf("%v", got.rows)
	}
}
