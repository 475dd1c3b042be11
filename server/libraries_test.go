package server_test

import (
	"path/filepath"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// The libraries of a command are probed before its first instruction, whether a query
// names them or selects them by a pattern: a short program has ended before they could be
// found as they are mapped.
func TestLibrariesOfACommand(t *testing.T) {
	testenv.NeedUprobes(t)
	library := testenv.CompileCText(t, "int twice(int x) { return 2 * x; }\n__attribute__((constructor)) void begins(void) { twice(1); }\n", "-shared", "-fPIC", "-O0", "-Wl,-soname,libtwice.so")
	dir := t.TempDir()
	testenv.CopyFile(t, library, filepath.Join(dir, "libtwice.so"))
	program := testenv.CompileCText(t, "int twice(int); int main(void) { int x = 0; for (int i = 0; i < 100; i++) x += twice(i); return x == 0; }\n",
		"-Wl,--no-as-needed", "-L"+dir, "-ltwice", "-Wl,-rpath,"+dir)
	for _, module := range []string{"= 'libtwice.so'", "LIKE 'libtw%'", "~ '^libtwice'", "IN ('libtwice.so', 'libother.so')"} {
		s := newSession(t, wire.Options{Command: []string{program}})
		a := run(t, s, "SELECT COUNT(*) FROM function_start WHERE module "+module+" AND function_name = 'twice'")
		if n := number(t, a, 0, 0); n != 101 {
			t.Errorf("module %s: %d calls, want 101", module, n)
		}
	}
}
