// Command forgetlines removes from compiled BPF programs which line of their source an
// instruction is of, in place. These lines are half of what there is to read in an object, and
// would be marshalled for each program that is loaded. What stays is the line of each
// function's first instruction: the kernel wants it if any instruction has one
// (kernel/bpf/verifier.c, check_btf_line), and CO-RE relocation may add some.
//
//	go run ./forgetlines OBJECT...
package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

func main() {
	for _, name := range os.Args[1:] {
		if err := forget(name); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func forget(name string) error {
	object, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return err
	}
	s := f.Section(".BTF.ext")
	if s == nil {
		return errors.New("no section .BTF.ext")
	}
	if err := forgetLines(object[s.Offset : s.Offset+s.Size]); err != nil {
		return err
	}
	return os.WriteFile(name, object, 0o644)
}

// The header of .BTF.ext has offsets from its end, and lengths, in bytes
// (Documentation/bpf/btf.rst, struct btf_ext_header).
const (
	headerBytes  = 4 // offset of the length of the header
	functionInfo = 8
	lineInfo     = 16
)

// recordOf is the length of a record: what it says of a function is 8 bytes, of a line 16.
var recordOf = map[int]int{functionInfo: 8, lineInfo: 16}

// forgetLines removes lines from the contents of a section .BTF.ext.
func forgetLines(ext []byte) error {
	begins := map[[2]uint32]bool{} // section and offset of each function
	if _, err := each(ext, functionInfo, func(section uint32, record []byte) bool {
		begins[[2]uint32{section, binary.LittleEndian.Uint32(record)}] = true
		return true
	}); err != nil {
		return err
	}
	left, err := each(ext, lineInfo, func(section uint32, record []byte) bool {
		return begins[[2]uint32{section, binary.LittleEndian.Uint32(record)}]
	})
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(ext[lineInfo+4:], uint32(left))
	return nil
}

// each calls keep for the records of one kind, with the name of their section, an offset in the
// table of strings. It moves those that are kept together, and returns how many bytes they
// take with their headers.
func each(ext []byte, kind int, keep func(section uint32, record []byte) bool) (left int, err error) {
	u32 := func(b []byte, at int) int { return int(binary.LittleEndian.Uint32(b[at:])) }
	begin := u32(ext, headerBytes) + u32(ext, kind)
	b := ext[begin : begin+u32(ext, kind+4)]
	if got := u32(b, 0); got != recordOf[kind] {
		return 0, fmt.Errorf("records of %d bytes, not %d", got, recordOf[kind])
	}
	left = 4
	for at := 4; at < len(b); {
		section, n := u32(b, at), u32(b, at+4)
		at += 8
		header, kept := left, 0
		left += 8
		for range n {
			record := b[at : at+recordOf[kind]]
			at += recordOf[kind]
			if keep(uint32(section), record) {
				copy(b[left:], record)
				left += recordOf[kind]
				kept++
			}
		}
		if kept == 0 {
			return 0, errors.New("a section in which no function begins")
		}
		binary.LittleEndian.PutUint32(b[header:], uint32(section))
		binary.LittleEndian.PutUint32(b[header+4:], uint32(kept))
	}
	return left, nil
}
