package debuginfo

import (
	"bytes"
	"compress/zlib"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

func readFile(t *testing.T, path string) (*Info, error) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return Read(f)
}

// compile builds a program from C source text.
func compile(t testing.TB, text string, flags ...string) string {
	t.Helper()
	src := filepath.Join(t.TempDir(), "target.c")
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return testenv.CompileC(t, src, flags...)
}

func TestBudget(t *testing.T) {
	b := &budget{limit: 10}
	if !b.reserve(6) || b.reserve(5) || !b.reserve(4) || b.reserve(1) {
		t.Error("10 bytes are not 6 and 4")
	}
	b.release(6)
	if !b.reserve(5) {
		t.Error("what was given back cannot be taken")
	}
}

// Debug information uses the budget until it is unreferenced.
func TestDebugInfoTakesOfBudget(t *testing.T) {
	path := compile(t, "int main(void) { return 0; }", "-g")
	old := memory
	memory = &budget{limit: 1 << 20}
	t.Cleanup(func() { memory = old })
	d, err := readFile(t, path)
	if err != nil || memory.taken == 0 {
		t.Fatalf("%v; %d bytes are taken", err, memory.taken)
	}
	size := memory.taken
	memory.limit = size + size/2
	if _, err := readFile(t, path); err == nil || !strings.Contains(err.Error(), "does not fit beside") {
		t.Errorf("read twice: %v", err)
	}
	runtime.KeepAlive(d)
	// The memory is released once the collector has found it unreferenced.
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if _, err = readFile(t, path); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("read when the first is not used any more: %v", err)
		}
	}
}

// The stated uncompressed sizes of sections are checked.
func TestDebugInfoTooLarge(t *testing.T) {
	path := compile(t, "int main(void) { return 0; }", "-g")
	var packed bytes.Buffer
	packed.WriteString("ZLIB")
	packed.Write(binary.BigEndian.AppendUint64(nil, 1<<40))
	z := zlib.NewWriter(&packed)
	z.Write(make([]byte, 100))
	z.Close()
	section := filepath.Join(t.TempDir(), "section")
	if err := os.WriteFile(section, packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("objcopy", "--remove-section", ".debug_str", "--add-section", ".zdebug_str="+section, path, path+"2").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := readFile(t, path+"2"); err == nil || !strings.Contains(err.Error(), "more than 1024 MiB") {
		t.Error(err)
	}
}

// Sections may be compressed in either format.
func TestCompressedDebugInfo(t *testing.T) {
	for _, way := range []string{"none", "zlib-gabi", "zlib-gnu"} {
		path := compile(t, "int lucky = 7; int main(void) { return lucky; }", "-g")
		out, err := exec.Command("objcopy", "--compress-debug-sections="+way, path, path+"2").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		d, err := readFile(t, path+"2")
		if err != nil {
			t.Errorf("%s: %v", way, err)
			continue
		}
		found := false
		for r := d.Reader(); ; {
			e, err := r.Next()
			if err != nil || e == nil {
				break
			}
			found = found || e.Val(dwarf.AttrName) == "lucky"
		}
		if !found {
			t.Errorf("%s: lucky is not in it", way)
		}
	}
}
