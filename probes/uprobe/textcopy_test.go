package uprobe

import (
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/calibrate"
	"endoscope/probes/codesite"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/resolve"
)

// Two functions on separate pages, one with an instruction that is cheap to probe and
// one without.
const pages = prelude + `
__asm__(".text\n.balign 4096\n.globl cheap\n.type cheap,@function\ncheap: push %rbx\npop %rbx\nret\n.size cheap,.-cheap\n"
	".balign 4096\n.globl dear\n.type dear,@function\ndear: xor %eax,%eax\nadd %rdi,%rax\nret\n.size dear,.-dear\n.balign 4096\n");
long cheap(long), dear(long);
int main(void) { ready(); for (int i = 0; i < 3; i++) { cheap(i); dear(i); } return 0; }
`

// Code that would be copied is counted in pages, over all processes of the target, and
// refused above the session's limit before anything is attached.
func TestTextCopyIsLimited(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, pages, "-O1")
	p := provider(t, Options{})
	a, b := run(t, target), run(t, target)
	both := plan.Target{PIDs: append(a.target().PIDs, b.target().PIDs...)}
	for _, c := range []struct {
		target plan.Target
		names  []string
		need   int64
	}{
		{a.target(), []string{"cheap"}, 1 * resolve.PageSize},
		{a.target(), []string{"cheap", "dear"}, 2 * resolve.PageSize},
		{both, []string{"cheap", "dear"}, 4 * resolve.PageSize},
	} {
		spec := testplan.Acquire(catalog.FunctionStart, c.target, testplan.Named(c.names...), "timestamp")
		spec.Settings.MaxTextCopy = c.need
		src, err := p.Prepare(t.Context(), spec)
		if err != nil {
			t.Errorf("%v in %d processes, %d bytes allowed: %v", c.names, len(c.target.PIDs), c.need, err)
			continue
		}
		src.Stop()
		spec.Settings.MaxTextCopy = c.need - 1
		if src, err := p.Prepare(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "SET max_text_copy") {
			t.Errorf("%v in %d processes, %d bytes allowed: %v", c.names, len(c.target.PIDs), c.need-1, err)
			if err == nil {
				src.Stop()
			}
		}
	}
	a.finish(success)
	b.finish(success)
}

// Instructions that can only be single-stepped are expensive, and are reported by name.
func TestSteppedFunctionsAreNamed(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, pages, "-O1")
	p := provider(t, Options{Prices: calibrate.Table{calls.PriceEntry: {codesite.Emulated: 500, codesite.Nop: 300, codesite.Stepped: 4_321}}})
	r := run(t, target)
	src, err := p.Prepare(t.Context(), testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("cheap", "dear"), "arg0"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Stop()
	if ns := src.Info().Notices; len(ns) != 1 || !strings.HasPrefix(ns[0], "a call of dear costs about 3800ns more") {
		t.Errorf("notices %q", ns)
	}
	r.finish(success)
}
