package server_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/process"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// Writes to a variable are counted as any tuples are, none twice and none left out;
// its samples need SAMPLE; and what is no variable is said where it is written.
func TestVariableValue(t *testing.T) {
	testenv.NeedWatchpoints(t)
	c, err := process.Launch([]string{testenv.CompileCText(t, `#include <unistd.h>
long counter; double load;
__attribute__((noinline)) void step(void) { counter++; load = counter / 4.0; }
int main(void) { for (;;) { step(); usleep(10000); } }`, "-O1", "-g")}, nil, nil, nil, nil)
	if err == nil {
		err = c.Release()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Kill()
		<-c.Wait()
		if code := c.ExitCode(); code != 128+9 {
			t.Errorf("the program has ended with exit code %d", code)
		}
	}()
	s := newSession(t, wire.Options{PID: c.PID()})
	const query = `SELECT var_name, function_name, COUNT(*) AS n, MAX(to_int) - MIN(to_int) + 1 FROM
		(SELECT var_name, function_name, (var_real * CASE var_name WHEN 'load' THEN 4 ELSE 1 END)::BIGINT AS to_int FROM variable_value WHERE var_name IN ('counter', 'load'))
		GROUP BY var_name, function_name`
	q := start(t, s, query)
	testenv.Until(t, "both are written", func() bool { return acquired(t, s, query) > 60 })
	q.Stop()
	a := read(t, q)
	missing := uint64(0)
	for _, row := range a.rows {
		n, _ := strconv.Atoi(row[2])
		written, _ := strconv.Atoi(row[3])
		if row[1] != "step" || n <= 10 || n > written {
			t.Errorf("%v", row)
		}
		missing += uint64(written - n)
	}
	for _, l := range a.summary.Losses {
		if l.Cause != "writes whose report was lost by the hypervisor" {
			t.Errorf("lost %d: %s", l.N, l.Cause)
		}
		missing -= min(missing, l.N)
	}
	if len(a.rows) != 2 || missing > 0 {
		t.Errorf("rows %v, lost %v", a.rows, a.summary.Losses)
	}
	a = ask(t, s, "SELECT var_value > 0, function_name IS NULL FROM SAMPLE(variable_value, 5ms) WHERE var_name = 'counter' LIMIT 3")
	if len(a.rows) != 3 || a.rows[2][0] != "true" || a.rows[2][1] != "true" {
		t.Errorf("samples %v", a.rows)
	}
	// Calls with the value that the variable has at their end.
	a = ask(t, s, `SELECT v.var_value > 0 FROM function_duration d ASOF JOIN SAMPLE(variable_value, 5ms) v ON v.var_name = 'counter' WHERE d.function_name = 'step' LIMIT 3`)
	if len(a.rows) != 3 {
		t.Errorf("joined %v", a.rows)
	}
	a = ask(t, s, `SELECT v.var_value > 0 FROM function_start f JOIN variable_value v ON v.var_name = 'counter' WHERE f.function_name = 'step' LIMIT 3`)
	if len(a.rows) != 3 || a.rows[0][0] != "true" {
		t.Errorf("joined on demand %v", a.rows)
	}
	if _, err := s.Execute(context.Background(), "SELECT * FROM variable_value WHERE var_name = 'conter'"); err == nil || !strings.Contains(err.Error(), "target has no variable conter") {
		t.Errorf("error %v", err)
	}
}
