package elf

// Lang is the language that a function was compiled from, as far as its name
// and tables tell.
type Lang uint8

// C is also everything that does not say otherwise, assembler included.
const (
	C Lang = iota
	CPP
	Rust
	Go
)

// String is the language's name as users write it.
func (l Lang) String() string {
	return [...]string{"C", "C++", "Rust", "Go"}[l&3]
}

// Function is one function of a module. Several names at one address are one
// function: the instruction is the same, so they cannot be told apart.
type Function struct {
	// Name is what the user sees: demangled, without parameters
	// (`ns::Class::method`, `main.(*T).M`, `crate::module::f`).
	Name string
	// Mangled is the name as the symbol table has it, for Go as the pclntab has
	// it: with the type arguments of an instance of a generic function.
	Mangled string
	// Aliases are the other names at the address, mangled and demangled.
	Aliases []string
	// Class is what qualifies the name: the prefix of a C++ or Rust name up to
	// its last `::`, the receiver type with its package (`main.T`) of a Go
	// method, else "". From a name alone a C++ namespace looks like a class, so
	// that the Class of `ns::f` is `ns`.
	Class string
	// Addr is the virtual address of the entry as the file numbers it, Size the
	// length in bytes, 0 if unknown.
	Addr, Size uint64
	// Offset is the file offset of the entry.
	Offset uint64
	Lang   Lang
	// Synthetic marks a function without a name (`sub_<hex of Addr>`) that only
	// the unwind table knows.
	Synthetic bool
}
