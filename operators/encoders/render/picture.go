package render

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
)

// Sizes of text, in pixels. Text is in a monospace font, so that its width is known; where a
// font is wider, the width is enforced (textLength).
const (
	fontSize   = 11
	charWidth  = 6.7
	lineHeight = 14.0
	margin     = 16.0
	titleSize  = 13
)

// Style are the colours of pictures on a dark background, by the classes of their elements.
// Pictures have the light colours as attributes: they need no style sheet, and a page whose
// policy refuses those inside of pictures can have this one as a file.
const Style = `@media (prefers-color-scheme:dark){` +
	`.ep-ground{fill:#14171c}.ep-text{fill:#dfe5ec}.ep-halo{stroke:#14171c}.ep-dim{fill:#98a4b1}` +
	`.ep-node{fill:#222c38;stroke:#7f9fbd}.ep-line{stroke:#7f9fbd}.ep-head{fill:#7f9fbd}.ep-alarm{stroke:#ff7b72}.ep-alarm-head{fill:#ff7b72}` +
	`.ep-band{fill:#1b2027}.ep-grid{stroke:#2c343e}.ep-bar{fill:#5b9bd5}.ep-part{fill:#f0944d}.ep-edge{stroke:#14171c}.ep-ink{fill:#111}}`

// series are the colours of lines and their classes; they are legible on both grounds.
var series = []string{"#2f7ed8", "#d9722e", "#2e9e5b", "#a05bc8", "#c9447a", "#2f9fa8", "#8a7a1f", "#6a78d1"}

// picture is an SVG under construction: a title, lines that say what is shown, the drawing,
// and a legend.
type picture struct {
	title  string
	about  []string
	legend []string
	// The drawing, and the rectangle that it needs.
	body                  strings.Builder
	left, top, right, low float64
	some                  bool
	defs                  string
}

// need extends the rectangle.
func (p *picture) need(x0, y0, x1, y1 float64) {
	if !p.some {
		p.left, p.top, p.right, p.low, p.some = x0, y0, x1, y1, true
	}
	p.left, p.top = min(p.left, x0), min(p.top, y0)
	p.right, p.low = max(p.right, x1), max(p.low, y1)
}

func (p *picture) printf(format string, args ...any) { fmt.Fprintf(&p.body, format, args...) }

// text writes a line of text with its baseline at y. anchor is start, middle or end.
func (p *picture) text(x, y float64, anchor, class, line string) {
	p.body.WriteString(textElement(x, y, anchor, class, line))
}

// textElement returns a line of text; class is text, dim, or label, which has a halo.
func textElement(x, y float64, anchor, class, line string) string {
	attributes := ` class="ep-text" fill="#17202a"`
	switch class {
	case "dim":
		attributes = ` class="ep-dim" fill="#5a6672"`
	case "label":
		attributes = ` class="ep-text ep-halo" fill="#17202a" stroke="#ffffff" stroke-width="3" stroke-linejoin="round" paint-order="stroke"`
	case "ink":
		attributes = ` class="ep-ink" fill="#111111" pointer-events="none"`
	}
	if anchor != "start" {
		attributes += ` text-anchor="` + anchor + `"`
	}
	if line == "" {
		return ""
	}
	return fmt.Sprintf(`<text x="%s" y="%s" textLength="%s" lengthAdjust="spacingAndGlyphs"%s>%s</text>`+"\n", pixels(x), pixels(y), pixels(textWidth(line)), attributes, xmlText(line))
}

// textWidth returns the width of a line in pixels.
func textWidth(line string) float64 { return charWidth * float64(uniseg.StringWidth(xmlRaw(line))) }

// widest returns the width of the widest line.
func widest(lines []string) (w float64) {
	for _, l := range lines {
		w = max(w, textWidth(l))
	}
	return w
}

// String returns the SVG.
func (p *picture) String() string {
	head := titleSize + 8.0
	if len(p.about) > 0 {
		head += lineHeight * float64(len(p.about))
	}
	foot := 0.0
	if len(p.legend) > 0 {
		foot = 10 + lineHeight*float64(len(p.legend))
	}
	wide := max(p.right-p.left, charWidth*titleSize/fontSize*float64(uniseg.StringWidth(p.title)), widest(p.about), widest(p.legend))
	x, y := p.left-margin, p.top-head-margin
	w, h := wide+2*margin, p.low-p.top+head+foot+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="%s %s %s %s" width="%s" height="%s" role="img" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="%d">`+"\n",
		pixels(x), pixels(y), pixels(w), pixels(h), pixels(w), pixels(h), fontSize)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n%s", xmlText(strings.Join(append([]string{p.title}, p.about...), "\n")), Style, p.defs)
	fmt.Fprintf(&b, `<rect class="ep-ground" x="%s" y="%s" width="%s" height="%s" fill="#ffffff"/>`+"\n", pixels(x), pixels(y), pixels(w), pixels(h))
	fmt.Fprintf(&b, `<text class="ep-text" x="%s" y="%s" fill="#17202a" font-size="%d" font-weight="bold">%s</text>`+"\n", pixels(p.left), pixels(y+margin+titleSize-2), titleSize, xmlText(p.title))
	for i, l := range p.about {
		b.WriteString(textElement(p.left, y+margin+titleSize+2+lineHeight*float64(i+1)-4, "start", "dim", l))
	}
	b.WriteString(p.body.String())
	for i, l := range p.legend {
		b.WriteString(textElement(p.left, p.low+10+lineHeight*float64(i+1)-3, "start", "dim", l))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// Message returns a picture that shows a message.
func Message(title, text string) string {
	p := picture{title: title}
	p.need(0, 0, textWidth(text), lineHeight)
	p.text(0, lineHeight-3, "start", "text", text)
	return p.String()
}

// xmlText escapes text for XML text and attributes. Characters that XML does not allow
// become U+FFFD, and so do those that change the direction of what follows.
func xmlText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(xmlRaw(s))) // strings.Builder does not fail
	return b.String()
}

// xmlRaw returns s without characters that move what is around them.
func xmlRaw(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r < ' ', r >= 0x7f && r <= 0x9f, r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff:
			return '\ufffd'
		}
		return r
	}, s)
}

// Shortened returns text cut to at most n characters.
func Shortened(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}

// wrapped returns a text cut into lines of at most n characters, at spaces where possible.
func wrapped(text string, n int) (lines []string) {
	for _, word := range strings.Fields(text) {
		for len([]rune(word)) > n {
			r := []rune(word)
			lines = append(lines, string(r[:n]))
			word = string(r[n:])
		}
		if k := len(lines) - 1; k >= 0 && len([]rune(lines[k]))+1+len([]rune(word)) <= n {
			lines[k] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return slices.Clip(lines)
}

// pixels formats a number of an SVG with one decimal.
func pixels(x float64) string {
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}

// Headed writes an SVG of a given size below lines of text.
func Headed(b *bytes.Buffer, lines []string, svg string, width, height float64) {
	perLine := max(40, int(width/charWidth)-4)
	var all []string
	for _, l := range lines {
		all = append(all, wrapped(l, perLine)...)
	}
	head := lineHeight*float64(len(all)) + margin
	wide := max(width, widest(all)+2*margin)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="%d">`+"\n",
		pixels(wide), pixels(height+head), pixels(wide), pixels(height+head), fontSize)
	fmt.Fprintf(b, "<title>%s</title>\n<style>%s</style>\n", xmlText(strings.Join(lines, "\n")), Style)
	fmt.Fprintf(b, `<rect class="ep-ground" width="%s" height="%s" fill="#ffffff"/>`+"\n", pixels(wide), pixels(height+head))
	for i, l := range all {
		b.WriteString(textElement(margin, margin+lineHeight*float64(i)+6, "start", "dim", l))
	}
	fmt.Fprintf(b, "<svg y=\"%s\"%s\n</svg>\n", pixels(head), strings.TrimPrefix(svg, "<svg"))
}
