package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// laterLibrary is a library whose function is given a number, the same as a text, as one
// of an enum and as a truth value, and has it in a field.
const laterLibrary = `
#include <stdbool.h>
enum colour { RED, GREEN, BLUE };
struct request { long id; };
volatile long sum;
__attribute__((noinline)) int work(int n, const char *text, enum colour c, bool odd, struct request *r) {
	return sum += n + text[0] + c + odd + r->id;
}
`

// laterHost loads a library when it is told to, and calls it from then on.
const laterHost = `
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
	char line[100];
	puts("ready");
	fflush(stdout);
	fgets(line, sizeof line, stdin);
	void *lib = dlopen(argv[1], RTLD_NOW);
	int (*work)(int, char *, int, int, long *) = (void *)dlsym(lib, "work");
	for (long n = 0;; n++) {
		snprintf(line, sizeof line, "%ld", n);
		work(n, line, n % 3, n & 1, &n);
		usleep(1000);
	}
}
`

// Arguments of a library that is loaded while the query runs are of the types to which
// the statement casts them: numbers are added, and what is asked for as a text or a number
// is the same value; without a cast nobody knows what they are, which is said.
func TestValuesOfLibraryLoadedLater(t *testing.T) {
	testenv.NeedUprobes(t)
	library := testenv.CompileCText(t, laterLibrary, "-g", "-O1", "-shared", "-fPIC")
	host := testenv.CompileCText(t, laterHost, "-O1", "-ldl")
	plugin := filepath.Join(t.TempDir(), "libplug.so")
	if err := os.Rename(library, plugin); err != nil {
		t.Fatal(err)
	}
	const from = " FROM function_start WHERE module = 'libplug.so' AND function_name = 'work' "
	ask := func(t *testing.T, columns, more string) [][]string {
		w := startWaiting(t, host, plugin)
		s := newSession(t, wire.Options{PID: w.pid()})
		q := start(t, s, "SELECT "+columns+from+more)
		w.goOn()
		got := read(t, q)
		if !strings.Contains(strings.Join(got.notices, "\n"), "is read by what the statement casts it to: args.n as") {
			t.Errorf("the notices are %q", got.notices)
		}
		return got.rows
	}
	colours := []string{"RED", "GREEN", "BLUE"}

	t.Run("numbers", func(t *testing.T) {
		rows := ask(t, "CAST(args.n AS BIGINT), str(arg1), CAST(args.c AS BIGINT) - args.n % 3, CAST(args.odd AS BIGINT) - args.n % 2, CAST(args.r.id AS DOUBLE) - args.n",
			"AND args.n::BIGINT % 2 = 1 LIMIT 4")
		if len(rows) != 4 {
			t.Errorf("%d rows, want 4", len(rows))
		}
		for _, row := range rows {
			if row[0] != row[1] || strings.Trim(strings.Join(row[2:], ""), "0") != "" || !strings.ContainsAny(row[0][len(row[0])-1:], "13579") {
				t.Errorf("row %q", row)
			}
		}
	})
	t.Run("texts", func(t *testing.T) {
		for _, row := range ask(t, "CAST(args.n AS VARCHAR), str(arg1), CAST(args.c AS VARCHAR), arg0 % 3, CAST(args.text AS VARCHAR)", "LIMIT 4") {
			if row[0] != row[1] || row[1] != row[4] || row[2] != colours[row[3][0]-'0'] {
				t.Errorf("row %q", row)
			}
		}
	})
	t.Run("aggregated", func(t *testing.T) {
		for _, row := range ask(t, "COUNT(*) > 0, SUM(CAST(args.n AS BIGINT)) - SUM(arg0), MAX(args.n) - MIN(args.n) >= 0", "FOR 1s") {
			if row[0] == "true" && (row[1] != "0" || row[2] != "true") {
				t.Errorf("row %q", row)
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		w := startWaiting(t, host, plugin)
		s := newSession(t, wire.Options{PID: w.pid()})
		for _, columns := range []string{"args.n", "SUM(args.n)", "args.n::BIGINT, args.n::VARCHAR"} {
			_, err := s.Execute(t.Context(), "SELECT "+columns+from)
			if said := fmt.Sprint(err); !strings.Contains(said, "the type of args.n is not known yet") || !strings.Contains(said, "CAST(args.n AS BIGINT)") {
				t.Errorf("SELECT %s: %s", columns, said)
			}
		}
	})
}
