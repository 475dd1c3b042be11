package structure

import (
	"math/bits"
)

// digrams indexes the digrams (pairs of adjacent symbols) of a grammar under construction.
// It is a hash table with linear probing, at most half full. A slot holds the upper half of
// the digram's hash and the node where the digram begins, so a slot is 8 bytes and most
// comparisons do not read the nodes. No digram begins at node 0.
type digrams struct {
	slots []uint64 // hash<<32 | node, 0: free
	shift uint     // of an upper half to an index into slots
	n     int
}

const minDigrams = 64

func newDigrams() digrams {
	d := digrams{}
	d.alloc(minDigrams)
	return d
}

func (d *digrams) alloc(slots int) {
	d.slots = make([]uint64, slots)
	d.shift = uint(32 - bits.Len(uint(slots-1)))
}

// hashDigram returns the upper half of the hash of the digram of values a and b.
func hashDigram(a, b uint32) uint32 {
	return uint32((uint64(a)<<32 | uint64(b)) * 0x9e3779b97f4a7c15 >> 32)
}

// find returns the node where the digram of a and b is indexed; or 0 and the slot where it
// belongs.
func (d *digrams) find(nodes []node, a, b uint32) (at uint32, slot int) {
	h := hashDigram(a, b)
	mask := len(d.slots) - 1
	for i := int(h >> d.shift); ; i++ {
		s := d.slots[i&mask]
		if s == 0 {
			return 0, i & mask
		}
		if uint32(s>>32) != h {
			continue
		}
		if n := &nodes[uint32(s)]; n.value == a && nodes[n.next].value == b {
			return uint32(s), i & mask
		}
	}
}

// put indexes the digram of a and b at node, in the slot that find returned.
func (d *digrams) put(slot int, a, b, node uint32) {
	if d.slots[slot] == 0 {
		d.n++
	}
	d.slots[slot] = uint64(hashDigram(a, b))<<32 | uint64(node)
	if 2*d.n > len(d.slots) {
		d.grow()
	}
}

// remove removes the digram of a and b if it is indexed at node.
func (d *digrams) remove(a, b, node uint32) {
	h := hashDigram(a, b)
	entry := uint64(h)<<32 | uint64(node)
	mask := len(d.slots) - 1
	i := int(h >> d.shift)
	for ; d.slots[i&mask] != entry; i++ {
		if d.slots[i&mask] == 0 {
			return
		}
	}
	d.n--
	// Later entries move up unless that would put them before their home slot.
	hole := i & mask
	for j := hole; ; {
		j = (j + 1) & mask
		s := d.slots[j]
		if s == 0 {
			break
		}
		if home := int(uint32(s>>32) >> d.shift); (j-home)&mask >= (j-hole)&mask {
			d.slots[hole] = s
			hole = j
		}
	}
	d.slots[hole] = 0
}

func (d *digrams) grow() {
	old := d.slots
	d.alloc(2 * len(old))
	mask := len(d.slots) - 1
	for _, s := range old {
		if s == 0 {
			continue
		}
		i := int(uint32(s>>32) >> d.shift)
		for d.slots[i&mask] != 0 {
			i++
		}
		d.slots[i&mask] = s
	}
}
