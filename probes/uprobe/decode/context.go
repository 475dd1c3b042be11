package decode

import (
	"encoding/binary"

	"endoscope/planner/types"
	"endoscope/probes/rows"
)

// contextColumn returns the column of what an event is inside of (context.h).
func contextColumn(t types.Type) rows.Column[event] {
	if t == types.Varchar {
		return rows.BytesOr(key)
	}
	return rows.IntOr(func(e *event) (int64, bool) {
		k, known := key(e)
		if !known {
			return 0, false
		}
		return int64(binary.LittleEndian.Uint64(k)), true
	})
}

// key returns the bytes of the key of the context of an event; false means NULL.
func key(e *event) ([]byte, bool) {
	size := binary.LittleEndian.Uint64(e.context)
	if size == 0 || size > uint64(len(e.context)-7) {
		return nil, false
	}
	return e.context[8:][:size-1], true
}
