package web

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

var seriesColumns = []wire.Column{{Name: "timestamp", Type: types.Timestamp}, {Name: "function_name", Type: types.Varchar}, {Name: "duration", Type: types.Duration}, {Name: "pid", Type: types.Bigint}}

func seriesBatch() *batch.Batch {
	kinds := make([]types.Type, len(seriesColumns))
	for i, c := range seriesColumns {
		kinds[i] = c.Type
	}
	return batch.New(kinds)
}

// Whatever was merged, the minimum and maximum of what is drawn are those of the points.
func TestDrawnSeriesHaveMinimumAndMaximum(t *testing.T) {
	for _, limit := range []int{1 << 20, 100, 17} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(limit)))
			p := newPoints(seriesColumns, 1000)
			p.limit = limit
			lo, hi := map[string]float64{}, map[string]float64{}
			at := int64(1000)
			for range 40 {
				b := seriesBatch()
				for range 50 {
					at += r.Int64N(100)
					name, d := fmt.Sprintf("f%d", r.IntN(3)), r.Int64N(1000)
					if _, ok := lo[name]; !ok {
						lo[name], hi[name] = math.Inf(1), math.Inf(-1)
					}
					lo[name], hi[name] = min(lo[name], float64(d)), max(hi[name], float64(d))
					b.AppendRow(types.Time(at-r.Int64N(20)), types.Str(name), types.Dur(d), types.Int(1))
				}
				p.add(b, 0, false)
				b.Release()
				if p.total > limit {
					t.Fatalf("%d points, the limit is %d", p.total, limit)
				}
			}
			c := p.draw(2, 0, 0, 37)
			if len(c.Series) != 3 || len(c.Columns) != 1 {
				t.Fatalf("%d series of columns %v", len(c.Series), c.Columns)
			}
			for _, s := range c.Series {
				low, high, last := math.Inf(1), math.Inf(-1), -2
				for i, x := range s.Pixel {
					if x <= last || x > 37 {
						t.Errorf("pixel %d after %d", x, last)
					}
					last = x
					low, high = min(low, s.Low[i]), max(high, s.High[i])
				}
				if low != lo[s.Name] || high != hi[s.Name] {
					t.Errorf("%s: %v to %v, want %v to %v", s.Name, low, high, lo[s.Name], hi[s.Name])
				}
			}
		})
	}
}

func TestPartOfASeriesHasItsNeighbours(t *testing.T) {
	p := newPoints(seriesColumns, 0)
	b := seriesBatch()
	for i := range 100 {
		b.AppendRow(types.Time(int64(i)*10), types.Str("f"), types.Dur(int64(i)), types.Int(1))
	}
	p.add(b, 0, false)
	s := p.draw(2, 300, 400, 10).Series[0]
	if s.Pixel[0] != -1 || s.High[0] != 29 || s.Pixel[len(s.Pixel)-1] != 10 || s.High[len(s.High)-1] != 41 {
		t.Errorf("pixels %v, values %v", s.Pixel, s.High)
	}
}

// BenchmarkDraw draws a million points; the page asks for that when the view changes, and
// pans with what it has.
func BenchmarkDraw(b *testing.B) {
	p := newPoints(seriesColumns, 0)
	x := &series{}
	p.labels, p.list = []string{"f"}, []*series{x}
	for i := range 1 << 20 {
		x.at = append(x.at, point{int64(i), float64(i % 1000), float64(i % 1000)})
	}
	for b.Loop() {
		p.draw(2, 0, 0, 1200)
	}
}
