package explained

import (
	"strings"
	"testing"
)

func TestPlanIsATree(t *testing.T) {
	text := `project window_start, count(*)  (server, rows 18 -> 18, 50µs)
  aggregate count(*) by window_start per window  (server, merges partial rows, rows 21 -> 18, 314µs)
    acquire function_start [timestamp] target pid = 1 functions function_name ~ '(a)  (server)'  (kernel, rows 21 -> 21, 8µs)
      uprobe f(int) in x at 0x1578: entry, emulated, about 1159ns an event (estimated)
      aggregate count(*) per 500ms: dense by function  (kernel)
for 1s
ran 1.5s: 0 tuples acquired, 18 rows given
complete: nothing was lost`
	p := Read(strings.Split(text, "\n"))
	if len(p.Operators) != 3 || p.Seconds != 1.5 || len(p.Lines) != 3 {
		t.Fatalf("%+v", p)
	}
	agg, acq := p.Operators[1], p.Operators[2]
	if agg.Depth != 1 || agg.Name != "aggregate" || agg.Site != "server" || agg.Note != "merges partial rows" || agg.In != 21 || agg.Out != 18 || agg.Time != "314µs" {
		t.Errorf("%+v", agg)
	}
	if acq.Site != "kernel" || !strings.HasSuffix(acq.Detail, "'(a)  (server)'") || len(acq.Sites) != 2 {
		t.Fatalf("%+v", acq)
	}
	if s := acq.Sites[0]; s.Cost != "1159ns" || s.Text != "uprobe f(int) in x at 0x1578: entry, emulated (estimated)" {
		t.Errorf("%+v", s)
	}
}
