package explain

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

const analyzed = `aggregate count(*) by window_start per window  (server, merges partial rows, rows 21 -> 18, 314µs)
  join within 1ms on a.tid = b.tid  (server, rows 42 -> 21, 90µs)
    acquire function_start [timestamp] functions function_name ~ '<b>&  (server)'  (kernel, rows 21 -> 21, 8µs)
      uprobe f(int) in x at 0x1578: entry, emulated, about 1159ns an event (estimated)
    acquire function_duration [timestamp]  (kernel, rows 21 -> 21, 8µs)
      a
      b
      c
      d
      e
ran 1.5s: 42 tuples acquired, 18 rows given`

// The picture has each operator with its site and what was measured, the acquisitions above the
// operators that read them, and names of the program as text.
func TestPictureHasThePlan(t *testing.T) {
	svg, ok := Picture(strings.Split(analyzed, "\n"))
	if !ok {
		t.Fatal("nothing was drawn")
	}
	var texts []string
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if c, is := token.(xml.CharData); is {
			texts = append(texts, strings.TrimSpace(string(c)))
		}
	}
	for _, want := range []string{"AGGREGATE", "JOIN", "server, merges partial rows", "21 rows in, 18 out, 314µs", "14/s", "and 1 more", "kernel", "plan, and what was measured in 1.5 s"} {
		if !slices.Contains(texts, want) {
			t.Errorf("%q is missing in %q", want, texts)
		}
	}
	if all := strings.Join(texts, "\n"); !strings.Contains(all, "'<b>&") || !strings.Contains(all, "1159ns an event") {
		t.Errorf("%q", texts)
	}
	at := func(text string) (y float64) {
		m := regexp.MustCompile(`y="([0-9.]+)"[^>]*>` + text + `<`).FindStringSubmatch(svg)
		if m == nil {
			t.Fatalf("%s has no place in\n%s", text, svg)
		}
		y, _ = strconv.ParseFloat(m[1], 64)
		return y
	}
	if acquire, join, aggregate := at("ACQUIRE"), at("JOIN"), at("AGGREGATE"); acquire >= join || join >= aggregate {
		t.Errorf("acquire at %v, join at %v, aggregate at %v", acquire, join, aggregate)
	}
}

func TestWhatIsNoPlan(t *testing.T) {
	if _, ok := Picture([]string{"export x to PROMETHEUS, every 1s"}); ok {
		t.Error("a line without an operator was drawn")
	}
	if !Is([]wire.Column{{Name: "plan", Type: types.Varchar}}) || Is([]wire.Column{{Name: "plan", Type: types.Bigint}}) || Is([]wire.Column{{Name: "a", Type: types.Varchar}}) {
		t.Error("columns of another result were taken for those of EXPLAIN")
	}
}
