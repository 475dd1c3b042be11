package interpreter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"endoscope/probes/process"
)

// Memory is the memory of a process whose interpreter is loaded with an offset (Bias)
// from the addresses in its file.
type Memory struct {
	PID  int
	Bias uint64
}

var errMemory = errors.New("memory cannot be read")

// MaxName limits the bytes of a name that are read.
const MaxName = 300

// Read reads memory, all or nothing.
func (m Memory) Read(addr uint64, b []byte) error {
	if process.ReadMemory(m.PID, b, addr) != len(b) {
		return errMemory
	}
	return nil
}

// Word reads 8 bytes.
func (m Memory) Word(addr uint64) (uint64, error) {
	var b [8]byte
	err := m.Read(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// Half reads 4 bytes.
func (m Memory) Half(addr uint64) (uint32, error) {
	var b [4]byte
	err := m.Read(addr, b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

// Name reads the n bytes of a name, the first MaxName of a longer one, up to a byte that
// is zero. It is false if there are none.
func (m Memory) Name(addr, n uint64) (string, bool) {
	const longest = 1 << 20 // that a name can have
	if n == 0 || n > longest {
		return "", false
	}
	b := make([]byte, min(n, MaxName))
	if m.Read(addr, b) != nil {
		return "", false
	}
	if n > MaxName { // it may end within a character
		for i := 1; i < utf8.UTFMax && !utf8.Valid(b); i++ {
			b = b[:len(b)-1]
		}
	}
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.ToValidUTF8(string(b), "\uFFFD"), len(b) > 0
}
