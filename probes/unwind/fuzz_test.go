package unwind

import (
	"runtime"
	"testing"

	"endoscope/probes/dwarf/op"
)

// FuzzUnwind needs no ELF file around the table.
func FuzzUnwind(f *testing.F) {
	f.Add([]byte{0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
		0x10, 0, 0, 0, 0x1c, 0, 0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 0x41, 0x0e, 16})
	f.Fuzz(func(t *testing.T, table []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		defer func() {
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20+10_000*uint64(len(table)) {
				t.Errorf("a table of %d bytes: %d were allocated", len(table), n)
			}
		}()
		u, err := Parse(table, 0x1000)
		if u == nil {
			t.Fatal(err)
		}
		for i := range u.Entries {
			e := &u.Entries[i]
			if e.End <= e.Start {
				t.Fatalf("entry [%#x, %#x)", e.Start, e.End)
			}
			e.Row(e.Start)
			e.Row(e.End - 1)
			e.Rule(e.Start)
			if rule, ok := e.Rule(e.End - 1); ok {
				op.Evaluate(rule.CFAExpr, make([]uint64, Registers), noMemory{})
			}
			u.Find(e.Start)
		}
	})
}

type noMemory struct{}

func (noMemory) Word(uint64) (uint64, bool) { return 0, false }
