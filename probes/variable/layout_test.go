package variable

import (
	"os"
	"testing"
	"time"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// The debug information of a file is read once, and again if the file or the
// names change; errors are cached likewise.
func TestLayouts(t *testing.T) {
	program := testenv.CompileC(t, "testdata/vars.c", "-O1", "-g", "-pthread")
	known := newLayouts(elf.Search{})
	of := func(names ...string) *layout {
		t.Helper()
		f, err := os.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		l, err := known.layoutOf(f, "target", names)
		if err != l.err {
			t.Errorf("error %v, want %v", err, l.err)
		}
		return l
	}
	first := of("total", "absent")
	if first.err != nil || len(first.found) != 1 || first.found[0].name != "total" || of("total", "absent") != first {
		t.Errorf("found %v, error %v", first.found, first.err)
	}
	if wrong := of("own"); wrong.err == nil || of("own") != wrong {
		t.Errorf("error %v", wrong.err)
	}
	if err := os.Chtimes(program, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if of("total", "absent") == first {
		t.Error("a file that has changed is not read again")
	}
}
