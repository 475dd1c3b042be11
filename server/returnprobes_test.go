package server_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// TestReturnProbes compares how the returns of a C++ function are observed, by
// the setting: where traps are not safe exits are probed, and EXPLAIN says which
// and for how much. Calls that end with a tail call have no value, whoever tests
// the condition on it.
func TestReturnProbes(t *testing.T) {
	testenv.NeedUprobes(t)
	src := filepath.Join(t.TempDir(), "target.cc")
	text := `
long sink;
__attribute__((noinline)) long rest(long n) { sink += n; if (n > 1000) throw n; return n; }
__attribute__((noinline)) long work(long n) { sink++; if (n % 2) return rest(n); return 7; }
int main() { try { for (long i = 0; i < 100; i++) work(i); } catch (long) {} return 0; }`
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	target := testenv.CompileC(t, src, "-O2")
	for _, setting := range []string{"auto", "exits"} {
		for _, kernel := range []string{"on", "off"} {
			s := newSession(t, wire.Options{Command: []string{target}})
			ask(t, s, "SET return_probes = '"+setting+"'")
			ask(t, s, "SET kernel = '"+kernel+"'")
			const query = "SELECT COUNT(*), COUNT(retval), MAX(depth), SUM(CASE WHEN retval = 7 THEN 1 ELSE 0 END) FROM function_duration WHERE function_name = 'work'"
			var explained strings.Builder
			for _, row := range ask(t, s, "EXPLAIN "+query).rows {
				explained.WriteString(row[0] + "\n")
			}
			for _, site := range []string{
				`work in target at 0x[0-9a-f]+ \(entry\+\d+\): entry\+exits \(2\), emulated, about [0-9.]+[nu]s`,
				`work in target at 0x[0-9a-f]+ \(entry\+\d+\): exit, emulated, about [0-9.]+[nu]s`,
				`work in target at 0x[0-9a-f]+ \(entry\+\d+\): exit, stepped, about [0-9.]+[nu]s`,
			} {
				if !regexp.MustCompile(site).MatchString(explained.String()) {
					t.Errorf("%s: no %s in\n%s", setting, site, explained.String())
				}
			}
			a := ask(t, s, query)
			complete(t, a)
			for i, want := range []int64{100, 50, 0, 50} {
				if n := number(t, a, 0, i); n != want {
					t.Errorf("%s, kernel %s: column %d is %d, want %d", setting, kernel, i, n, want)
				}
			}
		}
	}
	s := newSession(t, wire.Options{Command: []string{target}})
	ask(t, s, "SET return_probes = 'trap'")
	_, err := s.Execute(context.Background(), "SELECT COUNT(*) FROM function_duration WHERE function_name = 'work'")
	if err == nil || !strings.Contains(err.Error(), "cannot observe the return of work: C++ exceptions may unwind through it") {
		t.Errorf("traps alone: %v", err)
	}
	s = newSession(t, wire.Options{Command: []string{target}})
	a := ask(t, s, "SELECT COUNT(*) FROM function_end WHERE function_name = 'work' AND retval <> 7")
	if n := number(t, a, 0, 0); n != 0 {
		t.Errorf("%d calls without a value returned another than 7", n)
	}
}
