package perfmap

import (
	"testing"
)

// FuzzMap reads any file, in two parts: entries do not overlap, names are short, and each
// address is found in the entry that has it.
func FuzzMap(f *testing.F) {
	f.Add([]byte("7f0000001000 20 Interpreter\n7f0000001010 20 app.Server.run(long)\n"), 40)
	f.Add([]byte("0x10 0x10 LazyCompile:~f /a.js:1:2\n10 0 x\nffffffffffffffff 1 x\n1000000000000 100000000 end\n"), 3)
	f.Add([]byte("0 ffffffff all\n1 1 a\n3 1 b\n"), 0)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		if len(text) > 1<<16 {
			return
		}
		var m Map
		cut = max(min(cut, len(text)), 0)
		m.enter(text[:cut])
		m.enter(text[cut:])
		end := uint64(0)
		m.entries.Scan(func(start uint64, e Entry) bool {
			if e.Start != start || e.End <= e.Start || e.Start < end || e.Name == "" || len(e.Name) > maxName {
				t.Fatalf("%+v at %#x after %#x", e, start, end)
			}
			end = e.End
			for _, addr := range []uint64{e.Start, e.End - 1} {
				if found, ok := m.find(addr); !ok || found != e {
					t.Fatalf("%#x is in %+v, found %+v", addr, e, found)
				}
			}
			return true
		})
	})
}
