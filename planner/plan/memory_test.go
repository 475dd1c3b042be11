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
		{"CAST(args.v[args.i.n] AS 'int *')[args.j].a[arg7][2]", "args.v[args.i.n]", []Step{{Cast: "int *"}, {Part: "[args.j]"}, {Part: "a"}, {Part: "[arg7]"}, {Part: "[2]"}}},
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
		"CAST(arg0 AS 'x')[args.i", "CAST(arg0 + 99999999999999999999 AS 'x')", "container_of(arg0, 'x')", "container_of(arg0, 'x', '')", "CAST(arg0 AS x)"} {
		if _, _, ok := ReadPath(name); ok {
			t.Errorf("%q is the name of a column", name)
		}
	}
}

func TestSplitPath(t *testing.T) {
	for name, want := range map[string][]string{
		"args": {"args"}, "args.a.b": {"args", "a", "b"}, "args.v[args.i.n][2].b": {"args", "v[args.i.n][2]", "b"}, "retval[retval.n]": {"retval[retval.n]"},
	} {
		if diff := cmp.Diff(want, SplitPath(name)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	for name, want := range map[string]int{"arg0": 0, "arg5": 5, "arg15": 15, "arg16": -1, "arg": -1, "arg01": -1, "arg-1": -1, "args": -1, "argument": -1} {
		n, ok := RawArgument(name)
		if ok != (want >= 0) || ok && n != want || IsStackArgument(name) != (want > 5) {
			t.Errorf("%s: argument %d, %v", name, n, ok)
		}
	}
}
