package render

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// No label of a chart overlaps another, whatever the values are.
func TestChartLabelsDoNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Lines{Title: "numbers", X: func(x float64) string { return fmt.Sprintf("%.3f", x) }}
		for i := range rapid.IntRange(0, 3).Draw(t, "panels") {
			c.Panels = append(c.Panels, Panel{Name: fmt.Sprint("panel ", i), Y: func(y float64) string { return fmt.Sprintf("%.6g", y) }})
		}
		for i := range rapid.IntRange(0, 20).Draw(t, "series") {
			s := Series{Name: fmt.Sprint("series ", i)}
			x := rapid.Float64Range(0, 1e18).Draw(t, "begin")
			for range rapid.IntRange(0, 30).Draw(t, "points") {
				x += rapid.Float64Range(0, 1e9).Draw(t, "step")
				s.Points = append(s.Points, Point{x, rapid.Float64Range(-1e300, 1e300).Draw(t, "y")})
			}
			if n := len(c.Panels); n > 0 {
				c.Panels[i%n].Series = append(c.Panels[i%n].Series, s)
			}
		}
		svg := c.Svg()
		separate(t, svg)
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Fatal(svg)
		}
		bars := Bars{Title: "histogram"}
		for i := range rapid.IntRange(1, 3).Draw(t, "groups") {
			g := BarGroup{Name: fmt.Sprint("group ", i)}
			for k := range rapid.IntRange(0, 20).Draw(t, "bars") {
				g.Bars = append(g.Bars, Bar{Name: fmt.Sprintf("[%d, %d)", 1<<k, 2<<k), Value: rapid.Float64Range(0, 1e18).Draw(t, "n"), Text: "12345"})
			}
			bars.Groups = append(bars.Groups, g)
		}
		separate(t, bars.Svg())
	})
}

// A line with more points than pixels keeps its lowest and highest values.
func TestLinesKeepExtremes(t *testing.T) {
	s := Series{Name: "spikes"}
	for i := range 200_000 {
		y := 1.0
		if i == 123_456 {
			y = 100
		}
		s.Points = append(s.Points, Point{float64(i), y})
	}
	c := Lines{Title: "t", Panels: []Panel{{Series: []Series{s}, Y: func(float64) string { return "y" }}}, X: func(float64) string { return "x" }}
	svg := c.Svg()
	if len(svg) > 100_000 || !strings.Contains(svg, fmt.Sprintf("L%s %s", pixels(123_456.0/199_999*plotWidth), pixels(lineHeight+6))) {
		t.Errorf("%d bytes, or the spike is missing", len(svg))
	}
}

// The lengths of bars are proportional to the values.
func TestBarsAreProportional(t *testing.T) {
	b := Bars{Title: "t", Groups: []BarGroup{{Bars: []Bar{{"a", 1, "1"}, {"b", 4, "4"}, {"c", 2, "2"}}}}}
	svg := b.Svg()
	for _, want := range []float64{barWidth / 4, barWidth, barWidth / 2} {
		if !strings.Contains(svg, fmt.Sprintf(`width="%s" height="13"`, pixels(want))) {
			t.Errorf("there is no bar of %v in\n%s", want, svg)
		}
	}
}

// A frame is as wide as its share, and above its caller.
func TestFlameShares(t *testing.T) {
	unit := func(x float64) string { return fmt.Sprint(x) }
	leaf := &FlameFrame{Name: `<b>"x"`, Value: 1}
	f := Flame{Title: "flame", Unit: unit, Root: &FlameFrame{Name: "all", Value: 4, Children: []*FlameFrame{{Name: "main", Value: 3, Children: []*FlameFrame{leaf}}}}}
	svg := f.Svg(false)
	for _, want := range []string{`data-w="900.000" data-n="main"`, `data-w="300.000" data-n="&lt;b&gt;&#34;x&#34;"`, "25.00%", "75.00%"} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s is missing in\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "<script") || !strings.Contains(f.Svg(true), "<script>") {
		t.Error("the script is only there where it is asked for")
	}
	empty := Flame{Unit: unit, Root: &FlameFrame{Name: "all"}}
	if s := empty.Svg(false); !strings.Contains(s, "100.00%") || strings.Contains(s, "NaN") {
		t.Error(s)
	}
}

func TestNiceTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e300, 1e300).Draw(t, "low")
		high := low + math.Abs(rapid.Float64Range(0, 1e300).Draw(t, "size"))
		if ticks := niceTicks(low, high, 6); len(ticks) < 1 || len(ticks) > 24 {
			t.Fatalf("%d ticks", len(ticks))
		}
	})
}
