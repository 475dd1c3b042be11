package php

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"path/filepath"
	"regexp"

	"endoscope/probes/lang/interpreter"
)

const name = "PHP"

// Language is PHP, as the Zend engine executes it.
var Language = interpreter.Language{
	Name:          name,
	IsInterpreter: IsInterpreter,
	ReadLayout:    ReadLayout,
	IsStandard:    func(string) bool { return false }, // its library is in C
	Loop:          []string{"execute_ex"},
	PlaceRegister: 15, // ZEND_VM_IP_GLOBAL_REG of Zend/zend_execute.c, as GCC compiles it
}

// layout is where one build of PHP keeps its calls and functions.
type layout struct {
	globals uint64 // address of executor_globals in the file
	offsets
}

// offsets are those in the engine's structures that differ between versions.
type offsets struct {
	opcodes  uint64 // zend_op_array.opcodes
	last     uint64 // zend_op_array.last: how many
	filename uint64 // zend_op_array.filename
}

// Offsets that all known versions have.
const (
	currentCall   = 488 // zend_executor_globals.current_execute_data
	functionTable = 432 // zend_executor_globals.function_table

	callPlace    = 0  // zend_execute_data.opline
	callFunction = 24 // zend_execute_data.func
	callPrevious = 48 // zend_execute_data.prev_execute_data

	functionFlags = 4  // zend_function.common.fn_flags
	functionName  = 8  // zend_function.common.function_name
	functionScope = 16 // zend_function.common.scope
	className     = 8  // zend_class_entry.name

	stringLength = 16 // zend_string.len
	stringText   = 24 // zend_string.val

	instructionSize = 32 // sizeof(zend_op)
	instructionLine = 24 // zend_op.lineno
)

const known = "7.4 and 8.1 to 8.4 are, if they have symbols and are not built with threads"

var layouts = map[string]offsets{
	"7.4": {opcodes: 64, last: 60, filename: 136},
	"8.1": {opcodes: 72, last: 68, filename: 144},
	"8.2": {opcodes: 88, last: 80, filename: 152},
	"8.3": {opcodes: 80, last: 76, filename: 144},
	"8.4": {opcodes: 104, last: 96, filename: 168},
}

// ErrNone is returned for files that are no PHP.
var ErrNone = fmt.Errorf("it is no PHP")

var interpreterName = regexp.MustCompile(`^(php|php-fpm|php-cgi|libphp)[\d.]*(\.so)?$`)

// IsInterpreter reports whether a file, by its name, is PHP.
func IsInterpreter(path string) bool { return interpreterName.MatchString(filepath.Base(path)) }

// ReadLayout reads the layout of an interpreter, an executable or a library.
func ReadLayout(file io.ReaderAt, _ string) (interpreter.Layout, error) {
	return interpreter.OpenELF(file, readLayout)
}

func readLayout(f *elf.File) (interpreter.Layout, error) {
	symbols := interpreter.Symbols(f, "executor_globals", "executor_globals_offset", "execute_ex")
	if symbols["execute_ex"].Value == 0 {
		return nil, ErrNone
	}
	version, err := versionOf(f)
	if err != nil {
		return nil, err
	}
	globals := symbols["executor_globals"].Value
	switch {
	case globals != 0:
	case symbols["executor_globals_offset"].Value != 0:
		return nil, errVersion(version + " with threads (ZTS)")
	default:
		return nil, errVersion(version + " without symbols")
	}
	offsets, ok := layouts[version]
	if !ok {
		return nil, errVersion(version)
	}
	return &layout{globals: globals, offsets: offsets}, nil
}

func errVersion(version string) error {
	return &interpreter.ErrVersion{Language: name, Version: version, Known: known}
}

// header precedes the version in the read-only data (main/main.c, php_request_startup).
const header = "X-Powered-By: PHP/"

var versionNumber = regexp.MustCompile(`^\d+\.\d+`)

// maxData limits the read-only data that is searched for the version.
const maxData = 64 << 20

// versionOf returns the version of a file, such as 8.2.
func versionOf(f *elf.File) (string, error) {
	section := f.Section(".rodata")
	if section == nil || section.Size > maxData || section.Type == elf.SHT_NOBITS {
		return "", errVersion("of an unknown version")
	}
	data, err := section.Data()
	if err != nil {
		return "", err
	}
	if _, after, ok := bytes.Cut(data, []byte(header)); ok {
		if v := versionNumber.Find(after[:min(len(after), 16)]); v != nil {
			return string(v), nil
		}
	}
	return "", errVersion("of an unknown version")
}
