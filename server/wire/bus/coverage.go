package bus

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"strconv"
)

// Coverage says which results of hosts have been merged: for each start of a host's agent the
// host's number among those of the shard, as a uvarint, the start in 8 bytes, and the number of
// its result, as a uvarint.
type Coverage []byte

// Start is one start of a host's agent.
type Start struct {
	Host int    // number among the hosts of the shard
	Run  uint64 // by its incarnation: later starts of a host have larger ones
}

// runOf returns an incarnation as a number: the time with which those of agents begin, or else a
// hash.
func runOf(incarnation string) uint64 {
	if n, err := strconv.ParseUint(incarnation[:min(len(incarnation), 16)], 16, 64); err == nil {
		return n
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(incarnation))
	return h.Sum64()
}

// Add adds a result of a host.
func (c Coverage) Add(host int, incarnation string, version uint64) Coverage {
	c = binary.BigEndian.AppendUint64(binary.AppendUvarint(c, uint64(host)), runOf(incarnation))
	return binary.AppendUvarint(c, version)
}

// Versions returns the numbers of results; nil if they cannot be read.
func (c Coverage) Versions() map[Start]uint64 {
	out := make(map[Start]uint64, len(c)/10)
	for len(c) > 0 {
		host, n := binary.Uvarint(c)
		if n <= 0 || host > math.MaxInt32 || len(c) < n+8 {
			return nil
		}
		run := binary.BigEndian.Uint64(c[n:])
		c = c[n+8:]
		v, n := binary.Uvarint(c)
		if n <= 0 {
			return nil
		}
		out[Start{int(host), run}] = v
		c = c[n:]
	}
	return out
}

// Lacks returns how many starts of agents have older results in c than in what came before it,
// or none.
func (c Coverage) Lacks(before Coverage) (n int) {
	have := c.Versions()
	for start, version := range before.Versions() {
		if v, ok := have[start]; !ok || v < version {
			n++
		}
	}
	return n
}
