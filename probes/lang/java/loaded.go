package java

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"endoscope/probes/process"
)

// The loaded classes are read from the machine's memory, by the description of
// its structures that it exports for debuggers (gHotSpotVMStructs,
// src/hotspot/share/runtime/vmStructs.cpp): it is not stopped, and does no
// work. Since it runs on, classes that are loaded or unloaded meanwhile may be
// missing.

// Library is the file of a Java machine.
const Library = "libjvm.so"

// Method is a method of a loaded class, abstract and native ones included.
type Method struct {
	Class      string // java.util.Map$Entry
	Name       string // or <init>, <clinit>
	Descriptor string // (ILjava/lang/String;)V
	Size       int    // size of its code in the class file, in bytes; 0: none
}

// Function returns the function name of the method.
func (m *Method) Function() string { return m.Class + "." + m.Name }

// Aliases returns further names that distinguish overloaded methods: with
// parameters, and with the descriptor.
func (m *Method) Aliases() []string {
	if list, ok := Parameters(m.Descriptor); ok {
		return []string{m.Function() + "(" + list + ")", m.Function() + m.Descriptor}
	}
	return nil
}

// Limits on the values accepted from memory.
const (
	maxStructs = 1 << 14
	maxLoaders = 1 << 16
	maxClasses = 1 << 20
	maxMethods = 1 << 21
	maxSymbols = 256 << 20 // bytes of names and descriptors
	maxPages   = 1 << 12   // cached pages
	pageBytes  = 1 << 12
)

var errNotDescribed = errors.New("the machine does not describe its structures")

// Loaded lists the methods of the classes that a process's machine, mapped at
// library, has loaded.
func Loaded(pid int, library process.Mapping) ([]Method, error) {
	m := &memory{pid: pid, pages: map[uint64][]byte{}, symbols: map[uint64]string{}}
	s, err := m.describe(library)
	if err != nil {
		return nil, err
	}
	if err := s.needs(fields, "ConstantPool"); err != nil {
		return nil, err
	}
	return s.methods()
}

// memory reads a process's memory by pages. Unreadable memory yields zeros.
type memory struct {
	pid         int
	pages       map[uint64][]byte
	symbols     map[uint64]string // HotSpot's Symbols
	symbolBytes int               // of symbols
}

func (m *memory) page(number uint64) []byte {
	if p, ok := m.pages[number]; ok {
		return p
	}
	p := make([]byte, pageBytes)
	if process.ReadMemory(m.pid, p, number*pageBytes) != pageBytes {
		p = nil
	}
	if len(m.pages) >= maxPages {
		clear(m.pages)
	}
	m.pages[number] = p
	return p
}

// read fills b from addr.
func (m *memory) read(b []byte, addr uint64) {
	for len(b) > 0 {
		from := addr % pageBytes
		n := min(uint64(len(b)), pageBytes-from)
		if p := m.page(addr / pageBytes); p != nil {
			copy(b[:n], p[from:])
		} else {
			clear(b[:n])
		}
		b, addr = b[n:], addr+n
	}
}

func (m *memory) word(addr uint64) uint64 {
	var b [8]byte
	m.read(b[:], addr)
	return binary.LittleEndian.Uint64(b[:])
}

func (m *memory) half(addr uint64) uint32 {
	var b [4]byte
	m.read(b[:], addr)
	return binary.LittleEndian.Uint32(b[:])
}

func (m *memory) quarter(addr uint64) uint16 {
	var b [2]byte
	m.read(b[:], addr)
	return binary.LittleEndian.Uint16(b[:])
}

// text returns the NUL-terminated text at addr.
func (m *memory) text(addr uint64) string {
	var b [maxName]byte
	m.read(b[:], addr)
	text, _, _ := strings.Cut(string(b[:]), "\x00")
	return text
}

// structures describes a machine's structures: offsets of fields, addresses of
// static ones, and sizes.
type structures struct {
	*memory
	at    map[string]uint64 // by Type::field
	sizes map[string]uint64 // by type

	visited, maxVisited int // classes and methods, valid or not
}

// needs returns an error if the machine does not describe a field or type.
func (s *structures) needs(fields []string, sized string) error {
	for _, f := range fields {
		if _, ok := s.at[f]; !ok {
			return fmt.Errorf("%w: not %s", errNotDescribed, f)
		}
	}
	if s.sizes[sized] == 0 {
		return fmt.Errorf("%w: not %s", errNotDescribed, sized)
	}
	return nil
}

// fields are those on the path to methods.
var fields = []string{
	"ClassLoaderDataGraph::_head", "ClassLoaderData::_next", "ClassLoaderData::_klasses",
	"Klass::_next_link", "Klass::_name", "Klass::_layout_helper", "InstanceKlass::_methods",
	"Array<int>::_length", "Array<Method*>::_data", "Method::_constMethod",
	"ConstMethod::_constants", "ConstMethod::_name_index", "ConstMethod::_signature_index", "ConstMethod::_code_size",
	"Symbol::_length", "Symbol::_body",
}

// describe reads the machine's description of its structures.
func (m *memory) describe(library process.Mapping) (*structures, error) {
	exported, err := exports(m.pid, library)
	if err != nil {
		return nil, err
	}
	// The value of a variable of the machine, 0 if it does not exist.
	variable := func(name string) uint64 {
		if addr := exported[name]; addr != 0 {
			return m.word(addr)
		}
		return 0
	}
	s := &structures{memory: m, at: map[string]uint64{}, sizes: map[string]uint64{}, maxVisited: maxClasses + maxMethods}
	entry, stride := variable("gHotSpotVMStructs"), variable("gHotSpotVMStructEntryArrayStride")
	if entry == 0 || stride == 0 {
		return nil, errNotDescribed
	}
	typeName, fieldName := variable("gHotSpotVMStructEntryTypeNameOffset"), variable("gHotSpotVMStructEntryFieldNameOffset")
	static, offset, address := variable("gHotSpotVMStructEntryIsStaticOffset"), variable("gHotSpotVMStructEntryOffsetOffset"), variable("gHotSpotVMStructEntryAddressOffset")
	for range maxStructs {
		name := m.word(entry + typeName)
		if name == 0 {
			break
		}
		// Arrays at the end of a structure are described by their first
		// element, [0].
		field := strings.TrimSuffix(m.text(m.word(entry+fieldName)), "[0]")
		where := entry + offset
		if m.half(entry+static) != 0 {
			where = entry + address
		}
		s.at[m.text(name)+"::"+field] = m.word(where)
		entry += stride
	}
	entry, stride = variable("gHotSpotVMTypes"), variable("gHotSpotVMTypeEntryArrayStride")
	typeName, size := variable("gHotSpotVMTypeEntryTypeNameOffset"), variable("gHotSpotVMTypeEntrySizeOffset")
	for i := 0; entry != 0 && stride != 0 && i < maxStructs; i++ {
		name := m.word(entry + typeName)
		if name == 0 {
			break
		}
		s.sizes[m.text(name)] = m.word(entry + size)
		entry += stride
	}
	return s, nil
}

// exports returns the addresses in a process of what its machine's library
// exports for debuggers.
func exports(pid int, library process.Mapping) (map[string]uint64, error) {
	f, err := process.OpenModule(pid, library)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file, err := elf.NewFile(f)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	list, err := file.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	for _, p := range file.Progs {
		if p.Type != elf.PT_LOAD || library.Offset < p.Off/pageBytes*pageBytes || library.Offset >= p.Off+p.Filesz {
			continue
		}
		bias := library.Start - (p.Vaddr + library.Offset - p.Off)
		out := map[string]uint64{}
		for _, sym := range list {
			if strings.HasPrefix(sym.Name, "gHotSpotVM") {
				out[sym.Name] = bias + sym.Value
			}
		}
		return out, nil
	}
	return nil, errNotDescribed
}

// methods iterates over the classes of all class loaders.
func (s *structures) methods() (out []Method, err error) {
	at := func(field string) uint64 { return s.at[field] }
	loader := s.word(at("ClassLoaderDataGraph::_head"))
	if loader == 0 {
		return nil, errNotDescribed // or not initialised yet
	}
	for i := 0; loader != 0 && i < maxLoaders; i++ {
		class := s.word(loader + at("ClassLoaderData::_klasses"))
		for ; class != 0 && s.visited < s.maxVisited; s.visited++ {
			// Arrays have negative values (Klass::layout_helper).
			if int32(s.half(class+at("Klass::_layout_helper"))) > 0 {
				out = s.add(out, class)
			}
			class = s.word(class + at("Klass::_next_link"))
		}
		loader = s.word(loader + at("ClassLoaderData::_next"))
	}
	return out, nil
}

// add adds the methods of a class.
func (s *structures) add(out []Method, class uint64) []Method {
	at := func(field string) uint64 { return s.at[field] }
	name := strings.ReplaceAll(s.symbol(s.word(class+at("Klass::_name"))), "/", ".")
	list := s.word(class + at("InstanceKlass::_methods"))
	if name == "" || list == 0 {
		return out
	}
	n := s.half(list + at("Array<int>::_length"))
	for i := range min(n, 1<<16) { // the maximum number in a class
		if s.visited++; s.visited > s.maxVisited {
			break
		}
		method := s.word(list + at("Array<Method*>::_data") + 8*uint64(i))
		fixed := s.word(method + at("Method::_constMethod"))
		pool := s.word(fixed+at("ConstMethod::_constants")) + s.sizes["ConstantPool"]
		own := s.symbol(s.word(pool + 8*uint64(s.quarter(fixed+at("ConstMethod::_name_index")))))
		descriptor := s.symbol(s.word(pool + 8*uint64(s.quarter(fixed+at("ConstMethod::_signature_index")))))
		if !strings.HasPrefix(descriptor, "(") || own == "" {
			continue // being unloaded
		}
		out = append(out, Method{name, own, descriptor, int(s.quarter(fixed + at("ConstMethod::_code_size")))})
	}
	return out
}

// symbol returns the text of one of the machine's Symbols.
func (s *structures) symbol(addr uint64) string {
	if addr == 0 {
		return ""
	}
	if text, ok := s.symbols[addr]; ok {
		return text
	}
	n := int(s.quarter(addr + s.at["Symbol::_length"]))
	if s.symbolBytes += n; s.symbolBytes > maxSymbols {
		return ""
	}
	b := make([]byte, n)
	s.read(b, addr+s.at["Symbol::_body"])
	text := strings.ToValidUTF8(string(b), "\uFFFD")
	s.symbols[addr] = text
	return text
}
