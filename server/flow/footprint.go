package flow

import (
	"maps"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// footprint is how many bytes the batches of a queue keep: their columns, and the
// dictionaries that these refer to, each once however many batches have it. The
// zero value is an empty queue's. It is not safe for concurrent use.
type footprint struct {
	bytes int64
	dicts map[*batch.Dict]*dictionary
}

// dictionary is what is known of a dictionary: of a prefix of its strings, since it
// grows.
type dictionary struct {
	strings int
	bytes   int64
	batches int // of the queue that have it; 0: it is not counted
}

// forgotten is how many dictionaries that no batch has are remembered, so that their
// strings need not be counted again.
const forgotten = 16

// bytesOfString is how many bytes a string takes besides its text.
const bytesOfString = 16

// add counts a batch. It gives what the queue keeps then; remove takes it back.
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

// remove takes back a batch that was counted.
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

// columnBytes is about how many bytes a batch keeps without its dictionaries.
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

// encodingBytes stands for how many bytes an encoding takes, which it does not say.
const encodingBytes = 1 << 10

// valueBytes is about how many bytes a value of a LIST or an ENCODING takes.
func valueBytes(v any) (n int64) {
	list, ok := v.([]types.Value)
	if !ok {
		return encodingBytes
	}
	const each = 64 // of types.Value
	for i := range list {
		n += each + int64(len(list[i].S))
		if list[i].A != nil {
			n += valueBytes(list[i].A)
		}
	}
	return n
}
