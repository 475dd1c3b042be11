package ruby

import (
	"encoding/binary"
	"math/bits"

	"endoscope/probes/lang/interpreter"
)

// The index of lines (struct succ_index_table, iseq.c) tells for each instruction how many of
// those that begin a new entry are not behind it: for the first 54 in 7 bits each, 9 to a word;
// for the others by blocks of 512 bits, which have the number of those before the block, of
// those before each of its 64 bits but the first in 9 bits each, and the bits.
const (
	firstPart    = 54
	perWord      = 9
	countBits    = 7
	firstBytes   = firstPart / perWord * 8
	blockBits    = 512
	blockBytes   = 80
	blockCounts  = 8
	blockWords   = 16
	smallBits    = 64
	smallCount   = 9
	maxLineCount = 1 << 24
)

// line returns the line of an instruction, 0 if it cannot be read. lines are n entries that begin
// with a line, which index assigns to instructions.
func (l *layout) line(m interpreter.Memory, lines, index uint64, n uint32, instruction uint64) int {
	if n == 0 || n > maxLineCount {
		return 0
	}
	entry := uint64(1)
	if n > 1 {
		var ok bool
		if entry, ok = entryOf(m, index, instruction); !ok || entry == 0 || entry > uint64(n) {
			return 0
		}
	}
	line, err := m.Half(lines + (entry-1)*l.lineSize)
	if err != nil || int32(line) < 0 {
		return 0
	}
	return int(line)
}

// entryOf returns the number of the entry of an instruction, from 1 on.
func entryOf(m interpreter.Memory, index, instruction uint64) (uint64, bool) {
	if instruction < firstPart {
		word, err := m.Word(index + instruction/perWord*8)
		return word >> (instruction % perWord * countBits) & (1<<countBits - 1), err == nil
	}
	at := instruction - firstPart
	var b [blockBytes]byte
	if m.Read(index+firstBytes+at/blockBits*blockBytes, b[:]) != nil {
		return 0, false
	}
	bit := at % blockBits
	small := bit / smallBits
	count := uint64(binary.LittleEndian.Uint32(b[:]))
	if small > 0 {
		count += binary.LittleEndian.Uint64(b[blockCounts:]) >> ((small - 1) * smallCount) & (1<<smallCount - 1)
	}
	word := binary.LittleEndian.Uint64(b[blockWords+small*8:])
	return count + uint64(bits.OnesCount64(word<<(smallBits-1-bit%smallBits))), true
}
