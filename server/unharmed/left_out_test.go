package unharmed

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// TestLeftOutByName checks that one function that the kernel refuses does not affect
// the others (PostgreSQL's SetLatch and the C library's pthread_spin_lock begin with
// a locked instruction). Every other function is observed, and one notice names what
// is not, and why.
func TestLeftOutByName(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, c := range []struct {
		name, where, leftOut, reason string
		exe                          func(t *testing.T) (exe, module string)
	}{
		{"postgres", "", "SetLatch", "lock prefix", func(t *testing.T) (string, string) {
			from, err := filepath.EvalSymlinks(testenv.NeedProgram(t, "postgres"))
			if err != nil {
				t.Fatal(err)
			}
			exe := duplicate(t, from)
			return exe, exe
		}},
		{"libc", "WHERE module LIKE 'libc.so%'", "pthread_spin_lock", "begins with a loop", usesLibraries},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exe, module := c.exe(t)
			all := functions(t, module)
			e, err := server.New(server.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			s := sessionOf(t, e, wire.Options{Exe: exe}, settings{"infer_counts = off"}) // a probe for each
			_, err = s.Execute(context.Background(), "SELECT arg0 FROM function_start WHERE function_name = '"+c.leftOut+"' "+strings.Replace(c.where, "WHERE", "AND", 1))
			if err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Fatalf("%s: %v; want %s", c.leftOut, err, c.reason)
			}
			for _, query := range []string{
				"SELECT function_name, COUNT(*) FROM function_start " + c.where + " GROUP BY function_name",
				"SELECT function_name, MAX(arg0) FROM function_start " + c.where + " GROUP BY function_name",
				everyCall(c.where),
			} {
				r, err := s.Execute(context.Background(), query)
				if err != nil {
					t.Fatal(err)
				}
				attached := probed(t, s)
				r.Stop()
				a := read(t, r)
				var notice string
				for _, n := range a.notices {
					t.Log(n)
					if strings.Contains(n, "not monitored") {
						if notice != "" {
							t.Errorf("a second notice: %s", n)
						}
						notice = n
					}
				}
				m := regexp.MustCompile(`^(\d+) functions are not monitored: .*\(.*\)`).FindStringSubmatch(notice)
				if m == nil || strings.Contains(query, "arg0") && !strings.Contains(notice, c.reason) {
					t.Fatalf("notice: %s", notice)
				}
				left, _ := strconv.Atoi(m[1])
				if len(notice) > 3000 {
					t.Errorf("a notice of %d bytes", len(notice))
				}
				if attached+left != all || left > all/4 {
					t.Errorf("%s: %d functions are probed and %d are not, of %d", query, attached, left, all)
				}
			}
		})
	}
}

// duplicate returns a copy of a program that no other process executes.
func duplicate(t *testing.T, from string) string {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(temporary(t), filepath.Base(from))
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// usesLibraries returns a program that loads the test's copy of the C library.
func usesLibraries(t *testing.T) (exe, libc string) {
	t.Helper()
	libs, err := libraries()
	if err != nil {
		t.Fatal(err)
	}
	return testenv.CompileCText(t, "int main(void) { return 0; }\n", "-Wl,-rpath,"+libs), filepath.Join(libs, "libc.so.6")
}

// probed counts the functions that have a probe.
func probed(t *testing.T, s wire.Session) (n int) {
	t.Helper()
	r, err := s.Execute(context.Background(), "SHOW PROBES")
	if err != nil {
		t.Fatal(err)
	}
	for {
		ev, err := r.Next(context.Background())
		if err != nil {
			return n
		}
		n += ev.Batch.Len()
		ev.Batch.Release()
	}
}

// functions counts the functions of a file.
func functions(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := elf.Open(f, filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	return m.Len()
}
