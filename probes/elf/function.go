package elf

// Lang is the language that a function was compiled from, as far as its name
// and tables show.
type Lang uint8

// C is also the value for every other language, including assembler.
const (
	C Lang = iota
	CPP
	Rust
	Go
)

// String returns the language's name as users write it.
func (l Lang) String() string {
	return [...]string{"C", "C++", "Rust", "Go"}[l&3]
}

// Function is one function of a module. Several names at one address are one
// function: a probe cannot distinguish them.
type Function struct {
	// Name is the display name: demangled, without parameters
	// (`ns::Class::method`, `main.(*T).M`, `crate::module::f`).
	Name string
	// Mangled is the name in the symbol table, for Go in the pclntab: with the
	// type arguments of an instance of a generic function.
	Mangled string
	// Aliases are the other names at the address, mangled and demangled.
	Aliases []string
	// Class is the qualifier of the name: the prefix of a C++ or Rust name up
	// to its last `::`, the receiver type with its package (`main.T`) of a Go
	// method, else "". In a name alone a C++ namespace looks like a class, so
	// the Class of `ns::f` is `ns`.
	Class string
	// Addr is the virtual address of the entry in the file, Size the length in
	// bytes, 0 if unknown.
	Addr, Size uint64
	// Offset is the file offset of the entry.
	Offset uint64
	Lang   Lang
	// Synthetic marks a function without a name (`sub_<hex of Addr>`), found in
	// the unwind table only.
	Synthetic bool
}
