package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadPath(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin string
		steps []Step
	}{
		{"CAST(arg0 AS 'struct task *')", "arg0", []Step{{Cast: "struct task *"}}},
		{"CAST(args.ctx.p[1] AS 'a::b *').list[2].next", "args.ctx.p[1]", []Step{{Cast: "a::b *"}, {Part: "list"}, {Part: "[2]"}, {Part: "next"}}},
		{`CAST(arg0 AS 'T *')."a b".c`, "arg0", []Step{{Cast: "T *"}, {Part: "a b"}, {Part: "c"}}},
		{"CAST(retval - 16 AS 'int *')[3]", "retval", []Step{{Add: -16}, {Cast: "int *"}, {Part: "[3]"}}},
		{"container_of(CAST(arg1 + 8 AS 'struct list *').next, 'struct task', 'link.at').id", "arg1",
			[]Step{{Add: 8}, {Cast: "struct list *"}, {Part: "next"}, {Cast: "struct task", Member: "link.at"}, {Part: "id"}}},
	} {
		begin, steps, ok := ReadPath(c.name)
		if !ok || begin != c.begin {
			t.Errorf("%s begins at %q, %v; want %q", c.name, begin, ok, c.begin)
		}
		if diff := cmp.Diff(c.steps, steps); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
	}
	for _, name := range []string{"", "CAST(", "CAST(arg0", "CAST(arg0 AS 'x'", "CAST(arg0 AS 'x')y", "CAST(arg0 * 2 AS 'x')", "CAST(arg0 + AS 'x')",
		"CAST(arg0 + 99999999999999999999 AS 'x')", "container_of(arg0, 'x')", "container_of(arg0, 'x', '')", "CAST(arg0 AS x)"} {
		if _, _, ok := ReadPath(name); ok {
			t.Errorf("%q is the name of a column", name)
		}
	}
}
