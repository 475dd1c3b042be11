package handlers

import (
	"cmp"
	"encoding/xml"
	"io"
	"slices"
	"strings"
)

// The paper's formats: figure 1 is a trie, figure 3 the handlers. Here a function name is
// split at its last '@' into class and method.

type xmlReactions struct {
	XMLName   xml.Name      `xml:"REACTIONS"`
	Samples   uint64        `xml:"SAMPLES,attr"`
	Total     uint64        `xml:"TSAMPLES,attr"`
	Callbacks []xmlCallback `xml:"CALLBACK"`
	Roots     []xmlNode     `xml:"TRIE>TRIENODE"`
}

type xmlCallback struct {
	Stack uint64 `xml:"STACK,attr"`
	User  string `xml:"USER,attr"`
}

type xmlNode struct {
	Class    string    `xml:"CLASS,attr"`
	IO       uint64    `xml:"IO,attr"`
	Method   string    `xml:"METHOD,attr"`
	Run      uint64    `xml:"RUN,attr"`
	Wait     uint64    `xml:"WAIT,attr"`
	Children []xmlNode `xml:"TRIENODE"`
}

// WriteXML writes the trie in the format of figure 1.
func (t *Trie) WriteXML(w io.Writer) error {
	x := xmlReactions{Samples: t.Samples, Total: t.Samples}
	for name, n := range t.callbacks {
		x.Callbacks = append(x.Callbacks, xmlCallback{n, name.Function})
	}
	sortCallbacks(x.Callbacks)
	for _, n := range t.Roots() {
		x.Roots = append(x.Roots, writeNode(n))
	}
	return writeXML(w, x)
}

func writeNode(n *Node) xmlNode {
	x := xmlNode{IO: n.Own[IO] + n.Own[Output], Run: n.Own[Run], Wait: n.Own[Wait], Method: n.Name.Function}
	if at := strings.LastIndexByte(x.Method, '@'); at >= 0 {
		x.Class, x.Method = x.Method[:at], x.Method[at+1:]
	}
	for _, c := range n.Children() {
		x.Children = append(x.Children, writeNode(c))
	}
	return x
}

type xmlReaction struct {
	XMLName  xml.Name `xml:"REACTION"`
	Handlers []xmlHandler
}

type xmlHandler struct {
	XMLName xml.Name
	Method  string `xml:"METHOD,attr"`
	Type    string `xml:"TYPE,attr,omitempty"`
}

// WriteHandlers writes handlers in the format of figure 3.
func WriteHandlers(w io.Writer, hs []Handler) error {
	x := xmlReaction{}
	for _, h := range hs {
		x.Handlers = append(x.Handlers, xmlHandler{XMLName: xml.Name{Local: h.Kind.String()}, Method: h.Function, Type: h.Node})
	}
	return writeXML(w, x)
}

func writeXML(w io.Writer, v any) error {
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func sortCallbacks(cs []xmlCallback) {
	slices.SortFunc(cs, func(a, b xmlCallback) int { return cmp.Compare(a.User, b.User) })
}
