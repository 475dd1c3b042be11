package rates

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// Counted functions are extrapolated to the others, except for the most
// expensive one.
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

// The slowdown by probes is corrected, within limits, and so is a lack of
// processor time. Few samples cause no large correction.
func TestSlowdown(t *testing.T) {
	m := &Meter{seen: Activity{CPUs: 2, user: 1}}
	for _, c := range []struct {
		took          time.Duration
		all, user     int
		slow, absence float64
	}{
		{99 * period, 198, 99, 1, 199.0 / 199},  // unchanged
		{99 * period, 198, 49, 2, 1},            // half of its time is in probes
		{99 * period, 198, 0, maxSlowdown, 1},   // all of its time is
		{99 * period, 198, 199, 0.5, 1},         // it does something else now
		{99 * period, 0, 0, 1, 199},             // it had no processor,
		{398 * period, 198, 99, 1, 797.0 / 199}, // or a quarter of what it wants
		{1 * period, 1, 0, 1.5, 1.5},
	} {
		w := window{c.took, c.all, c.user}
		if slow, absence := m.slowdown(w), m.absence(w); slow != c.slow || math.Abs(absence-c.absence) > 1e-9 {
			t.Errorf("%+v: %f and %f, want %f and %f", w, slow, absence, c.slow, c.absence)
		}
	}
}

// Records that wrap around the end of the ring are read; records other than
// samples are skipped.
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

// A thread wants what it had and what it waited for, one processor at most.
func TestDemand(t *testing.T) {
	ms := int64(time.Millisecond)
	before := map[string]schedule{"1": {10 * ms, 100 * ms, true, "1"}, "2": {0, 0, false, ""}, "3": {50 * ms, 0, false, ""}, "5": {1, 1, false, ""}, "6": {1, 1, true, "6"}, "7": {1, 1, true, "7"}}
	after := map[string]schedule{
		"1": {15 * ms, 120 * ms, true, "2"}, // 25 ms
		"2": {30 * ms, 40 * ms, true, "8"},  // a wait that began before
		"3": {50 * ms, 0, false, ""},        // slept
		"4": {10 * ms, 0, false, ""},        // new
		"6": {1, 1, true, "6"},              // waited all the time
		"7": {1, 20 * ms, true, "7"},        // waited all the time, and ran for an instant
	}
	if got := demand(before, after, 50*time.Millisecond); math.Abs(got-(0.5+1+0.2+1+1)) > 1e-9 {
		t.Errorf("%f processors", got)
	}
	if got := demand(before, nil, time.Second); got != 0 {
		t.Errorf("%f processors of no threads", got)
	}
	own := schedules([]int{os.Getpid()})
	if s := own[fmt.Sprint(os.Getpid())]; s.ran == 0 && s.waited == 0 {
		t.Errorf("the schedules of this process: %v", own)
	}
	if s := schedules([]int{-1}); len(s) != 0 {
		t.Errorf("the schedules of no process: %v", s)
	}
}
