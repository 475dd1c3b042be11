package elf

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// goDepths is the pclntab's tables of the stack pointer, and of all other
// values that differ by instruction.
type goDepths struct {
	functions []byte   // the table of functions and their records
	values    []byte   // the programs that the records refer to
	entries   []uint64 // addresses of functions, in order
	records   []uint32 // offsets of their records in functions
}

// GoDepth returns the distance from the stack pointer up to the return address
// at pc of the Go function that begins at entry (runtime/symtab.go,
// funcspdelta).
func (c *contents) GoDepth(entry, pc uint64) (depth int64, known bool) {
	c.depthsRead.Do(c.readGoDepths)
	i, found := slices.BinarySearchFunc(c.depths.entries, entry, cmp.Compare)
	if !found {
		return 0, false
	}
	const pcspAt = 16 // entryOff, nameOff, args, deferreturn, pcsp
	record := uint64(c.depths.records[i])
	if record+pcspAt+4 > uint64(len(c.depths.functions)) {
		return 0, false
	}
	depth, known = c.depths.value(binary.LittleEndian.Uint32(c.depths.functions[record+pcspAt:]), entry, pc)
	return depth, known && depth >= 0
}

// value returns a table's value for pc, in the function that begins at entry,
// by running its program (runtime/symtab.go, pcvalue); program 0 has none.
func (d *goDepths) value(program uint32, entry, pc uint64) (value int64, known bool) {
	if program == 0 || uint64(program) >= uint64(len(d.values)) {
		return 0, false
	}
	values := d.values[program:]
	value = -1
	for at := entry; ; {
		delta, n := binary.Uvarint(values)
		if n <= 0 || delta == 0 && at != entry {
			return 0, false
		}
		steps, k := binary.Uvarint(values[n:])
		if k <= 0 || steps == 0 {
			return 0, false
		}
		values = values[n+k:]
		value += int64(delta>>1) ^ -int64(delta&1)
		if at += steps; pc < at {
			return value, true
		}
	}
}

func (c *contents) readGoDepths() {
	sec := c.image.pclntab()
	if sec == nil {
		return
	}
	data, err := c.image.ReadSection(sec)
	le := binary.LittleEndian
	if err != nil || len(data) < pcHeaderBytes {
		return
	}
	word := func(i int) uint64 { return le.Uint64(data[8+8*i:]) }
	count, valuesAt, functionsAt := word(0), word(6), word(7)
	if valuesAt > functionsAt || functionsAt > uint64(len(data)) || count > MaxFunctions || (2*count+1)*4 > uint64(len(data))-functionsAt || count == 0 {
		return
	}
	d := goDepths{functions: data[functionsAt:], values: data[valuesAt:functionsAt]}
	for i := range count {
		d.entries = append(d.entries, c.image.goBase+uint64(le.Uint32(d.functions[8*i:])))
		d.records = append(d.records, le.Uint32(d.functions[8*i+4:]))
	}
	c.depths = d
}
