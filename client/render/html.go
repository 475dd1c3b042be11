package render

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"

	pictures "endoscope/operators/encoders/render"
	"endoscope/server/wire"
)

// htmlRenderer writes a page of its own with all pictures of a result: those of SVG, and
// several of them if several rows have one. It refers to nothing outside; its policy permits
// only its own script, which zooms, and searches flame graphs.
type htmlRenderer struct {
	gallery
	w io.Writer
}

func init() {
	define(HTML, implementation{endings: []string{".html", ".htm"}, single: true, new: func(w io.Writer, cols []wire.Column, o Options) (Renderer, error) {
		g, err := newGallery(HTML, cols, o.About)
		return &htmlRenderer{*g, w}, err
	}})
}

// scripts matches the scripts of pictures, which the page's own replaces.
var scripts = regexp.MustCompile(`(?is)<script\b.*?</script\s*>`)

func (r *htmlRenderer) End() error {
	drawn, err := r.pictures(false)
	if err != nil {
		return err
	}
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src %s %s; script-src %s">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>%s</title>
<style>%s</style>
</head>
<body>
<h1>Endoscope</h1>
`, hash(pageStyle), hash(pictures.Style), hash(pageScript), escapedHTML(pageTitle(&r.about)), pageStyle)
	for _, l := range r.about.heading() {
		fmt.Fprintf(&b, "<p>%s</p>\n", escapedHTML(l))
	}
	b.WriteString(`<p><label>Search <input id="search" type="search" placeholder="function name"></label> <span id="found"></span></p>` + "\n")
	for _, p := range drawn {
		if p.name != "" {
			fmt.Fprintf(&b, "<h2>%s</h2>\n", escapedHTML(p.name))
		}
		svg := scripts.ReplaceAllString(p.svg, "")
		fmt.Fprintf(&b, "<figure>%s</figure>\n", strings.TrimSpace(svg[strings.Index(svg, "<svg"):]))
	}
	fmt.Fprintf(&b, "<script>%s</script>\n</body>\n</html>\n", pageScript)
	_, err = r.w.Write(b.Bytes())
	return err
}

// escapedHTML escapes a text for HTML, and shows its control characters as a terminal would.
func escapedHTML(s string) string { return html.EscapeString(string(appendEscaped(nil, s))) }

func pageTitle(a *About) string {
	if a.Query == "" {
		return "Endoscope"
	}
	return "Endoscope: " + strings.Join(strings.Fields(a.Query), " ")
}

const pageStyle = `:root{color-scheme:light dark}body{margin:1rem;font:14px ui-monospace,Menlo,Consolas,monospace;background:#fff;color:#17202a}` +
	`p{margin:.3rem 0;overflow-wrap:anywhere}h1{font-size:1rem}h2{font-size:.9rem}figure{margin:1rem 0;overflow:auto}svg{max-width:100%;height:auto}` +
	`@media (prefers-color-scheme:dark){body{background:#14171c;color:#dfe5ec}}`

// pageScript zooms flame graphs, finds names in them, and lets the wheel and the pointer zoom
// and move the other pictures; a double click shows the whole picture again.
const pageScript = pictures.FlameScript + `
(function () {
  var frames = Array.prototype.slice.call(document.querySelectorAll("#frames > g"));
  var search = document.getElementById("search"), found = document.getElementById("found");
  search.addEventListener("input", function () {
    var text = search.value.toLowerCase(), n = 0;
    frames.forEach(function (g) {
      var hit = text !== "" && g.getAttribute("data-n").toLowerCase().indexOf(text) >= 0;
      g.setAttribute("opacity", text === "" || hit ? "1" : "0.3");
      n += hit ? 1 : 0;
    });
    found.textContent = text === "" ? "" : n + " frames";
  });
  if (frames.length === 0) { search.parentNode.parentNode.setAttribute("hidden", ""); }
  Array.prototype.forEach.call(document.querySelectorAll("figure > svg"), function (svg) {
    if (svg.querySelector("#frames")) { return; }
    var box = svg.viewBox.baseVal, whole = [box.x, box.y, box.width, box.height], drag = null;
    function at(e) { var r = svg.getBoundingClientRect(); return [(e.clientX - r.left) / r.width, (e.clientY - r.top) / r.height]; }
    svg.addEventListener("wheel", function (e) {
      if (!e.ctrlKey && !e.shiftKey) { return; }
      var p = at(e), f = e.deltaY < 0 ? 0.8 : 1.25;
      f = Math.min(f, whole[2] / box.width);
      box.x += p[0] * box.width * (1 - f); box.y += p[1] * box.height * (1 - f);
      box.width *= f; box.height *= f; e.preventDefault();
    });
    svg.addEventListener("mousedown", function (e) { drag = at(e); e.preventDefault(); });
    window.addEventListener("mousemove", function (e) {
      if (drag === null) { return; }
      var p = at(e); box.x += (drag[0] - p[0]) * box.width; box.y += (drag[1] - p[1]) * box.height; drag = p;
    });
    window.addEventListener("mouseup", function () { drag = null; });
    svg.addEventListener("dblclick", function () { box.x = whole[0]; box.y = whole[1]; box.width = whole[2]; box.height = whole[3]; });
  });
})();
`
