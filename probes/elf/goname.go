package elf

import "strings"

// goDisplay returns a Go function's name as the runtime prints it: all
// instances of a generic function have the same, with `[...]` for the type
// arguments (runtime.funcNameForPrint).
func goDisplay(name string) string {
	first, last := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if first < 0 || last <= first {
		return name
	}
	return name[:first] + "[...]" + name[last+1:]
}

// goClass returns the receiver type, with its package, of a Go function's name:
// `main.T` of `main.(*T).M` and of `main.T.M`, "" of `main.f`. Closures of a
// method have the method's receiver. isFunction reports whether a name is that
// of a function of the module: it decides whether `main.x.y.func1` is a closure
// of method y or of y inlined into x.
func goClass(name string, isFunction func(string) bool) string {
	// Type arguments may contain slashes and dots; the package ends at the
	// first dot after the last slash before them.
	head := name
	if i := strings.IndexByte(head, '['); i >= 0 {
		head = head[:i]
	}
	slash := strings.LastIndexByte(head, '/') + 1
	dot := strings.IndexByte(head[slash:], '.')
	if dot < 0 || strings.HasPrefix(name, "type:") || strings.HasPrefix(name, "go:") {
		return ""
	}
	pkg, rest := name[:slash+dot], name[slash+dot+1:]
	parts := splitDots(strings.TrimSuffix(rest, "-fm"))
	if receiver, ok := strings.CutPrefix(parts[0], "("); ok {
		return pkg + "." + strings.TrimSuffix(strings.TrimPrefix(receiver, "*"), ")")
	}
	named := len(parts)
	for named > 0 && isGoClosure(parts[named-1]) {
		named--
	}
	if named < 2 || parts[0] == "" || parts[0] == "init" {
		return ""
	}
	class := pkg + "." + parts[0]
	if named < len(parts) && isFunction(class) {
		return ""
	}
	return class
}

// splitDots splits at the dots that are not within brackets.
func splitDots(s string) (parts []string) {
	depth, start := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '.':
			if depth == 0 {
				parts = append(parts, s[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, s[start:])
}

// isGoClosure reports whether a component of a name was added by the compiler:
// func1, 2 (a closure in a closure), gowrap1, deferwrap1, func1-range1.
func isGoClosure(part string) bool {
	part, _, _ = strings.Cut(part, "-range")
	for _, prefix := range []string{"func", "gowrap", "deferwrap"} {
		if number, ok := strings.CutPrefix(part, prefix); ok {
			part = number
			break
		}
	}
	return strings.Trim(part, "0123456789") == ""
}
