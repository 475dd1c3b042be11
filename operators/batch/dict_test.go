package batch

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// texts draws strings of every length that the table treats differently, few
// enough to repeat, with zero bytes, which pad short keys.
func texts() *rapid.Generator[string] {
	alphabet := rapid.SampledFrom([]rune{'a', 'b', 0})
	return rapid.OneOf(
		rapid.StringOfN(alphabet, 0, 3, -1),
		rapid.Map(rapid.IntRange(0, 70), func(n int) string { return strings.Repeat("x", n) }),
		rapid.Map(rapid.IntRange(0, 40), func(n int) string { return strings.Repeat("y", n) + "\x00" }),
		rapid.Map(rapid.IntRange(0, 5000), func(i int) string { return fmt.Sprint("a common beginning ", i) }),
	)
}

// By every method, codes are those of a map: consecutive, in order of first appearance, and
// equal only for equal strings.
func TestDictIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, want := NewDict(), map[string]uint32{}
		var order []string
		for range rapid.IntRange(0, 8).Draw(t, "calls") {
			src := rapid.SliceOfN(texts(), 0, 600).Draw(t, "strings")
			codes := make([]uint32, len(src))
			rows := make([]uint16, 0, len(src)) // those coded
			for i := range src {
				rows = append(rows, uint16(i))
			}
			switch rapid.IntRange(0, 4).Draw(t, "way") {
			case 0:
				for i, s := range src {
					codes[i] = d.Code(s)
				}
			case 1:
				for i, s := range src {
					b := []byte(s)
					codes[i] = d.CodeBytes(b)
					clear(b) // the caller may reuse it
				}
			case 2:
				d.CodeStrings(codes, src)
			case 3:
				data, offsets := joined(src)
				d.CodeOffsets(codes, data, offsets)
				clear(data)
			case 4:
				rows = slices.DeleteFunc(rows, func(r uint16) bool { return r%3 == 1 })
				data, offsets := joined(src)
				d.CodeRows(codes, data, offsets, rows)
				clear(data)
			}
			for _, r := range rows {
				s := src[r]
				c, ok := want[s]
				if !ok {
					c = uint32(len(order))
					want[s] = c
					order = append(order, s)
				}
				if codes[r] != c {
					t.Fatalf("code of %q is %d, not %d", s, codes[r], c)
				}
			}
		}
		if !slices.Equal(d.Values(), order) || d.Len() != len(order) {
			t.Fatalf("values %q, not %q", d.Values(), order)
		}
	})
}

func joined(src []string) (data []byte, offsets []uint32) {
	offsets = append(offsets, 0)
	for _, s := range src {
		data = append(data, s...)
		offsets = append(offsets, uint32(len(data)))
	}
	return slices.Clip(data), offsets // nothing after the last may be read
}

// A dictionary larger than the caches uses other loops.
func TestDictLarge(t *testing.T) {
	d := NewDict()
	const n = 4 * nearStrings
	for range 2 {
		src := make([]string, n)
		for i := range src {
			src[i] = fmt.Sprint("name", i)
			if i%2 == 0 {
				src[i] += " that is too long for a slot"
			}
		}
		codes := make([]uint32, n)
		d.CodeStrings(codes, src)
		for i, c := range codes {
			if c != uint32(i) || d.Values()[c] != src[i] {
				t.Fatalf("code of %q is %d, not %d", src[i], c, i)
			}
		}
	}
	if d.Len() != n {
		t.Errorf("%d strings, not %d", d.Len(), n)
	}
}

// Strings with equal keys are compared, wherever their bytes are: strings of one hash and
// length do not become one, nor do those that are too long for a place.
func TestDictEqualKeys(t *testing.T) {
	d := NewDict()
	src := make([]string, 2*nearStrings)
	for i := range src {
		src[i] = fmt.Sprint("a name that is longer than a key ", i)
	}
	long := strings.Repeat("x", maxChunk)
	src = append(src, long+"a", long+"b", strings.Repeat("y", 1<<24), strings.Repeat("y", 1<<24+100))
	codes := make([]uint32, len(src))
	d.CodeStrings(codes, src)
	d.CodeStrings(codes, src)
	for i, c := range codes {
		if c != uint32(i) || d.Values()[c] != src[i] {
			t.Fatalf("code of string %d, of %d bytes, is %d", i, len(src[i]), c)
		}
	}
	// A text with the same key as a known string, but other bytes.
	f, texts, dst := d.far, [][]byte{[]byte(src[7])}, make([]uint32, 1)
	f.keys[0] = keyOf(texts[0])
	f.hashes[0] = f.keys[0].hash()
	d.probe(dst)
	if dst[0] != 7 || f.places[0] == noPlace {
		t.Fatalf("probe finds %d at %#x, not 7 at a place", dst[0], f.places[0])
	}
	for at := range texts[0] {
		texts[0][at]++
		dst[0] = 7
		if d.verify(dst, texts); dst[0] != noCode {
			t.Errorf("a text that differs in byte %d is taken for the same", at)
		}
		texts[0][at]--
	}
}

// Readers of snapshots and the owner who adds need no lock. (The race detector
// is what tests this.)
func TestDictSnapshots(t *testing.T) {
	d := NewDict()
	var wg sync.WaitGroup
	for i := range 500 {
		d.Code(fmt.Sprint("string ", i))
		snapshot := d.Values()
		wg.Go(func() {
			if len(snapshot) != i+1 || snapshot[i] != fmt.Sprint("string ", i) {
				t.Errorf("snapshot %d has %d values", i, len(snapshot))
			}
		})
	}
	wg.Wait()
}

func TestNewDictOf(t *testing.T) {
	values := []string{"b", "", "a"}
	d := NewDictOf(values)
	if !slices.Equal(d.Values(), values) || d.Code("a") != 2 || d.Code("c") != 3 || len(values) != 3 {
		t.Errorf("values %q", d.Values())
	}
}

// Known strings are found without allocating.
func TestDictAllocatesNothing(t *testing.T) {
	src := []string{"short", "a string that is too long for a slot", ""}
	data, offsets := joined(src)
	d, codes := NewDict(), make([]uint32, len(src))
	d.CodeStrings(codes, src)
	if n := testing.AllocsPerRun(100, func() {
		d.CodeStrings(codes, src)
		d.CodeOffsets(codes, data, offsets)
		d.CodeRows(codes, data, offsets, []uint16{0, 2})
		d.CodeBytes(data[:5])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Hashes of strings that differ little differ in many upper bits, which place a string in
// the table.
func TestHashSpreads(t *testing.T) {
	for _, format := range []string{"%d", "func_%d", "a name of more than eleven bytes %d", "%d, and then a name of more than sixteen bytes"} {
		const n, buckets = 1 << 14, 1 << 8
		var high [buckets]int
		for i := range n {
			h := keyOf([]byte(fmt.Sprintf(format, i))).hash()
			high[h>>56]++
		}
		for i := range buckets {
			// 64 are expected, with a standard deviation of 8.
			if high[i] < 16 || high[i] > 128 {
				t.Errorf(format+": bucket %d has %d strings, not about 64", 0, i, high[i])
			}
		}
	}
}
