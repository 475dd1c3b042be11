package decode

import (
	"testing"
	"unsafe"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"pgregory.net/rapid"

	"endoscope/probes/bpf"
	"endoscope/probes/uprobe/abi"
)

// Decode never reads beyond a record, whatever the options.
func TestDecodeOfShortRecords(t *testing.T) {
	full := bpf.FunctionEventFull{}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&full)), sizeFull)
	rapid.Check(t, func(t *rapid.T) {
		options := rapid.Uint32().Draw(t, "options")
		n := rapid.IntRange(0, sizeFull).Draw(t, "bytes")
		var e event
		if !Decode(raw[:n:n], options, &e) {
			return
		}
		need := sizeEntry
		if options&abi.AtReturn != 0 {
			need = sizeReturn
		}
		if e.process != nil {
			need = sizeNames
		}
		if e.args != nil {
			need = sizeArgs
		}
		if e.args != nil && e.process != nil {
			need = sizeFull
		}
		if n < need {
			t.Fatalf("%d bytes were taken for an event of %d", n, need)
		}
	})
}
