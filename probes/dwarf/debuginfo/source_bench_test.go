package debuginfo

import (
	"debug/elf"
	"os"
	"testing"
)

// The cost of opening a program's source positions, of the first look-up in a unit, which reads
// its functions, and of further ones.
func BenchmarkSource(b *testing.B) {
	program := os.Getenv("SOURCE_PROGRAM") // another than a small one of C++, with debug information
	if program == "" {
		program = compileSource(b, "g++ -O2 -g chain.cpp")
	}
	file, err := os.Open(program)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		b.Fatal(err)
	}
	open := func() *Source {
		s, err := OpenSource(f, file, nil, MaxUnpacked, nil)
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	addrs := textOf(f, 1000)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			open()
		}
	})
	for _, c := range []struct {
		name  string
		lines bool
	}{{"inlined calls", false}, {"lines", true}} {
		b.Run("first "+c.name, func(b *testing.B) {
			s := open()
			for b.Loop() {
				for _, u := range s.units {
					u.functions, u.program, u.sequences = nil, nil, nil
				}
				s.Inlined(addrs[len(addrs)/2], c.lines)
			}
		})
		b.Run("further "+c.name, func(b *testing.B) {
			s, i := open(), 0
			for b.Loop() {
				s.Inlined(addrs[i%len(addrs)], c.lines)
				i++
			}
		})
	}
}
