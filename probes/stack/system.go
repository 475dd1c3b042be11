package stack

import (
	"path/filepath"
	"regexp"
	"strings"

	"endoscope/probes/elf"
)

// systemFolders contain the libraries that come with the system.
var systemFolders = []string{"/lib/", "/lib32/", "/lib64/", "/libx32/", "/usr/lib/", "/usr/lib32/", "/usr/lib64/", "/usr/libx32/"}

func inSystemFolder(path string) bool {
	for _, folder := range systemFolders {
		if strings.HasPrefix(path, folder) {
			return true
		}
	}
	return false
}

// runtimeNames match executables that run their users' programs: interpreters and
// virtual machines.
var runtimeNames = regexp.MustCompile(`^(java|node|nodejs|python3?(\.\d+)?|perl(5[\d.]*)?|ruby[\d.]*|php[\d.]*|beam\.smp|dotnet)$`)

// isRuntime reports whether an executable is one of those.
func isRuntime(path string) bool { return runtimeNames.MatchString(filepath.Base(path)) }

// startCode are the functions that the C compiler adds around main in each program.
var startCode = map[string]bool{
	"_start": true, "_init": true, "_fini": true, "__libc_csu_init": true, "__libc_csu_fini": true,
	"__do_global_dtors_aux": true, "frame_dummy": true, "register_tm_clones": true, "deregister_tm_clones": true,
	// In statically linked programs.
	"__libc_start_main": true, "__libc_start_call_main": true, "start_thread": true, "clone3": true, "clone": true, "__clone": true, "__clone3": true,
}

// isSystemFunction reports whether a function in a program or library of the user
// comes from elsewhere: the language's runtime or standard library, or start code.
func isSystemFunction(f elf.Function) bool {
	switch f.Lang {
	case elf.Go:
		return isGoStandard(f.Name)
	case elf.CPP:
		return within(f.Name, "std::", "__gnu_cxx::", "__cxxabiv1::")
	case elf.Rust:
		return within(strings.TrimLeft(f.Name, "<"), "std::", "core::", "alloc::")
	}
	return startCode[f.Mangled]
}

// chosenModules parses SET system_modules: file names, separated by commas, of modules
// whose functions belong to the system, or do not (-name).
func chosenModules(list string) map[string]bool {
	chosen := map[string]bool{}
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		user, isUser := strings.CutPrefix(name, "-")
		if name != "" {
			chosen[user] = !isUser
		}
	}
	return chosen
}

func within(name string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// isGoStandard reports whether a Go function is of the standard library, where the
// first element of an import path has no dot. The wrapper that the compiler makes for
// a go statement with arguments (main.main.gowrap1) belongs to the package of the
// statement, because the started function may be inlined into it.
func isGoStandard(name string) bool {
	path := name
	if i := strings.IndexByte(path, '['); i >= 0 { // type arguments
		path = path[:i]
	}
	slash := strings.LastIndexByte(path, '/')
	dot := strings.IndexByte(path[slash+1:], '.')
	if dot < 0 {
		return true // go:buildid, type:.eq and other generated code
	}
	path = path[:slash+1+dot]
	first, _, _ := strings.Cut(path, "/")
	return path != "main" && !strings.Contains(first, ".") && !strings.Contains(first, "%2e")
}
