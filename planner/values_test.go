package planner

import (
	"slices"
	"testing"

	"endoscope/parser"
	"endoscope/planner/plan"
)

// The name of the column that a read of memory is leads back to its steps.
func TestNamesOfReads(t *testing.T) {
	for src, want := range map[string]string{
		"SELECT cast ( f.ARG0+16 as 'struct task *' ) . name FROM x": "CAST(arg0 + 16 AS 'struct task *').name",
		"CAST(CAST(a.args.p AS 'int **')[2] AS 'T *').x[1].y > 5":    "CAST(CAST(args.p AS 'int **')[2] AS 'T *').x[1].y",
		"Container_Of(retval.next - 0x10, 's', 'm').\"end\"":         "container_of(retval.next - 16, 's', 'm').end",
	} {
		found := parser.Reads(src)
		if len(found) != 1 {
			t.Errorf("%s has %d reads", src, len(found))
			continue
		}
		v, ok := readOf(found[0])
		if !ok || v.name != want {
			t.Errorf("%s is %q, want %q", src, v.name, want)
		}
		if _, _, ok := plan.ReadPath(v.name); !ok {
			t.Errorf("%s does not lead back", v.name)
		}
	}
	if found := parser.Reads("SELECT CAST(x AS BIGINT), 'CAST(arg0 AS ''t *'')' -- CAST(arg0 AS 't *')"); len(found) > 0 {
		t.Errorf("%v is found", found[0])
	}
}

// Comments do not separate the parts of a value.
func TestNamedValuesWithComments(t *testing.T) {
	for src, want := range map[string]string{
		"SELECT hex(arg1, /* bytes */ 4)":      "hex(arg1, 4)",
		"SELECT str(args.name -- the key\n)":   "str(args.name)",
		"SELECT args /* of the call */ . name": "args.name",
	} {
		var names []string
		for _, v := range namedValues(src) {
			names = append(names, v.name)
		}
		if !slices.Contains(names, want) {
			t.Errorf("%s names %q, not %s", src, names, want)
		}
	}
}
