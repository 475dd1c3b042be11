// Package interpretertest opens interpreters for the tests of the packages of languages.
package interpretertest

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"

	"endoscope/probes/lang/interpreter"
	"endoscope/probes/process"
)

// Open opens the interpreter of a process. The error is that of the last file by whose name it
// could be the interpreter.
func Open(pid int, l *interpreter.Language) (*interpreter.Process, error) {
	text, err := process.Text(pid)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("no interpreter")
	for _, m := range text {
		if m.Inode == 0 || !l.IsInterpreter(m.Path) {
			continue
		}
		f, openErr := process.OpenModule(pid, m)
		if openErr != nil {
			return nil, openErr
		}
		defer f.Close()
		layout, layoutErr := l.ReadLayout(f, m.Path)
		if layoutErr == nil {
			return interpreter.Open(pid, layout, bias(f, m)), nil
		}
		var unknown *interpreter.ErrVersion
		if errors.As(layoutErr, &unknown) {
			return nil, layoutErr
		}
		err = layoutErr
	}
	return nil, err
}

// bias returns the difference between addresses in a process and in the file.
func bias(file io.ReaderAt, m process.Mapping) uint64 {
	f, err := elf.NewFile(file)
	if err != nil {
		return 0
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && m.Offset >= p.Off && m.Offset < p.Off+p.Filesz {
			return m.Start - (m.Offset - p.Off + p.Vaddr)
		}
	}
	return 0
}
