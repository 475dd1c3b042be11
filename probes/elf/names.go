package elf

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ianlancetaylor/demangle"
)

// Limits on the length of a name, in bytes: in a table, and demangled (a power
// of 2).
const (
	maxName           = 16 << 10
	maxDemangledPower = 16
	// Limit on all demangled names of a module. Those beyond it stay mangled.
	maxDemangledBytes = 256 << 20
)

// isMangled reports whether name is a C++ or Rust symbol.
func isMangled(name string) bool {
	return strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R")
}

// nameAll fills in the names, classes and languages of functions whose raw
// names are known, and returns the bytes of names used. It stops at budget: the
// rest stays mangled. It runs on all processors, since demangling dominates the
// cost.
func nameAll(fns []Function, budget int) (bytes int) {
	workers := min(runtime.GOMAXPROCS(0), 1+len(fns)/1024)
	chunk := (len(fns) + workers - 1) / workers
	var total atomic.Int64
	var all sync.WaitGroup
	for len(fns) > 0 {
		part := fns[:min(chunk, len(fns))]
		fns = fns[len(part):]
		all.Go(func() {
			left := budget / workers
			for i := 0; i < len(part) && left > 0; i++ {
				left -= nameFunction(&part[i])
			}
			total.Add(int64(budget/workers - left))
		})
	}
	all.Wait()
	return int(total.Load())
}

// nameFunction names f, except for the class of a Go function, and returns the
// bytes of names used.
func nameFunction(f *Function) (bytes int) {
	switch {
	case f.Synthetic:
		return 0
	case f.Lang == Go:
		f.Name = goDisplay(f.Mangled)
		return 0
	}
	if name, class, lang, ok := demangled(f.Mangled); ok {
		f.Name, f.Class, f.Lang = name, class, lang
		bytes += len(f.Mangled) + len(name) + len(class)
		if plain := withoutTags(name); plain != name {
			f.Aliases = append(slices.Clip(f.Aliases), plain)
			bytes += len(plain)
		}
	}
	seen := f.Name
	for _, alias := range f.Aliases { // the range covers the aliases present at the start
		if name, _, _, ok := demangled(alias); ok && name != seen {
			f.Aliases = append(f.Aliases, name)
			seen = name
			bytes += len(alias) + len(name)
		}
	}
	return bytes
}

// withoutTags removes ABI tags from a C++ name, so that it is as in the source:
// ns::tagged[abi:cxx11] is ns::tagged.
func withoutTags(name string) string {
	for {
		start := strings.Index(name, "[abi:")
		if start < 0 {
			return name
		}
		length := strings.IndexByte(name[start:], ']')
		if length < 0 {
			return name
		}
		name = name[:start] + name[start+length+1:]
	}
}

// demangled returns a symbol's name without parameters, and its class.
func demangled(symbol string) (name, class string, lang Lang, ok bool) {
	if !isMangled(symbol) || len(symbol) > maxName {
		return "", "", C, false
	}
	defer func() {
		if recover() != nil { // the demangler failed on a name
			name, class, lang, ok = "", "", C, false
		}
	}()
	if isRust(symbol) {
		name, err := demangle.ToString(symbol, demangle.MaxLength(maxDemangledPower))
		if err != nil {
			return "", "", C, false
		}
		name = withoutHash(name)
		return name, prefixOf(name), Rust, true
	}
	tree, err := demangle.ToAST(symbol, demangle.NoParams)
	if err != nil {
		return "", "", C, false
	}
	text := func(a demangle.AST) string {
		return demangle.ASTToString(a, demangle.NoParams, demangle.MaxLength(maxDemangledPower))
	}
	return text(tree), scopeOf(tree, text), CPP, true
}

// scopeOf returns the qualifier of the entity that a C++ name denotes, "" if
// there is none.
func scopeOf(a demangle.AST, text func(demangle.AST) string) string {
	for {
		switch n := a.(type) {
		case *demangle.Qualified:
			// Entities local to a function are nested on the right:
			// main::({lambda()#1}::operator()).
			if inner := scopeOf(n.Name, text); inner != "" {
				return text(n.Scope) + "::" + inner
			}
			return text(n.Scope)
		case *demangle.Template:
			a = n.Name
		case *demangle.TaggedName:
			a = n.Name
		case *demangle.MethodWithQualifiers:
			a = n.Method
		case *demangle.Typed:
			a = n.Name
		case *demangle.Constraint:
			a = n.Name
		case *demangle.Clone:
			a = n.Base
		case *demangle.Special: // a thunk or guard of the entity
			a = n.Val
		default:
			return ""
		}
	}
}

// isRust recognises both of Rust's manglings: v0 (`_R`) and the legacy one, a
// C++ name that ends in a hash component `17h` + 16 hex digits + `E`.
func isRust(symbol string) bool {
	if strings.HasPrefix(symbol, "_R") {
		return true
	}
	if end := strings.LastIndex(symbol, "E."); end > 0 {
		symbol = symbol[:end+1]
	}
	const tail = len("17h0123456789abcdefE")
	return strings.HasPrefix(symbol, "_ZN") && len(symbol) > tail &&
		strings.HasSuffix(symbol, "E") && symbol[len(symbol)-tail:][:3] == "17h" &&
		isHex(symbol[len(symbol)-tail+3:len(symbol)-1])
}

// withoutHash removes the hash that legacy Rust names end in.
func withoutHash(name string) string {
	const tail = len("::h0123456789abcdef")
	if cut := len(name) - tail; cut > 0 && name[cut:][:3] == "::h" && isHex(name[cut+3:]) {
		return name[:cut]
	}
	return name
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// prefixOf returns the part of a Rust path before its last `::` outside of
// brackets.
func prefixOf(path string) string {
	depth := 0
	for i := len(path) - 1; i > 0; i-- {
		switch path[i] {
		case '>':
			if path[i-1] != '-' { // `->` of a function type
				depth++
			}
		case ')', ']', '}':
			depth++
		case '<', '(', '[', '{':
			depth--
		case ':':
			if depth == 0 && path[i-1] == ':' {
				return path[:i-1]
			}
		}
	}
	return ""
}
