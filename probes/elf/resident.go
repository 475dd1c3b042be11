package elf

import (
	"sync"
	"sync/atomic"
)

// resident holds the code and constants of a file in memory for a while, so
// that a scan of all functions does not read them piece by piece repeatedly.
type resident struct {
	pieces atomic.Pointer[[]Block]

	mu    sync.Mutex // guards users
	users int
}

// maxHeld limits the bytes held of a file. Nothing is held of a larger one.
const maxHeld = 32 << 20

// Hold reads the read-only segments of the module, and keeps them until every
// caller of Hold has called release. It is for callers that are about to
// examine many functions.
func (m *Module) Hold() (release func()) {
	h := &m.image.resident
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users++; h.users == 1 {
		h.pieces.Store(m.image.readHeld())
	}
	var once sync.Once
	return func() {
		once.Do(func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.users--; h.users == 0 {
				h.pieces.Store(nil)
			}
		})
	}
}

func (im *Image) readHeld() *[]Block {
	var list []Block
	total := uint64(0)
	for i, s := range im.Load {
		for _, other := range im.Load[:i] { // overlapping segments: the first one wins
			if s.Start < other.End && other.Start < s.End {
				return nil
			}
		}
		if s.Writable {
			continue
		}
		if total += s.End - s.Start; total > maxHeld {
			return nil
		}
		b := make([]byte, s.End-s.Start)
		if _, err := im.Reader.ReadAt(b, int64(s.Offset)); err != nil {
			return nil
		}
		list = append(list, Block{s.Start, b})
	}
	return &list
}

// bytes returns n bytes at addr, read-only, if they are held.
func (h *resident) bytes(addr, n uint64) ([]byte, bool) {
	list := h.pieces.Load()
	if list == nil {
		return nil, false
	}
	for _, p := range *list {
		if at := addr - p.Addr; at < uint64(len(p.Data)) {
			n = min(n, maxCodeBytes, uint64(len(p.Data))-at)
			return p.Data[at : at+n : at+n], true
		}
	}
	return nil, false
}
