package web

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Limits of pictures.
const (
	keptPictures = 64 // of a result
	mostElements = 60_000
)

// pictures are the last drawings of a result, which are drawn when the page asks for them.
type pictures struct {
	next int
	kept [keptPictures]func() string
}

// add keeps a drawing and returns its number, from 1.
func (p *pictures) add(draw func() string) int {
	p.next++
	p.kept[p.next%keptPictures] = draw
	return p.next
}

func (p *pictures) get(n int) func() string {
	if n < 1 || n > p.next || n <= p.next-keptPictures {
		return nil
	}
	return p.kept[n%keptPictures]
}

// picture answers with a drawing of a result as a tree of elements.
func (p *page) picture(_ context.Context, in ask) (any, error) {
	r, err := p.result(in.Query)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	draw := r.pictures.get(in.Picture)
	r.mu.Unlock()
	if draw == nil {
		return nil, failed(http.StatusGone, "the picture is not kept any more: newer ones have taken its place")
	}
	root, err := elementsOf(draw(), fmt.Sprintf("p%d-%d-", in.Query, in.Picture))
	if err != nil {
		return nil, failed(http.StatusUnprocessableEntity, err.Error())
	}
	return root, nil
}

// element is an element of a picture: its name, attributes and children, which are
// elements and texts.
type element struct {
	Name     string            `json:"n"`
	Attrs    map[string]string `json:"a,omitempty"`
	Children []any             `json:"c,omitempty"`
}

// permitted are the elements and attributes of SVG that the page gets. There are no
// scripts, no events, no links and no styles among them.
var (
	permittedElements = []string{"svg", "g", "rect", "circle", "ellipse", "line", "path", "polyline", "polygon", "text", "tspan", "title", "desc",
		"defs", "marker", "linearGradient", "stop", "clipPath"}
	permittedAttrs = []string{"x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "ry", "dx", "dy", "d", "width", "height", "points", "viewBox",
		"preserveAspectRatio", "transform", "fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
		"stroke-linejoin", "opacity", "text-anchor", "dominant-baseline", "font-family", "font-size", "font-weight", "font-style", "text-decoration",
		"paint-order", "marker-end", "marker-start", "clip-path", "refX", "refY", "markerWidth", "markerHeight", "markerUnits", "orient", "offset",
		"stop-color", "stop-opacity", "shape-rendering", "text-rendering", "textLength", "lengthAdjust", "visibility", "vector-effect"}
	dropped   = []string{"script", "style", "foreignObject", "metadata", "image", "use", "iframe", "animate", "set"}
	reference = regexp.MustCompile(`^url\(#([A-Za-z0-9_.-]+)\)$`)
	cssRule   = regexp.MustCompile(`([^{}@]+)\{([^{}]*)\}`)
)

// elementsOf reads an SVG. Styles become presentation attributes, ids get a prefix, and what
// is not permitted is left out.
func elementsOf(svg, prefix string) (root *element, err error) {
	in := xml.NewDecoder(strings.NewReader(svg))
	rules := map[string][][2]string{}
	var path []*element
	count := 0
	for {
		token, err := in.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the picture is not valid XML: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			name := t.Name.Local
			if slices.Contains(dropped, name) || len(path) == 0 && name != "svg" {
				var text struct {
					Text string `xml:",chardata"`
				}
				if err := in.DecodeElement(&text, &t); err != nil {
					return nil, fmt.Errorf("the picture is not valid XML: %w", err)
				}
				if name == "style" {
					addRules(rules, text.Text)
				}
				continue
			}
			if count++; count > mostElements {
				return nil, fmt.Errorf("the picture has more than %d elements", mostElements)
			}
			if !slices.Contains(permittedElements, name) { // an <a>: its content counts
				name = "g"
			}
			e := &element{Name: name, Attrs: attributes(t, rules, prefix)}
			if len(path) > 0 {
				above := path[len(path)-1]
				above.Children = append(above.Children, e)
			} else if root == nil {
				root = e
			}
			path = append(path, e)
		case xml.EndElement:
			if len(path) > 0 {
				path = path[:len(path)-1]
			}
		case xml.CharData:
			if n := len(path); n > 0 && slices.Contains([]string{"text", "tspan", "title", "desc"}, path[n-1].Name) {
				path[n-1].Children = append(path[n-1].Children, string(t))
			}
		}
	}
	if root == nil {
		return nil, fmt.Errorf("the picture is empty")
	}
	return root, nil
}

// addRules adds the rules of a style sheet whose selectors are an element or a class.
func addRules(rules map[string][][2]string, sheet string) {
	for _, m := range cssRule.FindAllStringSubmatch(sheet, -1) {
		for s := range strings.SplitSeq(m[1], ",") {
			s = strings.TrimSpace(s)
			rules[s] = append(rules[s], declarations(m[2])...)
		}
	}
}

func declarations(style string) (out [][2]string) {
	for d := range strings.SplitSeq(style, ";") {
		if k, v, ok := strings.Cut(d, ":"); ok {
			out = append(out, [2]string{strings.TrimSpace(k), strings.TrimSpace(v)})
		}
	}
	return out
}

func attributes(t xml.StartElement, rules map[string][][2]string, prefix string) map[string]string {
	out := map[string]string{}
	set := func(k, v string) {
		if !slices.Contains(permittedAttrs, k) {
			return
		}
		if strings.Contains(v, "url(") {
			m := reference.FindStringSubmatch(v)
			if m == nil {
				return
			}
			v = "url(#" + prefix + m[1] + ")"
		}
		out[k] = v
	}
	for _, d := range rules[t.Name.Local] {
		set(d[0], d[1])
	}
	// Presentation attributes are weaker than any rule, and style is stronger.
	var class, style string
	for _, a := range t.Attr {
		switch a.Name.Local {
		case "class":
			class = a.Value
		case "style":
			style = a.Value
		case "id":
			out["id"] = prefix + a.Value
		default:
			if _, ruled := out[a.Name.Local]; !ruled && a.Name.Space == "" {
				set(a.Name.Local, a.Value)
			}
		}
	}
	for c := range strings.FieldsSeq(class) {
		for _, d := range rules["."+c] {
			set(d[0], d[1])
		}
	}
	for _, d := range declarations(style) {
		set(d[0], d[1])
	}
	return out
}
