package program

import (
	"sync/atomic"
	"unsafe"

	"endoscope/probes/codegen"
)

// Samples are the first values of a group, for exact quantiles of small groups. All CPUs
// write them to one array for each slot (aggregate.h).
const (
	// maxSamples bounds the samples of all groups in a slot.
	maxSamples = 128 << 10
	// sampledStride is the distance between the counters of the two slots, bytes.
	sampledStride = 64
)

// sampleWords returns the size of a sample: the function, the rest of the key, the value.
func (a *Aggregation) sampleWords() int { return 2 + a.Code.KeyWords }

// sampleRoom returns how many samples each of the two slots has room for; 0 if there are
// no quantiles.
func (a *Aggregation) sampleRoom() int {
	if !a.Code.Exact() {
		return 0
	}
	n := min(maxSamples, maxStateBytes/4/2/8/a.sampleWords())
	if a.Limit > 0 {
		n = min(n, a.Limit)
	}
	return n
}

// readSamples makes rows of the samples in a slot, and clears it.
func (a *Aggregator) readSamples(slot int) {
	room, words := a.sampleRoom(), a.sampleWords()
	n := min(int(atomic.LoadUint64(a.sampled[slot])), room)
	if n == 0 {
		return
	}
	all := unsafe.Slice((*uint64)(unsafe.Pointer(&a.samples[0])), len(a.samples)/8)[slot*room*words:][:n*words]
	for i := 0; i < len(all); i += words {
		a.Rows.sample(all[i:][:words])
	}
	clear(all)
	atomic.StoreUint64(a.sampled[slot], 0)
}

// clearDense clears states. Where the groups of the next pane are the same ones, as there
// is no end of a pane, they keep how many samples they have: calls of a busy function
// would otherwise take the room of the others again and again.
func (a *Aggregator) clearDense(words []uint64) {
	if a.Pane != Endless || !a.Code.Exact() {
		clear(words)
		return
	}
	n := a.Code.StateWords
	var kept [codegen.MaxSketches]uint64
	for ; len(words) >= n; words = words[n:] {
		for i, word := range a.Code.Samples {
			if word >= 0 {
				kept[i] = words[word]
			}
		}
		clear(words[:n])
		for i, word := range a.Code.Samples {
			if word >= 0 {
				words[word] = kept[i]
			}
		}
	}
}
