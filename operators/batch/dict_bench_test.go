package batch

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// rawStrings is n names drawn from k distinct ones, as a source sees them:
// bytes and offsets.
func rawStrings(n, k int, format string) (data []byte, offsets []uint32) {
	r := rand.New(rand.NewPCG(1, uint64(k)))
	offsets = append(offsets, 0)
	for range n {
		data = fmt.Appendf(data, format, r.IntN(k))
		offsets = append(offsets, uint32(len(data)))
	}
	return data, offsets
}

var nameFormats = []struct{ name, format string }{
	{"short", "func_%d"},
	{"long", "storage::engine::commit_%d(Transaction&)"},
}

// processorTime is what all threads of this process have used so far. Unlike
// the time that passes it does not count what other processes took.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkDict(b *testing.B) {
	const rows = 1 << 22
	for _, f := range nameFormats {
		for _, k := range []int{10, 10_000, 1_000_000} {
			data, offsets := rawStrings(rows, k, f.format)
			strs := make([]string, rows)
			for i := range strs {
				strs[i] = string(data[offsets[i]:offsets[i+1]])
			}
			codes := make([]uint32, MaxRows)
			run := func(how string, build func()) {
				b.Run(fmt.Sprintf("%s/keys=%d/%s", f.name, k, how), func(b *testing.B) {
					used := processorTime(b)
					for b.Loop() {
						build()
					}
					used = processorTime(b) - used
					b.ReportMetric(float64(rows)*float64(b.N)/used.Seconds()/1e6, "Mrows/cpu-s")
				})
			}
			run("offsets", func() {
				d := NewDict()
				for i := 0; i < rows; i += MaxRows {
					d.CodeOffsets(codes, data, offsets[i:i+MaxRows+1])
				}
			})
			run("strings", func() {
				d := NewDict()
				for i := 0; i < rows; i += MaxRows {
					d.CodeStrings(codes, strs[i:i+MaxRows])
				}
			})
			run("gomap", func() {
				m := map[string]uint32{}
				for i := range rows {
					name := data[offsets[i]:offsets[i+1]]
					c, ok := m[string(name)]
					if !ok {
						c = uint32(len(m))
						m[string(name)] = c
					}
					codes[i%MaxRows] = c
				}
			})
		}
	}
}
