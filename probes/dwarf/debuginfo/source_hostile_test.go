package debuginfo

import (
	"bytes"
	"debug/elf"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// Damaged debug information yields fewer lines and calls, or an error: no crash, and no look-up
// without an end.
func TestDamagedSource(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, way := range testenv.Few(1, []string{"gcc -O2 -g chain.c", "gcc -O2 -gdwarf-4 chain.c", "clang++ -O2 -g chain.cpp"}) {
		program := compileSource(t, way)
		whole, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(whole))
		if err != nil {
			t.Fatal(err)
		}
		addrs := textOf(f, 40)
		for _, name := range []string{"info", "abbrev", "line", "line_str", "str", "ranges", "rnglists", "addr", "str_offsets"} {
			sec := Section(f, name)
			if sec == nil || sec.Size == 0 {
				continue
			}
			for range testenv.Times(30) {
				damaged := bytes.Clone(whole)
				for range 1 + random.IntN(8) {
					at := sec.Offset + random.Uint64N(sec.Size)
					n := min(1+random.Uint64N(9), sec.Offset+sec.Size-at)
					for i := range n {
						damaged[at+i] = []byte{0, 0xff, 0x80, byte(random.Uint32())}[random.IntN(4)]
					}
				}
				path := filepath.Join(t.TempDir(), "damaged")
				if err := os.WriteFile(path, damaged, 0o600); err != nil {
					t.Fatal(err)
				}
				file, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				s, err := OpenSource(f, file, nil, MaxUnpacked, nil)
				if err == nil {
					for _, a := range addrs {
						s.Inlined(a, true)
					}
					_, _, _, err = s.Addresses("chain.c", 20)
					err = errors.Join(err, s.Err())
				}
				if err != nil && strings.Contains(err.Error(), "runtime error") {
					t.Errorf("%s, .debug_%s: %v", way, name, err)
				}
				file.Close()
			}
		}
	}
}
