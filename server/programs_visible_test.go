package server_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// A user who may not observe everybody does not learn which libraries are in the folders of
// the loader, neither with the role trace nor without.
func TestLibrariesOfTheLoaderAreHidden(t *testing.T) {
	testenv.NeedUprobes(t)
	s := newShop(t)
	sharing := s.session(tracer("alice", aliceUID, true))
	for _, name := range []string{"libc.so.6", "libnope.so.6"} {
		got := refusal(t, sharing, "SELECT COUNT(*) FROM function_start WHERE module = '"+name+"' AND function_name = 'f'")
		if !strings.Contains(got, "no process has loaded "+name+"\n") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Calls of a file with several names are those of the name by which each process executes it.
func TestProgramWithSeveralNames(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	one := testenv.CopyFile(t, testenv.CompileCText(t, counting, "-O1"), filepath.Join(dir, "one"))
	two := filepath.Join(dir, "two")
	if err := os.Link(one, two); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"SELECT exe, COUNT(*) FROM function_start WHERE function_name = 'work' AND exe LIKE '" + dir + "/%' GROUP BY exe",
		"SELECT exe, 1 FROM function_start WHERE function_name = 'work' AND exe LIKE '" + dir + "/%'",
	} {
		s := newSession(t, wire.Options{})
		r := start(t, s, query)
		made := map[string]int{one: counts(t, one, 10), two: counts(t, two, 20)}
		if diff := cmp.Diff(made, stopAndCount(t, s, r)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}

// Programs that end between the search for a pattern and the query's start do not prevent it.
func TestProgramsThatEnd(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	program := testenv.CompileCText(t, `
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void work(void) { asm(""); }
int main(int argc, char **argv) { work(); usleep(1000 * atoi(argv[1])); }
`, "-O1")
	stable := exec.Command(testenv.CopyFile(t, program, filepath.Join(dir, "stable")), "600000")
	if err := stable.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stable.Process.Kill(); stable.Wait() })
	over, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
			}
			path := filepath.Join(dir, "t"+string(rune('a'+i%20)))
			exec.Command("cp", program, path).Run()
			c := exec.Command(path, "15")
			if c.Start() == nil {
				os.Remove(path)
				c.Wait()
			}
		}
	}()
	defer func() { close(over); <-done }()
	ws := newSession(t, wire.Options{})
	for range 40 {
		run(t, ws, "EXPLAIN SELECT COUNT(*) FROM function_start WHERE exe LIKE '"+dir+"/%' AND function_name = 'work'")
	}
}
