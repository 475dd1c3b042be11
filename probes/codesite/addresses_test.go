package codesite

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"testing"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// Instructions begin where objdump says that they do, in programs and in libraries with
// hand-written code; no other address is accepted.
func TestPlacesAreInstructions(t *testing.T) {
	objdump := testenv.NeedProgram(t, "objdump")
	files := []string{
		testenv.CompileCText(t, "int main(int c, char **v) { switch (c) { case 1: return 3; case 2: return 9; case 3: return v[0][0]; case 4: return 7; case 5: __builtin_trap(); default: return c * 5; } }", "-O2"),
	}
	for _, path := range []string{"/lib/x86_64-linux-gnu/libz.so.1", "/lib/x86_64-linux-gnu/libcrypto.so.3", "/lib64/libz.so.1"} {
		if _, err := os.Stat(path); err == nil {
			files = append(files, path)
		}
	}
	insn := regexp.MustCompile(`(?m)^ *([0-9a-f]+):\t`)
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var cache elf.Cache
		m, err := cache.Open(f, path)
		if err != nil {
			t.Fatal(err)
		}
		begins := map[uint64]bool{}
		for _, line := range insn.FindAllStringSubmatch(testenv.Output(t, objdump, "-d", "--no-show-raw-insn", path), -1) {
			at, _ := strconv.ParseUint(line[1], 16, 64)
			begins[at] = true
		}
		code := In(m)
		accepted, within := 0, 0
		for i := range code.Entries() {
			e := &code.Entries()[i]
			for at := e.Addr; at < e.Addr+min(code.Extent(i), 300) && accepted < 30_000; at++ {
				site, start, err := code.PlaceAt(at)
				var between *Between
				switch {
				case err == nil && !begins[at]:
					t.Errorf("%s: %#x (from %#x) is accepted, where no instruction begins", path, at, start)
				case err == nil && (site.Addr != at || code.OffsetOf(at) != site.Offset):
					t.Errorf("%s: %#x: site %+v", path, at, site)
				case err == nil:
					accepted++
				case errors.As(err, &between):
					within++
					if begins[at] || !begins[between.Begin] || between.Begin >= at || at >= between.Next {
						t.Errorf("%s: %#x: %v (%+v)", path, at, err, between)
					}
				}
				if t.Failed() {
					t.FailNow()
				}
			}
		}
		if accepted < 10 || within < accepted {
			t.Errorf("%s: %d addresses are instructions, %d lie within some", path, accepted, within)
		}
		m.Close()
		cache.Close()
	}
}
