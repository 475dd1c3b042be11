package render

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"endoscope/client/render/explain"
	"endoscope/operators/batch"
	pictures "endoscope/operators/encoders/render"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// svgRenderer writes one picture, with a heading that says what it shows:
//
//	one value that is an SVG, or an encoding   that picture
//	stacks                                     a flame graph of the first number; rows are samples
//	HISTOGRAM                                  bars, for each row
//	TIMESTAMP and numbers                      lines over time
//	EXPLAIN                                    the plan
//
// It is written at the end.
type svgRenderer struct {
	gallery
	w io.Writer
}

func init() {
	define(SVG, implementation{endings: []string{".svg"}, single: true, new: func(w io.Writer, cols []wire.Column, o Options) (Renderer, error) {
		g, err := newGallery(SVG, cols, o.About)
		return &svgRenderer{*g, w}, err
	}})
}

func (r *svgRenderer) End() error {
	drawn, err := r.pictures(true)
	switch {
	case err != nil:
		return err
	case len(drawn) != 1:
		return misfitf("-o FILE.html shows all of them; or choose one row", "svg: the result has %d pictures, and a file holds one", len(drawn))
	}
	_, err = io.WriteString(r.w, headed(drawn[0].svg, &r.about))
	return err
}

// gallery collects what a result's pictures show; it is common to SVG and HTML.
type gallery struct {
	format Format
	cols   []wire.Column
	about  About
	stacks *profile // of a flame graph; nil: the result has no stacks
	time   int      // column of the time, or -1
	ready  []drawnPicture
	bars   pictures.Bars
	lines  seriesSet
	plan   []string // the lines of EXPLAIN; nil: the result has another
	some   bool     // there are rows
	ended  bool
}

// drawnPicture is a picture and what is beside it in its row.
type drawnPicture struct{ name, svg string }

const pictureHint = "it needs a picture, svg(x) or an encoding; or stacks and a number; or HISTOGRAM(x); or a TIMESTAMP and numbers"

// newGallery returns a gallery, which is never nil.
func newGallery(f Format, cols []wire.Column, a About) (*gallery, error) {
	g := &gallery{format: f, cols: cols, about: a, time: columnOf(cols, types.Timestamp, "timestamp", "window_start", "window_end", "")}
	g.lines.at = map[seriesKey]int{}
	pictured, numbers := false, false
	for _, c := range cols {
		pictured = pictured || c.Type.Physical() == types.PhysAny || c.Type == types.Varchar
		numbers = numbers || c.Type.Numeric()
	}
	if !pictured && (g.time < 0 || !numbers) {
		return g, misfitf(pictureHint, "%s: the result has nothing to draw", f)
	}
	if at := stackColumn(cols); at >= 0 && cols[at].Type != types.Encoding {
		var err error
		if g.stacks, err = newProfile(f, cols, a); err != nil {
			return g, err
		}
	}
	return g, nil
}

func (g *gallery) Tick() error  { return nil }
func (g *gallery) Clear() error { return nil }

func (g *gallery) Flush(preview bool) error {
	g.ended = g.ended || !preview
	if g.stacks != nil {
		return g.stacks.Flush(preview)
	}
	return nil
}

func (g *gallery) Rows(b *batch.Batch, preview bool) error {
	if preview {
		return nil
	}
	if g.ended && g.about.Emit == "EVERY" && g.time < 0 { // these rows replace those of the last result
		g.ready, g.bars.Groups = nil, nil
	}
	g.ended = false
	g.some = g.some || b.Len() > 0
	for i := range b.Len() {
		row := b.Row(i)
		used, err := g.draw(b, row)
		if err != nil {
			return err
		}
		if !used && g.time >= 0 && g.stacks == nil {
			if err := g.lines.add(g, b, row); err != nil {
				return err
			}
		}
	}
	if g.stacks != nil && len(g.ready) == 0 && len(g.bars.Groups) == 0 {
		return g.stacks.Rows(b, false)
	}
	return nil
}

// draw adds the pictures of a row's values; it returns false if there is none.
func (g *gallery) draw(b *batch.Batch, row int) (used bool, err error) {
	for c := range b.Cols {
		col := &b.Cols[c]
		if col.Nulls.Get(row) {
			continue
		}
		switch v := col.Value(row); v.Type {
		case types.Varchar:
			if explain.Is(g.cols) {
				g.plan, used = append(g.plan, v.S), true
				continue
			}
			if strings.HasPrefix(strings.TrimLeft(v.S, " \n\t"), "<svg") {
				if _, _, ok := extent(v.S); !ok {
					return true, misfitf("the picture must be XML whose root is svg", "%s: %s is not a picture", g.format, g.cols[c].Name)
				}
				g.ready, used = append(g.ready, drawnPicture{g.rowName(b, row, c), v.S}), true
			}
		case types.Encoding:
			d, ok := v.A.(interface{ SVG() string })
			if !ok {
				return true, misfitf("svg(x) draws the encodings that can be drawn; over a connection it must be asked for", "%s: %s cannot be drawn", g.format, g.cols[c].Name)
			}
			g.ready, used = append(g.ready, drawnPicture{g.rowName(b, row, c), d.SVG()}), true
		case types.List:
			vs, _ := v.A.([]types.Value)
			if buckets := histogramOf(vs); buckets != nil {
				g.histogram(g.rowName(b, row, c), buckets)
				used = true
			}
		}
	}
	return used, nil
}

// rowName returns the values of a row's other columns.
func (g *gallery) rowName(b *batch.Batch, row, but int) string {
	var name []string
	var clock clock
	for c := range b.Cols {
		if c != but && g.cols[c].Type.Physical() != types.PhysAny && !b.Cols[c].Nulls.Get(row) {
			name = append(name, g.cols[c].Name+" "+string(clock.appendHuman(nil, b.Cols[c].Value(row))))
		}
	}
	return strings.Join(name, ", ")
}

func (g *gallery) histogram(name string, buckets []bucket) {
	var clock clock
	group := pictures.BarGroup{Name: name}
	for _, k := range buckets {
		group.Bars = append(group.Bars, pictures.Bar{Name: string(clock.appendRange(nil, k)), Value: float64(k.count), Text: fmt.Sprint(k.count)})
	}
	g.bars.Groups = append(g.bars.Groups, group)
}

// pictures returns the pictures of the whole result; script: flame graphs may have theirs.
func (g *gallery) pictures(script bool) ([]drawnPicture, error) {
	if !g.some {
		return []drawnPicture{{svg: pictures.Message("nothing to draw", "the result has no rows")}}, nil
	}
	all := g.ready
	if svg, ok := explain.Picture(g.plan); ok {
		all = append(all, drawnPicture{svg: svg})
	}
	if len(g.bars.Groups) > 0 {
		g.bars.Title = "histogram"
		all = append(all, drawnPicture{svg: g.bars.Svg()})
	}
	if len(g.lines.charts) > 0 {
		all = append(all, drawnPicture{svg: g.lines.picture()})
	}
	if len(all) == 0 && g.stacks != nil && len(g.stacks.samples) > 0 {
		all = append(all, drawnPicture{svg: g.stacks.flame().Svg(script)})
	}
	if len(all) == 0 {
		return nil, misfitf(pictureHint, "%s: the result has nothing to draw", g.format)
	}
	return all, nil
}

// extent returns the size of an SVG; false if it is not one XML element called svg.
func extent(svg string) (width, height float64, ok bool) {
	d := xml.NewDecoder(strings.NewReader(svg))
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return width, height, ok && errors.Is(err, io.EOF)
		}
		switch t := t.(type) {
		case xml.EndElement:
			depth--
		case xml.StartElement:
			if depth++; depth > 1 {
				continue
			}
			ok = t.Name.Local == "svg"
			for _, a := range t.Attr {
				switch a.Name.Local {
				case "width":
					_, _ = fmt.Sscanf(a.Value, "%g", &width) // 0 if it is not in pixels
				case "height":
					_, _ = fmt.Sscanf(a.Value, "%g", &height)
				}
			}
		}
	}
}

// headed returns an SVG below lines that say what the result is. An SVG of unknown size is
// returned unchanged.
func headed(svg string, a *About) string {
	width, height, ok := extent(svg)
	lines := a.heading()
	if !ok || width <= 0 || height <= 0 || len(lines) == 0 {
		return svg
	}
	var b bytes.Buffer
	at := strings.Index(svg, "<svg")
	pictures.Headed(&b, lines, strings.TrimSpace(svg[at:]), width, height)
	return b.String()
}

// mostPoints is the largest number of points of a picture of numbers over time.
const mostPoints = 1 << 20

// seriesSet collects the numbers of rows over time: a chart for each column of numbers, and in
// it a line for each text of the rows.
type seriesSet struct {
	charts []pictures.Panel
	at     map[seriesKey]int // charts, and series of a chart
	points int
	clock  clock
	base   int64 // the time that is 0 in the series: nanoseconds since 1970 do not fit a float64
}

type seriesKey struct {
	column int
	texts  string // "": the chart of the column
	isLine bool
}

// add adds the numbers of a row.
func (s *seriesSet) add(g *gallery, b *batch.Batch, row int) error {
	if b.Cols[g.time].Nulls.Get(row) {
		return nil
	}
	at := b.Cols[g.time].Int[row]
	if s.points == 0 {
		s.base = at
	}
	var of []string
	for c := range b.Cols {
		if g.cols[c].Type == types.Varchar && !b.Cols[c].Nulls.Get(row) {
			of = append(of, textAt(b, c, row))
		}
	}
	texts := strings.Join(of, " ")
	for c := range b.Cols {
		col := &b.Cols[c]
		if !col.Type.Numeric() || col.Nulls.Get(row) || slices.Contains(identifying, g.cols[c].Name) && g.cols[c].Name != "var_value" {
			continue
		}
		y := 0.0
		if col.Type == types.Double {
			y = col.Float[row]
		} else {
			y = col.Type.Float(col.Int[row])
		}
		if math.IsNaN(y) || math.IsInf(y, 0) {
			continue
		}
		if s.points++; s.points > mostPoints {
			return misfitf("a window makes fewer: FROM TUMBLE(stream, 1s)", "%s: the result has more than %d points", g.format, mostPoints)
		}
		line := s.line(g.cols[c], c, texts)
		line.Points = append(line.Points, pictures.Point{X: float64(at - s.base), Y: y})
	}
	return nil
}

// line returns the series of a column and texts.
func (s *seriesSet) line(col wire.Column, c int, texts string) *pictures.Series {
	chart, ok := s.at[seriesKey{column: c}]
	if !ok {
		chart = len(s.charts)
		s.at[seriesKey{column: c}] = chart
		y := func(y float64) string { return string(appendHumanFloat(nil, y)) }
		if col.Type == types.Duration {
			y = func(y float64) string { return HumanDuration(int64(y)) }
		}
		s.charts = append(s.charts, pictures.Panel{Name: string(appendEscaped(nil, col.Name)), Y: y})
	}
	panel := &s.charts[chart]
	key := seriesKey{c, texts, true}
	i, ok := s.at[key]
	if !ok {
		i = len(panel.Series)
		s.at[key] = i
		panel.Series = append(panel.Series, pictures.Series{Name: string(appendEscaped(nil, texts))})
	}
	return &panel.Series[i]
}

// picture draws the series.
func (s *seriesSet) picture() string {
	first, last := math.Inf(1), math.Inf(-1)
	for _, chart := range s.charts {
		for i := range chart.Series {
			points := chart.Series[i].Points
			slices.SortStableFunc(points, func(a, b pictures.Point) int { return cmp.Compare(a.X, b.X) })
			if n := len(points); n > 0 {
				first, last = min(first, points[0].X), max(last, points[n-1].X)
			}
		}
	}
	when := func(x float64) string { return string(s.clock.append(nil, s.base+int64(x), 6)) }
	c := pictures.Lines{Title: "numbers over time", Panels: s.charts}
	if first <= last {
		c.About = []string{"from " + when(first) + " to " + when(last)}
	}
	c.X = func(x float64) string { return when(x)[len("2006-01-02T"):len("2006-01-02T15:04:05.000000")] }
	return c.Svg()
}
