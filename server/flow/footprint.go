package flow

import (
	"maps"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// footprint counts the bytes that the batches of a queue retain: their columns,
// and the dictionaries they refer to, each counted once. The zero value is an
// empty queue's. It is not safe for concurrent use.
type footprint struct {
	bytes int64
	dicts map[*batch.Dict]*dictionary
}

// dictionary is the counted part of a dictionary: a prefix of its strings,
// since a dictionary grows.
type dictionary struct {
	strings int
	bytes   int64
	batches int // number of queued batches that refer to it; 0: it is not counted
}

// forgotten is how many dictionaries without a queued batch are remembered, so
// that their strings need not be counted again.
const forgotten = 16

// bytesOfString is the overhead of a string besides its text, in bytes.
const bytesOfString = 16

// add counts a batch and returns the total in bytes; remove uncounts it.
func (h *footprint) add(b *batch.Batch) int64 {
	h.bytes += columnBytes(b)
	for i := range b.Cols {
		c := &b.Cols[i]
		if c.Dict == nil {
			h.bytes += stringBytes(c.Values)
			continue
		}
		d := h.dicts[c.Dict]
		if d == nil {
			if h.dicts == nil {
				h.dicts = map[*batch.Dict]*dictionary{}
			}
			d = &dictionary{}
			h.dicts[c.Dict] = d
		}
		if d.batches++; d.batches == 1 {
			h.bytes += d.bytes
		}
		if n := len(c.Values); n > d.strings {
			more := stringBytes(c.Values[d.strings:])
			d.strings = n
			d.bytes += more
			h.bytes += more
		}
	}
	return h.bytes
}

// remove uncounts a batch that was added.
func (h *footprint) remove(b *batch.Batch) {
	h.bytes -= columnBytes(b)
	for i := range b.Cols {
		c := &b.Cols[i]
		if c.Dict == nil {
			h.bytes -= stringBytes(c.Values)
			continue
		}
		d := h.dicts[c.Dict]
		if d.batches--; d.batches == 0 {
			h.bytes -= d.bytes
		}
	}
	if len(h.dicts) > forgotten {
		maps.DeleteFunc(h.dicts, func(_ *batch.Dict, d *dictionary) bool { return d.batches == 0 })
	}
}

// columnBytes estimates the bytes that a batch retains without its
// dictionaries.
func columnBytes(b *batch.Batch) int64 {
	n := b.Size()
	for i := range b.Cols {
		for _, v := range b.Cols[i].Any {
			n += valueBytes(v)
		}
	}
	return n
}

func stringBytes(values []string) (n int64) {
	for _, s := range values {
		n += int64(len(s)) + bytesOfString
	}
	return n
}

// encodingBytes is the assumed size of an encoding, which does not report its
// own.
const encodingBytes = 1 << 10

// valueBytes estimates the bytes of a LIST or ENCODING value.
func valueBytes(v any) (n int64) {
	list, ok := v.([]types.Value)
	if !ok {
		return encodingBytes
	}
	const each = 64 // size of a types.Value
	for i := range list {
		n += each + int64(len(list[i].S))
		if list[i].A != nil {
			n += valueBytes(list[i].A)
		}
	}
	return n
}
