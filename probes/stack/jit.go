package stack

import (
	"path/filepath"
	"strings"

	"endoscope/probes/lang/java"
	"endoscope/probes/lang/perfmap"
)

// jit describes the code that a process has compiled at run time.
type jit struct {
	image   uint64 // the program image for which it was read
	code    *perfmap.Map
	numbers map[string]uint32 // frames by the names in the map
}

// compiled returns the frame of an address in code that belongs to no file; false if
// the process has no map of it.
func (u *unwinder) compiled(pc uint64) (uint32, bool) {
	sp := u.space
	if sp.jit == nil {
		sp.jit = &jit{image: sp.image, numbers: map[string]uint32{}}
		sp.jit.code, _ = perfmap.Open(sp.process.PID) // nil: there is no map
		if sp.java != nil && sp.java.maps && sp.jit.code != nil {
			_ = sp.jit.code.Renew() // as far as it is readable
		}
	}
	j := sp.jit
	if j.code == nil {
		return 0, false
	}
	e, ok := j.code.Find(pc)
	if !ok {
		if sp.java != nil {
			sp.java.missing = true
		}
		return 0, false
	}
	n, ok := j.numbers[e.Name]
	if !ok {
		if len(j.numbers) > maxPlaces {
			clear(j.numbers)
		}
		n = u.modules.frames.number(compiledFrame(e.Name))
		j.numbers[e.Name] = n
	}
	return n, true
}

// compiledModule is the module of code whose name contains no file.
const compiledModule = "[compiled]"

// compiledFrame reads a name of a perf map. V8 writes
//
//	JS:*onMessage /srv/app.js:2:19      kind, tier, function and place
//	Builtin:ArrayForEach                code of its own
//
// and HotSpot "int java.lang.String.hashCode()".
func compiledFrame(name string) frame {
	kind, rest, ok := strings.Cut(name, ":")
	switch {
	case !ok || strings.ContainsAny(kind, " (./"):
		return plainFrame(name)
	case kind != "JS" && kind != "LazyCompile" && kind != "Function" && kind != "Script" && kind != "Eval":
		return frame{function: name, module: compiledModule, system: true}
	}
	rest = strings.TrimLeft(rest, "~^*+")
	function, place, _ := strings.Cut(rest, " ")
	file := place
	for range 2 { // line and column
		if i := strings.LastIndexByte(file, ':'); i > 0 && strings.Trim(file[i+1:], "0123456789") == "" {
			file = file[:i]
		}
	}
	f := frame{function: function, module: filepath.Base(strings.TrimPrefix(file, "file://")), system: strings.HasPrefix(file, "node:") || file == ""}
	if f.system {
		f.module = file
	}
	f.file = strings.TrimPrefix(file, "file://")
	if f.function == "" {
		f.function = "(anonymous)"
		if kind == "Script" || kind == "Eval" {
			f.function = "(script)"
		}
	}
	return f
}

// plainFrame returns the frame for a name without a kind: a Java method with its
// types, or anything else.
func plainFrame(name string) frame {
	f := frame{function: name, module: compiledModule}
	if call, _, ok := strings.Cut(name, "("); ok && !strings.HasSuffix(call, " ") { // StubRoutines (1)
		f.function = call[strings.LastIndexByte(call, ' ')+1:]
	}
	switch {
	case java.Locks(f.function):
		f.sync = syncLock
	case java.Awaits(f.function):
		f.sync = syncWait
	}
	f.system = isJavaStandard(f.function) || !strings.Contains(f.function, ".") && !strings.Contains(f.function, "::")
	return f
}

// isJavaStandard reports whether a method belongs to Java's own libraries.
func isJavaStandard(method string) bool {
	return within(method, "java.", "javax.", "jdk.", "sun.", "com.sun.")
}
