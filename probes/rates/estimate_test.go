package rates

import (
	"encoding/binary"
	"math"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// Functions that were counted stand for those that were not, save the one that
// costs most.
func TestExtrapolation(t *testing.T) {
	cands := make([]Candidate, 1000)
	for i := range cands {
		cands[i].CostNs = 1000
	}
	counted := []int{0, 1, 2, 3, 4}
	for _, c := range []struct {
		name  string
		rates map[int]float64
		rest  int
		want  float64 // calls a second
	}{
		{"all counted", map[int]float64{0: 10, 1: 20}, 0, 30},
		{"alike", map[int]float64{0: 100, 1: 100, 2: 100, 3: 100, 4: 100}, 95, 10_000},
		{"one of them is called", map[int]float64{3: 1e6}, 995, 1e6},
		{"one sticks out", map[int]float64{0: 10, 1: 10, 2: 10, 3: 1e6, 4: 10}, 400, 1e6 + 40 + 4000},
	} {
		k := counting{candidates: cands, e: Estimate{Calls: map[int]float64{}}}
		for i, r := range c.rates {
			k.e.Calls[i] = r
			k.add(r, cands[i].CostNs)
		}
		k.extrapolate(counted, c.rest)
		if math.Abs(k.e.PerSecond-c.want) > 1e-6 || math.Abs(k.e.CPUs-c.want/1e6) > 1e-9 {
			t.Errorf("%s: %f calls a second, %f CPUs, want %f", c.name, k.e.PerSecond, k.e.CPUs, c.want)
		}
	}
}

// What a program does less with probes is added, within limits, and few samples
// say little.
func TestSlowdown(t *testing.T) {
	m := &Meter{seen: Activity{user: 1}}
	for _, c := range []struct {
		took time.Duration
		user int
		want float64
	}{
		{99 * period, 99, 1},
		{99 * period, 49, 2},
		{99 * period, 0, maxSlowdown},
		{99 * period, 199, 0.5},
		{1 * period, 0, 2},
	} {
		if got := m.slowdown(window{c.took, c.user}); got != c.want {
			t.Errorf("%d samples in %s: %f, want %f", c.user, c.took, got, c.want)
		}
	}
}

// Records that go round the end of the ring are read whole; others than samples
// are passed over.
func TestRingGoesRound(t *testing.T) {
	page := os.Getpagesize()
	size := ringPages * page
	r := perfRing{page: &unix.PerfEventMmapPage{}, mem: make([]byte, page+size)}
	data := r.mem[page:]
	at := uint64(size - 12)
	r.page.Data_tail = at
	put := func(b []byte) {
		for _, x := range b {
			data[at%uint64(size)] = x
			at++
		}
	}
	record := func(kind uint32, misc uint16, pid uint32, ip uint64) {
		b := binary.LittleEndian.AppendUint32(nil, kind)
		b = binary.LittleEndian.AppendUint16(b, misc)
		b = binary.LittleEndian.AppendUint16(b, 24)
		b = binary.LittleEndian.AppendUint64(b, ip)
		b = binary.LittleEndian.AppendUint32(b, pid)
		put(binary.LittleEndian.AppendUint32(b, pid+1))
	}
	record(unix.PERF_RECORD_SAMPLE, unix.PERF_RECORD_MISC_USER, 7, 0x1234567890)
	record(unix.PERF_RECORD_LOST, 0, 8, 1)
	record(unix.PERF_RECORD_SAMPLE, unix.PERF_RECORD_MISC_KERNEL, 9, 1<<63)
	r.page.Data_head = at
	s := sampler{rings: []perfRing{r}}
	var got []sample
	s.read(func(x sample) { got = append(got, x) })
	want := []sample{{7, 0x1234567890, true}, {9, 1 << 63, false}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sample{})); diff != "" {
		t.Error(diff)
	}
	got = nil
	if s.read(func(x sample) { got = append(got, x) }); len(got) > 0 {
		t.Errorf("read again: %v", got)
	}
}
