package symbols

import "endoscope/probes/runtimes/golang"

// GoidOffset is where in its g (runtime/runtime2.go) a goroutine of this
// program has its number, 0 if the program was stripped of what tells. It is
// read once.
func (m *Module) GoidOffset() uint64 {
	m.goidRead.Do(func() { m.goid, _ = golang.NumberOffset(m.image.r) })
	return m.goid
}
