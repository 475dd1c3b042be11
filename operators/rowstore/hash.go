package rowstore

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// HashSeed is chosen per process, because an attacker may choose the grouped values so that
// they collide.
var HashSeed = rand.Uint64() | 1

// HashWord spreads the bits of w over 64; both halves of the result are usable.
func HashWord(w uint64) uint64 {
	hi, lo := bits.Mul64(w^HashSeed, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// CanonicalBits returns the bits of f, equal for values that SQL considers equal.
func CanonicalBits(f float64) uint64 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return math.Float64bits(math.NaN())
	}
	return math.Float64bits(f)
}

// hashWords is a multiply-and-fold hash (after wyhash): every bit of the key affects every
// bit of the result.
func hashWords(ws []uint64) uint32 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range ws {
		hi, lo := bits.Mul64(h^w, 0xd6e8feb86659fd93)
		h = hi ^ lo
	}
	return uint32(h ^ h>>32)
}
