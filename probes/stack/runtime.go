package stack

import (
	"endoscope/probes/process"
	"io"
)

// runtimeLayout is where a language's runtime, if a module contains one, keeps its data.
type runtimeLayout[T any] struct {
	layout *T // nil: there is no runtime, or an unknown one
	read   bool
}

// findRuntime finds the module of a process that contains a runtime whose layout is
// known, and the offset of its code from the addresses in its file. The layout is nil if
// there is none. candidate tells which modules are examined.
func findRuntime[T any](sp *space, of func(*module) *runtimeLayout[T], candidate func(*module) bool, read func(f io.ReaderAt, path string) (*T, error)) (layout *T, bias uint64) {
	for _, r := range sp.regions {
		if r.module == nil || r.module.symbols == nil || !candidate(r.module) {
			continue
		}
		addr, ok := r.module.symbols.AddrOf(r.offset)
		if !ok {
			continue
		}
		l := of(r.module)
		if !l.read {
			l.read = true
			l.layout = readRuntime(sp.process.PID, r.start, read)
		}
		if l.layout != nil {
			return l.layout, r.start - addr
		}
	}
	return nil, 0
}

// readRuntime reads the layout from the file that a process has mapped at start.
func readRuntime[T any](pid int, start uint64, read func(f io.ReaderAt, path string) (*T, error)) *T {
	text, _ := process.Text(pid) // none if it has ended
	for _, m := range text {
		if m.Start != start {
			continue
		}
		f, err := process.OpenModule(pid, m)
		if err != nil {
			return nil
		}
		defer f.Close()
		layout, _ := read(f, m.Path) // nil where it cannot be read
		return layout
	}
	return nil
}
