package handlers

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/operators/encoders"
	"endoscope/probes/testenv"
)

// loopProfile is one of a program that waits for events, handles them and writes.
func loopProfile() *Profile {
	p := NewProfile()
	for _, s := range (samples{
		{"-epoll_wait loop main -_start", Wait, 600}, {"parse handle<int> loop main -_start", Run, 250}, {"-write handle<int> loop main -_start", Output, 50},
		{"-read config main -_start", IO, 100}, {"-futex lock main -_start", Blocked, 10},
	}) {
		frames := stack(s.stack)
		for range s.n {
			p.Add(frames, s.state)
		}
	}
	return p
}

func TestProfileText(t *testing.T) {
	p := loopProfile()
	for name, c := range map[string]struct{ got, want string }{
		"text": {p.String(), `1010 samples
100.0% main (WAIT)
 89.1%   loop (WAIT) wait=600
 29.7%     handle<int> (RUN) out=50 <- EVENT NODE_WAIT
 24.8%       parse (RUN) run=250
  9.9%   config (IO) in=100
  1.0%   lock blocked=10`},
		"folded": {p.Folded(), `_start;main;config;read 100
_start;main;lock;futex 10
_start;main;loop;epoll_wait 600
_start;main;loop;handle<int>;parse 250
_start;main;loop;handle<int>;write 50`},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	b, err := p.MarshalJSON()
	var shown struct {
		Samples  int
		Handlers []struct{ Function, Kind, Node string }
	}
	if err != nil || json.Unmarshal(b, &shown) != nil || shown.Samples != 1010 || fmt.Sprint(shown.Handlers) != "[{handle<int> EVENT NODE_WAIT}]" {
		t.Errorf("%s: %v", b, err)
	}
	text, err := p.XML()
	if err != nil || !strings.Contains(text, `METHOD="handle&lt;int&gt;" RUN="0" WAIT="0"`) || !strings.Contains(text, `<EVENT METHOD="handle&lt;int&gt;" TYPE="NODE_WAIT">`) {
		t.Errorf("%s: %v", text, err)
	}
}

// What was given does not change with what is added; profiles merge.
func TestProfileMerge(t *testing.T) {
	p := loopProfile()
	before := p.Clone()
	p.Add(stack("other main"), Run)
	if before.String() != loopProfile().String() {
		t.Errorf("a clone changed: %s", before)
	}
	all, err := before.Merge([]encoders.Encoding{loopProfile()})
	if err != nil || !strings.Contains(all.String(), "2020 samples") || !strings.Contains(all.String(), "run=500") {
		t.Errorf("%v: %v", all, err)
	}
}

// A flame graph is well-formed XML, with a frame for each function on each path.
func TestFlameGraph(t *testing.T) {
	text := loopProfile().SVG()
	d := xml.NewDecoder(strings.NewReader(text))
	frames := map[string]string{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "g" && len(e.Attr) == 3 {
			frames[e.Attr[2].Value] += e.Attr[0].Value + "+" + e.Attr[1].Value
		}
	}
	if len(frames) != 12 || frames["main"] != "0.000+1200.000" || frames["parse"] != "843.564+297.030" {
		t.Errorf("%v", frames)
	}
}

// The script in a flame graph, run on as much of a document as it needs: a click
// on a function shows what it calls in proportion and what led to it in full.
func TestFlameGraphZooms(t *testing.T) {
	node := testenv.NeedProgram(t, "node")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "flame.svg"), []byte(loopProfile().SVG()), 0o600); err != nil {
		t.Fatal(err)
	}
	const browser = `
const svg = require("fs").readFileSync(process.argv[2], "utf8"), frames = {};
function element(attributes) {
  return { attributes, getAttribute(n) { return this.attributes[n]; }, setAttribute(n, v) { this.attributes[n] = v; }, removeAttribute(n) { delete this.attributes[n]; },
    addEventListener(kind, f) { this[kind] = f; } };
}
const list = [...svg.matchAll(/<g data-x="([^"]*)" data-w="([^"]*)" data-n="([^"]*)">/g)].map(m => {
  const g = element({ "data-x": m[1], "data-w": m[2], "data-n": m[3] }), parts = { rect: element({ x: +m[1], width: +m[2] }), text: element({}) };
  g.querySelector = n => parts[n];
  return frames[m[3]] = g;
});
globalThis.document = { querySelectorAll: () => list };
eval(svg.match(/CDATA\[([^]*)\/\/\]\]/)[1]);
function show() {
  console.log(list.filter(g => g.attributes.display !== "none").map(g => g.getAttribute("data-n") + " " +
    Math.round(g.querySelector("rect").attributes.x) + "+" + Math.round(g.querySelector("rect").attributes.width) + " " + g.querySelector("text").textContent).join("\n") + "\n");
}
frames["handle&lt;int&gt;"].click();
show();
frames["all"].click();
console.log(list.filter(g => g.attributes.display !== "none").length);
`
	out, err := exec.Command(node, "-e", browser, "--", "", filepath.Join(dir, "flame.svg")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := `all 0+1200 all
_start 0+1200 _start
main 0+1200 main
loop 0+1200 loop
handle&lt;int&gt; 0+1200 handle&lt;int&gt;
parse 0+1000 parse
write 1000+200 write

12
`
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Error(diff)
	}
}
