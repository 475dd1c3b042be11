package abi

import (
	"math"
)

// Flags in the cookie of a probe, beside the function's number and facts.
const (
	GoRegisters = 1 << 24
	OnlyTargets = 1 << 25
	NoRetval    = 1 << 26
	Method      = 1 << 27
	Placed      = 1 << 28 // without goRegisters
	Required    = 1 << 29 // likewise
	FirstGoid   = 28      // bit of where in its g a goroutine has its number, in words from minGoid
	MinGoid     = 16
	MaxGoid     = MinGoid + 15

	MaxFunctions = 1 << 24
	FirstFact    = 32 // bit of the cookie
	MaxFacts     = 32

	// Where exits are probed, the upper 16 bits have the site's SPOffset.
	MaxFactsExits = 16
	MaxSPOffset   = 8 * math.MaxUint16
)
