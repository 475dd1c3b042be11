package golang

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"endoscope/probes/testenv"
)

// The layout of a program is found unless it is stripped; damage yields an
// error and no panic.
func TestReadLayout(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module target\n\ngo 1.23\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, stripped := range []string{"", "-ldflags=-w", "-ldflags=-s"} {
		var flags []string
		if stripped != "" {
			flags = append(flags, stripped)
		}
		b, err := os.ReadFile(testenv.CompileGo(t, dir, flags...))
		if err != nil {
			t.Fatal(err)
		}
		l, err := ReadLayout(bytes.NewReader(b))
		number, errNumber := NumberOffset(bytes.NewReader(b))
		if stripped != "" {
			if !errors.Is(err, ErrNoDebugInformation) || !errors.Is(errNumber, ErrNoDebugInformation) {
				t.Errorf("%s: errors %v, %v", stripped, err, errNumber)
			}
			continue
		}
		if errNumber != nil || number != l.goid {
			t.Errorf("goroutines have their number at %d, or %d, error %v", number, l.goid, errNumber)
		}
		if err != nil || l.size < 300 || l.schedPC != l.schedSP+8 || l.stackHigh != l.stackLow+8 || l.reasonCount < 20 {
			t.Errorf("layout %+v, error %v", l, err)
		}
		for cut := 0; cut < len(b); cut += len(b) / 20 {
			damaged := bytes.Clone(b)
			copy(damaged[cut:], bytes.Repeat([]byte{0xa5}, 4096))
			_, _ = ReadLayout(bytes.NewReader(damaged))
			_, _ = ReadLayout(bytes.NewReader(b[:cut]))
			_, _ = NumberOffset(bytes.NewReader(damaged))
			_, _ = NumberOffset(bytes.NewReader(b[:cut]))
		}
	}
}
