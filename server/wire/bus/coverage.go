package bus

import (
	"encoding/binary"
	"hash/fnv"
)

// Coverage says which results of hosts have been merged: for each start of a host's agent a
// hash of its name and incarnation, of 8 bytes, and the number of its result, as a uvarint.
type Coverage []byte

// Add adds a result of a host.
func (c Coverage) Add(host, incarnation string, version uint64) Coverage {
	h := fnv.New64a()
	_, _ = h.Write([]byte(host + "\x00" + incarnation))
	return binary.AppendUvarint(h.Sum(c), version)
}

// versions returns the numbers of results by the hashes; nil if they cannot be read.
func (c Coverage) versions() map[uint64]uint64 {
	out := make(map[uint64]uint64, len(c)/9)
	for len(c) > 8 {
		v, n := binary.Uvarint(c[8:])
		if n <= 0 {
			return nil
		}
		out[binary.BigEndian.Uint64(c)] = v
		c = c[8+n:]
	}
	return out
}

// Lacks returns how many starts of agents have older results in c than in what came before it,
// or none.
func (c Coverage) Lacks(before Coverage) (n int) {
	have := c.versions()
	for start, version := range before.versions() {
		if v, ok := have[start]; !ok || v < version {
			n++
		}
	}
	return n
}
