package program

import (
	"time"

	"github.com/cilium/ebpf"

	"endoscope/probes/bpf"
)

// limitRate makes programs send at most rate events a second; 0 means no limit. The
// algorithm is in rate.h.
func limitRate(spec *ebpf.CollectionSpec, rate int64) error {
	if rate <= 0 {
		return nil
	}
	chunk := max(1, rate/1000)
	// Rounded up: the rate is not exceeded over any length of time.
	ns := (chunk*int64(time.Second) + rate - 1) / rate
	if err := spec.Variables[bpf.FunctionVarRateChunk].Set(chunk); err != nil {
		return err
	}
	return spec.Variables[bpf.FunctionVarRateChunkNs].Set(uint64(ns))
}
