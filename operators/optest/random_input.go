package optest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"endoscope/planner/types"
)

// RandomSchema is the schema of the streams of random inputs, a.csv and b.csv: k is skewed,
// f cannot fail, g and w are arbitrary, and timestamp is the event time.
var RandomSchema = types.Schema{Time: 0, Fields: []types.Field{
	{Name: "timestamp", Type: types.Timestamp},
	{Name: "k", Type: types.Bigint},
	{Name: "i", Type: types.Bigint},
	{Name: "f", Type: types.Double},
	{Name: "g", Type: types.Double},
	{Name: "s", Type: types.Varchar},
	{Name: "p", Type: types.Boolean},
	{Name: "d", Type: types.Duration},
	{Name: "u", Type: types.Timestamp},
	{Name: "w", Type: types.Ubigint},
	{Name: "n", Type: types.Bigint}, // n numbers the rows: never NULL, unique
}}

// RandomInput draws batches of all sizes, mostly in order of time, with watermarks that
// some rows miss, ticks, losses and early ends.
func RandomInput(t *rapid.T) *Input {
	in := &Input{Relations: map[string]types.Schema{"a.csv": RandomSchema, "b.csv": RandomSchema}}
	g := inputGen{t: t, in: in, now: map[string]int64{}, mark: map[string]int64{}}
	g.lateness = int64(g.n(3, "lateness")) * int64(time.Second)
	clock := int64(0)
	for range g.n(14, "steps") {
		name := rapid.SampledFrom([]string{"a.csv", "a.csv", "b.csv"}).Draw(t, "stream")
		switch k := g.n(12, "step"); {
		case k < 6:
			g.rows(name)
		case k < 9:
			g.mark[name] = max(g.mark[name], g.now[name]-g.lateness)
			g.step(Step{Stream: name, Kind: Watermark, Time: g.mark[name]})
		case k == 9:
			clock += int64(1+g.n(3, "clock")) * int64(time.Second)
			g.step(Step{Stream: name, Kind: Tick, Time: clock})
		case k == 10:
			clock += int64(time.Millisecond)
			g.step(Step{Stream: name, Kind: Preview, Time: clock})
		default:
			g.step(Step{Stream: name, Kind: Gap, Cause: "ring full", N: uint64(1 + g.n(5, "lost"))})
		}
	}
	return in
}

type inputGen struct {
	t         *rapid.T
	in        *Input
	now, mark map[string]int64
	lateness  int64
	count     int64
}

func (g *inputGen) n(limit int, what string) int { return rapid.IntRange(0, limit-1).Draw(g.t, what) }

func (g *inputGen) step(s Step) { g.in.Steps = append(g.in.Steps, s) }

func (g *inputGen) rows(name string) {
	s := Step{Stream: name, Kind: Rows}
	size := rapid.SampledFrom([]int{1, 2, 3, 8, 20}).Draw(g.t, "rows")
	for range size {
		g.now[name] += int64(g.n(5, "apart")) * int64(500*time.Millisecond)
		at := g.now[name]
		if g.n(4, "unordered") == 0 {
			at -= int64(g.n(10, "back")) * int64(300*time.Millisecond)
		}
		g.count++
		s.Rows = append(s.Rows, []types.Value{
			types.Time(at),
			g.nullable(types.Int(int64(min(g.n(3, "k"), g.n(6, "k"))))),
			RandomValue(g.t, types.Bigint),
			g.nullable(types.Float(float64(g.n(4000, "f")-2000) / 4)),
			RandomValue(g.t, types.Double),
			g.nullable(types.Str(g.text())),
			RandomValue(g.t, types.Boolean),
			g.nullable(types.Dur(int64(g.n(100, "d")) * int64(time.Millisecond))),
			g.nullable(types.Time(int64(g.n(50, "u")) * int64(time.Second))),
			RandomValue(g.t, types.Ubigint),
			types.Int(g.count),
		})
	}
	g.step(s)
}

func (g *inputGen) text() string {
	if g.n(3, "short") > 0 {
		return fmt.Sprintf("f%d", g.n(4, "s"))
	}
	return rapid.SampledFrom(texts).Draw(g.t, "text")
}

func (g *inputGen) nullable(v types.Value) types.Value {
	if g.n(8, "null") == 0 {
		v.IsNull = true
	}
	return v
}
