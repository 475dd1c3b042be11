package render

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Bars is a chart of values with names, a row each, such as a histogram.
type Bars struct {
	Title  string
	About  []string
	Groups []BarGroup
}

// BarGroup is one set of bars, with a common scale.
type BarGroup struct {
	Name string // "": the only one
	Bars []Bar
}

// Bar is one value.
type Bar struct {
	Name  string
	Value float64
	Text  string // the value, as it is written
}

const (
	barRow   = 17.0
	barWidth = 560.0
	mostBars = 2000
)

// Svg draws the bars.
func (c *Bars) Svg() string {
	p := picture{title: c.Title, about: c.About, legend: []string{"length: how often, as a share of the longest bar of the group"}}
	left := 0.0
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			left = max(left, textWidth(b.Name))
		}
	}
	left += 8
	y, drawn := 0.0, 0
	p.need(0, 0, left+barWidth, 0)
	for i, g := range c.Groups {
		if drawn > mostBars {
			p.legend = append(p.legend, fmt.Sprintf("and %d groups more", len(c.Groups)-i))
			break
		}
		if g.Name != "" {
			y += 8
			p.text(0, y+12, "start", "text", g.Name)
			p.need(0, y, textWidth(g.Name), y+barRow)
			y += barRow
		}
		most := 0.0
		for _, b := range g.Bars {
			most = max(most, b.Value)
		}
		for _, b := range g.Bars {
			width := 0.0
			if most > 0 {
				width = max(0, b.Value/most*barWidth)
			}
			p.printf("<g><title>%s: %s</title>", xmlText(b.Name), xmlText(b.Text))
			p.printf(`<rect class="ep-bar" x="%s" y="%s" width="%s" height="%s" fill="#1f6fb2"/>`+"\n", pixels(left), pixels(y+2), pixels(width), pixels(barRow-4))
			p.text(left-8, y+12, "end", "text", b.Name)
			p.text(left+width+6, y+12, "start", "dim", b.Text)
			p.need(0, y, left+width+6+textWidth(b.Text), y+barRow)
			p.printf("</g>\n")
			y += barRow
			drawn++
		}
	}
	return p.String()
}

// Lines are charts of numbers over a common time, one below the other. X is in ns.
type Lines struct {
	Title  string
	About  []string
	Panels []Panel
	X      func(v float64) string // formats a time
}

// Panel is one chart: lines with a common scale.
type Panel struct {
	Name   string
	Series []Series
	Y      func(v float64) string // formats a value
}

// Series is one line: points in the order of X.
type Series struct {
	Name   string
	Points []Point
}

// Point is a value at a time.
type Point struct{ X, Y float64 }

const (
	plotWidth  = 960.0
	mostSeries = 16
	mostPanels = 12
	mostDots   = 400 // points that get a dot with a tooltip
)

// Svg draws the charts.
func (c *Lines) Svg() string {
	p := picture{title: c.Title, about: c.About}
	x0, x1 := math.Inf(1), math.Inf(-1)
	for _, panel := range c.Panels {
		for _, s := range panel.Series {
			for _, v := range s.Points {
				x0, x1 = min(x0, v.X), max(x1, v.X)
			}
		}
	}
	if math.IsInf(x0, 1) {
		return Message(c.Title, "there are no points")
	}
	shown := c.Panels
	if len(shown) > mostPanels {
		p.legend = append(p.legend, fmt.Sprintf("and %d charts more", len(shown)-mostPanels))
		shown = shown[:mostPanels]
	}
	top, height := 0.0, 320.0
	if len(shown) > 1 {
		height = 180
	}
	for i := range shown {
		top = c.panel(&p, &shown[i], x0, beyond(x0, x1), top, height) + lineHeight
	}
	return p.String()
}

// panel draws a chart, and returns where it ends.
func (c *Lines) panel(p *picture, panel *Panel, x0, x1, top, height float64) float64 {
	shown, names := panel.Series, panel.Name
	if len(shown) > mostSeries {
		names += fmt.Sprintf(" (and %d series more)", len(shown)-mostSeries)
		shown = shown[:mostSeries]
	}
	p.text(0, top+lineHeight-3, "start", "text", names)
	p.need(0, top, textWidth(names), top+lineHeight)
	top += lineHeight + 6
	y0, y1 := 0.0, math.Inf(-1)
	for _, s := range shown {
		for _, v := range s.Points {
			y0, y1 = min(y0, v.Y), max(y1, v.Y)
		}
	}
	y1 = beyond(y0, y1)
	ticks := niceTicks(y0, y1, int(height/50))
	y0, y1 = min(y0, ticks[0]), max(y1, ticks[len(ticks)-1])
	px := func(x float64) float64 { return (x - x0) / (x1 - x0) * plotWidth }
	py := func(y float64) float64 { return top + height - (y/2-y0/2)/(y1/2-y0/2)*height } // halves do not overflow
	for _, t := range ticks {
		label := panel.Y(t)
		p.printf(`<path class="ep-grid" d="M0 %sH%s" stroke="#d9dfe6"/>`+"\n", pixels(py(t)), pixels(plotWidth))
		p.text(-8, py(t)+4, "end", "dim", label)
		p.need(-8-textWidth(label), py(t)-6, plotWidth, py(t)+6)
	}
	c.timeAxis(p, x0, x1, top, top+height, px)
	for i, s := range shown {
		colour := series[i%len(series)]
		p.printf(`<g><title>%s</title><path d="%s" fill="none" stroke="%s" stroke-width="1.5" stroke-linejoin="round"/>`+"\n", xmlText(s.Name), linePath(s.Points, px, py), colour)
		if len(s.Points) <= mostDots {
			for _, v := range s.Points {
				p.printf(`<circle cx="%s" cy="%s" r="2.5" fill="%s"><title>%s</title></circle>`+"\n", pixels(px(v.X)), pixels(py(v.Y)), colour,
					xmlText(fmt.Sprintf("%s: %s at %s", s.Name, panel.Y(v.Y), c.X(v.X))))
			}
		}
		p.printf("</g>\n")
	}
	return keys(p, shown, top+height+2*lineHeight+8)
}

// beyond returns high, or if that is not above low, a number that is.
func beyond(low, high float64) float64 {
	if high > low {
		return high
	}
	return low + max(1, math.Abs(low)/1e6)
}

// timeAxis draws the ticks of the time, no two of which overlap.
func (c *Lines) timeAxis(p *picture, x0, x1, top, bottom float64, px func(float64) float64) {
	right := math.Inf(-1)
	for _, t := range niceTicks(x0, x1, 6) {
		if t < x0 || t > x1 {
			continue
		}
		label := c.X(t)
		half := textWidth(label) / 2
		if px(t)-half < right+8 {
			continue
		}
		right = px(t) + half
		p.printf(`<path class="ep-grid" d="M%s %sV%s" stroke="#d9dfe6"/>`+"\n", pixels(px(t)), pixels(top), pixels(bottom))
		p.text(px(t), bottom+lineHeight+2, "middle", "dim", label)
		p.need(px(t)-half, top, px(t)+half, bottom+lineHeight+4)
	}
}

// keys draws the names of series in rows from y on, and returns where they end.
func keys(p *picture, shown []Series, y float64) float64 {
	x := 0.0
	for i, s := range shown {
		name := Shortened(s.Name, 100)
		if name == "" {
			continue
		}
		if w := textWidth(name) + 18; x > 0 && x+w > plotWidth {
			x, y = 0, y+lineHeight+2
		}
		p.printf(`<rect x="%s" y="%s" width="10" height="10" fill="%s"/>`+"\n", pixels(x), pixels(y-9), series[i%len(series)])
		p.text(x+14, y, "start", "text", name)
		p.need(x, y-lineHeight, x+14+textWidth(name), y+3)
		x += textWidth(name) + 34
	}
	return y + 4
}

// linePath draws points; of those in one column of pixels the lowest and the highest.
func linePath(points []Point, px, py func(float64) float64) string {
	var b strings.Builder
	command := "M"
	add := func(v Point) {
		fmt.Fprintf(&b, "%s%s %s", command, pixels(px(v.X)), pixels(py(v.Y)))
		command = "L"
	}
	for i := 0; i < len(points); {
		column, j := math.Floor(px(points[i].X)), i
		low, high := i, i
		for ; j < len(points) && math.Floor(px(points[j].X)) == column; j++ {
			if points[j].Y < points[low].Y {
				low = j
			}
			if points[j].Y > points[high].Y {
				high = j
			}
		}
		at := []int{i, low, high, j - 1}
		slices.Sort(at)
		for _, k := range slices.Compact(at) {
			add(points[k])
		}
		i = j
	}
	return b.String()
}

// niceTicks returns round numbers from about low to about high.
func niceTicks(low, high float64, n int) (ticks []float64) {
	raw := high/float64(n) - low/float64(n)
	if !(raw > 0) || math.IsInf(raw, 0) {
		return []float64{low, high}
	}
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5, 10} {
		if step*m >= raw {
			step *= m
			break
		}
	}
	for t := math.Floor(low/step) * step; t < high+step*0.999 && len(ticks) < 4*n; t += step {
		ticks = append(ticks, t)
	}
	return ticks
}
