package interpretertest

import (
	"bytes"
	"os"
	"testing"

	"endoscope/probes/lang/interpreter"
)

// ReadDamaged reads the layout of damaged and of cut copies of an interpreter's file, which must not
// panic, and of the file itself, which must be known. name is the file's name for the language.
func ReadDamaged(t *testing.T, l *interpreter.Language, file, name string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut < len(b); cut += len(b) / 20 {
		damaged := bytes.Clone(b)
		copy(damaged[cut:], bytes.Repeat([]byte{0xa5}, 4096))
		_, _ = l.ReadLayout(bytes.NewReader(damaged), name)
		_, _ = l.ReadLayout(bytes.NewReader(b[:cut]), name)
	}
	if _, err := l.ReadLayout(bytes.NewReader(b), name); err != nil {
		t.Error(err)
	}
}
