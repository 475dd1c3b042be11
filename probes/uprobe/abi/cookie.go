package abi

import "math"

// Flags in the cookie of a probe, beside the function's number and facts.
const (
	GoRegisters = 1 << 24
	OnlyTargets = 1 << 25
	NoRetval    = 1 << 26 // at exits
	Generation  = 1 << 26 // at entries
	Method      = 1 << 27
	Placed      = 1 << 28 // without GoRegisters
	Required    = 1 << 29 // without GoRegisters
	FirstGoid   = 28      // first bit of the offset of goid in runtime.g, in words from MinGoid
	MinGoid     = 16
	MaxGoid     = MinGoid + 15

	MaxFunctions = 1 << 24
	FirstFact    = 32 // bit of the cookie
	MaxFacts     = 32

	// Where exits are probed, the upper 16 bits hold the site's SPOffset.
	MaxFactsExits = 16
	MaxSPOffset   = 8 * math.MaxUint16
)

// GoidFlag returns the bits of a Go function's cookie that hold the offset of goid in
// runtime.g. The programs identify sequences by it. 0 means unknown.
func GoidFlag(offset uint64) uint32 {
	if offset%8 != 0 || offset <= 8*MinGoid || offset > 8*MaxGoid {
		return 0
	}
	return uint32(offset/8-MinGoid) << FirstGoid
}
