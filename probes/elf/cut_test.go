package elf

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// TestFileCutShort holds a program that is cut short at any place to be opened, or refused
// with an error that is not the end of a result.
func TestFileCutShort(t *testing.T) {
	whole, err := os.ReadFile(testenv.CompileText(t, ".c", "int f(void) { return 1; } void _start(void) { for (;;) f(); }",
		"-nostdlib", "-static-pie", "-O1", "-fno-inline", "-Wl,-z,noseparate-code"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "half")
	for n := 0; n < len(whole); n += 61 {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Open(f, "half")
		switch {
		case err == nil:
			for range m.All() {
			}
			m.Close()
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), !strings.HasPrefix(err.Error(), "half: "):
			t.Errorf("%d bytes of %d: %v", n, len(whole), err)
		case n >= 64 && !strings.Contains(err.Error(), "the file is cut short"):
			t.Errorf("%d bytes of %d: %v", n, len(whole), err)
		}
		f.Close()
	}
}
