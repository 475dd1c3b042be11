package handlers

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Sizes of a flame graph, in pixels.
const (
	flameWidth  = 1200.0
	flameRow    = 17
	flameTop    = 44 // title and legend
	flameChar   = 6.6
	flameNarrow = 0.1 // narrower frames are not drawn
)

// colours are the colours of states; a frame has the colour of its most frequent state.
var colours = [numStates]string{Run: "#e5773b", Wait: "#b7bfc7", IO: "#4f9bd9", Blocked: "#b0569f", Output: "#7cc3e8"}

var legend = [numStates]string{Run: "runs", Wait: "waits", IO: "reads", Blocked: "is blocked", Output: "writes"}

// SVG returns a flame graph of all functions: the width is the number of samples, callees
// are above callers, and the colour is the most frequent state of the function and its
// callees. Where scripts run, a click on a function zooms to it, and a click on the title
// shows everything.
func (p *Profile) SVG() string {
	a := analysis{subtree: map[*Node]Counts{}}
	root := &p.whole.root
	all := a.sum(root)
	total := float64(max(all.Total()+all[Blocked], 1))
	depth := 0
	var deepest func(n *Node, d int)
	deepest = func(n *Node, d int) {
		c := a.all(n)
		if float64(c.Total()+c[Blocked])/total*flameWidth < flameNarrow {
			return
		}
		depth = max(depth, d)
		for _, child := range n.children {
			deepest(child, d+1)
		}
	}
	deepest(root, 0)
	height := flameTop + (depth+1)*flameRow + 6
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="monospace" font-size="11">`+"\n", int(flameWidth), height, int(flameWidth))
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	fmt.Fprintf(&b, `<text id="all" x="6" y="16" font-size="13" style="cursor:pointer">%d samples</text>`+"\n", p.whole.Samples)
	x := 6.0
	for s, colour := range colours {
		if all[s] > 0 {
			fmt.Fprintf(&b, `<rect x="%.1f" y="24" width="10" height="10" fill="%s"/><text x="%.1f" y="33">%s</text>`+"\n", x, colour, x+14, legend[s])
			x += 26 + flameChar*float64(len(legend[s])+1)
		}
	}
	b.WriteString("<g id=\"frames\">\n")
	var draw func(n *Node, x float64, d int)
	draw = func(n *Node, x float64, d int) {
		c := a.all(n)
		sum := c.Total() + c[Blocked]
		width := float64(sum) / total * flameWidth
		if width < flameNarrow {
			return
		}
		drawFrame(&b, n, c, x, width, height-(d+1)*flameRow-6, float64(sum)/total)
		for _, child := range n.Children() {
			cc := a.all(child)
			draw(child, x, d+1)
			x += float64(cc.Total()+cc[Blocked]) / total * flameWidth
		}
	}
	draw(root, 0, 0)
	b.WriteString("</g>\n" + flameScript + "</svg>\n")
	return b.String()
}

func drawFrame(b *strings.Builder, n *Node, c Counts, x, width float64, y int, share float64) {
	name := n.Name.Function
	if n.Name == (Name{}) {
		name = "all"
	}
	most := Run
	for s := range c {
		if c[s] > c[most] {
			most = State(s)
		}
	}
	title := fmt.Sprintf("%s %.2f%%:%v", name, 100*share, c)
	if n.Name.Module != "" {
		title += ", " + n.Name.Module
	}
	label := ""
	if room := int((width - 4) / flameChar); room >= 3 {
		label = name
		if r := []rune(name); len(r) > room {
			label = string(r[:room-1]) + "…"
		}
	}
	fmt.Fprintf(b, `<g data-x="%.3f" data-w="%.3f" data-n="%s"><title>%s</title><rect x="%.3f" y="%d" width="%.3f" height="%d" fill="%s" stroke="#fff" stroke-width=".5"/><text x="%.3f" y="%d" pointer-events="none">%s</text></g>`+"\n",
		x, width, escaped(name), escaped(title), x, y, width, flameRow-1, colours[most], x+2, y+12, escaped(label))
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}

// flameScript zooms: the clicked function and its callers get the whole width, its callees
// their proportion of it, and the others are hidden.
const flameScript = `<script>//<![CDATA[
(function () {
  var W = 1200, C = 6.6, all = Array.prototype.slice.call(document.querySelectorAll("#frames > g"));
  function zoom(x0, w0) {
    all.forEach(function (g) {
      var x = +g.getAttribute("data-x"), w = +g.getAttribute("data-w"), name = g.getAttribute("data-n");
      var left = Math.max(x, x0), right = Math.min(x + w, x0 + w0), r = g.querySelector("rect"), t = g.querySelector("text");
      if (right - left < w0 * 1e-6) { g.style.display = "none"; return; }
      g.style.display = "";
      var at = (left - x0) / w0 * W, width = (right - left) / w0 * W, room = Math.floor((width - 4) / C);
      r.setAttribute("x", at); r.setAttribute("width", width); t.setAttribute("x", at + 2);
      t.textContent = room < 3 ? "" : name.length > room ? name.slice(0, room - 1) + "…" : name;
    });
  }
  all.forEach(function (g) {
    g.style.cursor = "pointer";
    g.addEventListener("click", function () { zoom(+g.getAttribute("data-x"), +g.getAttribute("data-w")); });
  });
  document.getElementById("all").addEventListener("click", function () { zoom(0, W); });
})();
//]]></script>
`
