package ringbuf

import (
	"encoding/binary"
	"slices"
	"testing"
)

// memory returns a ring whose records the test writes like the kernel: each
// byte of the buffer is mapped twice.
func memory(size int) (r *Ring, put func(flags uint32, payload ...byte)) {
	var consumer, producer uint64
	r = &Ring{consumer: &consumer, producer: &producer, data: make([]byte, 2*size), mask: uint64(size - 1)}
	set := func(pos uint64, b byte) {
		at := pos & r.mask
		r.data[at], r.data[at+uint64(size)] = b, b
	}
	return r, func(flags uint32, payload ...byte) {
		var head [header]byte
		binary.LittleEndian.PutUint32(head[:], uint32(len(payload))|flags)
		for i, b := range append(head[:], payload...) {
			set(producer+uint64(i), b)
		}
		producer += uint64(header+len(payload)+7) &^ 7
	}
}

// Records are read in order, also across the end of the buffer; discarded ones
// are skipped, and one that is being written hides those after it.
func TestDrain(t *testing.T) {
	r, put := memory(64)
	var got []byte
	drain := func() uint64 {
		return r.Drain(r.Produced(), func(b []byte) { got = append(got, b...) })
	}
	var want []byte
	for i := range byte(20) {
		record := slices.Repeat([]byte{i}, 10) // some cross the end
		put(0, record...)
		put(discard, 99)
		if end := drain(); end != r.Produced() || end != r.Consumed() {
			t.Fatalf("reached %d, consumed %d of %d", end, r.Consumed(), r.Produced())
		}
		want = append(want, record...)
	}
	before := r.Produced()
	put(busy, 50)
	put(0, 51)
	if end := drain(); end != before {
		t.Errorf("reached %d, beyond the record at %d that is being written", end, before)
	}
	if !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
	// A position in between is a limit.
	r, put = memory(64)
	put(0, 1)
	first := r.Produced()
	put(0, 2)
	got = nil
	if end := r.Drain(first, func(b []byte) { got = append(got, b...) }); end != first || !slices.Equal(got, []byte{1}) {
		t.Errorf("reached %d with %v", end, got)
	}
}
