package render

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// Flame is a flame graph: the width of a frame is its share, and callees are above callers.
type Flame struct {
	Title string
	About []string
	Keys  []FlameKey // the meaning of colours
	Root  *FlameFrame
	Unit  func(x float64) string // formats a value
}

// FlameKey explains a colour.
type FlameKey struct{ Colour, Text string }

// FlameFrame is a function, called along the path to it.
type FlameFrame struct {
	Name, Tip string
	Value     float64 // with its callees
	Colour    string  // "": by its name
	Children  []*FlameFrame
}

// Sizes of a flame graph, in pixels.
const (
	flameWidth  = 1200.0
	flameRow    = 17
	flameKeys   = 20
	flameNarrow = 0.1 // narrower frames are not drawn
)

// warm are the colours of frames without one of their own.
var warm = []string{"#e8833a", "#eb9a4d", "#f0ae5e", "#e57351", "#f2bd6b", "#e0935f", "#ecaa7c", "#f0c987"}

func (f *FlameFrame) colour() string {
	if f.Colour != "" {
		return f.Colour
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(f.Name)) // does not fail
	return warm[h.Sum32()%uint32(len(warm))]
}

// FlameScript zooms: the function that is clicked and its callers get the whole width, its
// callees their proportion of it, and the others are hidden. A click on the lowest frame
// shows everything. It is for the SVG alone or in a page of its own.
const FlameScript = `(function () {
  var W = 1200, C = 6.7, all = Array.prototype.slice.call(document.querySelectorAll("#frames > g"));
  function zoom(x0, w0) {
    all.forEach(function (g) {
      var x = +g.getAttribute("data-x"), w = +g.getAttribute("data-w"), name = g.getAttribute("data-n");
      var left = Math.max(x, x0), right = Math.min(x + w, x0 + w0), r = g.querySelector("rect"), t = g.querySelector("text");
      if (right - left < w0 * 1e-6) { g.setAttribute("display", "none"); return; }
      g.removeAttribute("display");
      var at = (left - x0) / w0 * W, width = (right - left) / w0 * W, room = Math.floor((width - 4) / C);
      r.setAttribute("x", at); r.setAttribute("width", width); t.setAttribute("x", at + 2);
      t.textContent = room < 3 ? "" : name.length > room ? name.slice(0, room - 1) + "…" : name;
    });
  }
  all.forEach(function (g) {
    g.setAttribute("cursor", "pointer");
    g.addEventListener("click", function () { zoom(+g.getAttribute("data-x"), +g.getAttribute("data-w")); });
  });
})();`

// Svg draws the graph; with script, a click zooms where scripts run.
func (f *Flame) Svg(script bool) string {
	p := picture{title: f.Title, about: f.About, legend: []string{"width: share of " + f.Unit(f.Root.Value) + "; a frame is above its caller"}}
	depth := f.depth(f.Root)
	x := 0.0
	for _, k := range f.Keys {
		p.printf(`<rect x="%s" y="3" width="10" height="10" fill="%s"/>`+"\n", pixels(x), k.Colour)
		p.text(x+14, 12, "start", "text", k.Text)
		x += 30 + textWidth(k.Text)
	}
	top := 0
	if len(f.Keys) > 0 {
		top = flameKeys
	}
	height := top + (depth+1)*flameRow
	p.need(0, 0, flameWidth, float64(height))
	p.printf(`<g id="frames">` + "\n")
	f.draw(&p, f.Root, 0, height-flameRow)
	p.printf("</g>\n")
	text := p.String()
	if script {
		text = strings.TrimSuffix(text, "</svg>\n") + "<script>//<![CDATA[\n" + FlameScript + "\n//]]></script>\n</svg>\n"
	}
	return text
}

func (f *Flame) width(n *FlameFrame) float64 {
	if f.Root.Value <= 0 {
		return 0
	}
	return n.Value / f.Root.Value * flameWidth
}

func (f *Flame) depth(n *FlameFrame) (d int) {
	for _, c := range n.Children {
		if f.width(c) >= flameNarrow {
			d = max(d, 1+f.depth(c))
		}
	}
	return d
}

func (f *Flame) draw(p *picture, n *FlameFrame, x float64, y int) {
	width := f.width(n)
	if width < flameNarrow && n != f.Root {
		return
	}
	share := 100.0
	if f.Root.Value > 0 {
		share = 100 * n.Value / f.Root.Value
	}
	tip := fmt.Sprintf("%s\n%s, %.2f%%", n.Name, f.Unit(n.Value), share)
	if n.Tip != "" {
		tip += "\n" + n.Tip
	}
	label := ""
	if room := int((width - 4) / charWidth); room >= 3 {
		label = Shortened(n.Name, room)
	}
	p.printf(`<g data-x="%.3f" data-w="%.3f" data-n="%s"><title>%s</title><rect class="ep-edge" x="%.3f" y="%d" width="%.3f" height="%d" fill="%s" stroke="#ffffff" stroke-width="0.5"/><text x="%.3f" y="%d" fill="#111111" pointer-events="none">%s</text></g>`+"\n",
		x, width, xmlText(n.Name), xmlText(tip), x, y, width, flameRow-1, n.colour(), x+2, y+11, xmlText(label))
	for _, c := range n.Children {
		f.draw(p, c, x, y-flameRow)
		x += f.width(c)
	}
}
