package web

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPicturesHaveNeitherScriptsNorStyles(t *testing.T) {
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" onload="alert(1)"><script>alert(2)</script>
<style>text{fill:#123;background:url(http://evil)} .k{stroke:red}</style>
<defs><marker id="a"/></defs>
<a href="javascript:alert(3)"><text x="1" style="font-weight:bold;fill:url(http://evil)" onclick="alert(4)">&lt;script&gt;alert(5)&lt;/script&gt;</text></a>
<path class="k" d="M0 0" marker-end="url(#a)"/><image href="http://evil"/><foreignObject><body/></foreignObject></svg>`
	root, err := elementsOf(svg, "p1-")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"n":"svg","a":{"viewBox":"0 0 9 9"},"c":[{"n":"defs","c":[{"n":"marker","a":{"id":"p1-a"}}]},` +
		`{"n":"g","c":[{"n":"text","a":{"fill":"#123","font-weight":"bold","x":"1"},"c":["\u003cscript\u003ealert(5)\u003c/script\u003e"]}]},` +
		`{"n":"path","a":{"d":"M0 0","marker-end":"url(#p1-a)","stroke":"red"}}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPicturesThatAreNone(t *testing.T) {
	for _, svg := range []string{"", "<svg", "<html><svg/></html>", "<svg>" + strings.Repeat("<g/>", mostElements+1) + "</svg>"} {
		if _, err := elementsOf(svg, ""); err == nil {
			t.Errorf("%.20s: no error", svg)
		}
	}
}

func TestOldPicturesAreForgotten(t *testing.T) {
	var p pictures
	first := p.add(func() string { return "first" })
	for range keptPictures - 1 {
		p.add(func() string { return "another" })
	}
	if draw := p.get(first); draw == nil || draw() != "first" {
		t.Error("the first picture is not kept")
	}
	p.add(func() string { return "one more" })
	if p.get(first) != nil || p.get(0) != nil || p.get(p.next+1) != nil {
		t.Error("a picture that is not kept")
	}
}
