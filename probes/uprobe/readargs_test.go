package uprobe

import (
	"slices"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/probes/codesite"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// A query that reads one argument has its probe after instructions that change the others,
// where that is cheaper, and reads what the program passed. Two queries that have their probes
// at different instructions of a function run at the same time, in either order.
func TestProbeBehindChangesOfOtherArguments(t *testing.T) {
	testenv.NeedUprobes(t)
	const calls = 200
	target := testenv.CompileCText(t, prelude+`
asm(".text\n.globl f\n.type f, @function\nf: .cfi_startproc\n mov %rsi, %rax\n xor %edi, %edi\n mov %rdx, -64(%rsp)\n push %rbx\n.cfi_adjust_cfa_offset 8\n"
    " pop %rbx\n.cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n.size f, .-f\n");
long f(long, long, long);
int main(void) {
	ready();
	for (long i = 0; i < 200; i++) sink += f(1000 + i, 7 * i, 3 - i);
}`, "-O1", "-fcf-protection=none")
	passed := map[string]func(i int64) int64{
		"arg0": func(i int64) int64 { return 1000 + i },
		"arg1": func(i int64) int64 { return 7 * i },
		"arg2": func(i int64) int64 { return 3 - i },
	}
	queries := []struct {
		reads  []string
		method string
	}{
		{[]string{"arg1"}, codesite.Emulated},
		{[]string{"arg1", "arg2"}, codesite.Emulated},
		{[]string{"arg0"}, codesite.Stepped},
		{[]string{"arg0", "arg1"}, codesite.Stepped},
	}
	for _, backwards := range []bool{false, true} {
		r, p := run(t, target), provider(t, Options{})
		order := slices.Clone(queries)
		if backwards {
			slices.Reverse(order)
		}
		rows := make([]*record, len(order))
		for i, q := range order {
			s, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("f"), append([]string{"function_name"}, q.reads...)...))
			if sites := s.Info().Sites; len(sites) != 1 || sites[0].Method != q.method {
				t.Errorf("%v: sites %+v, want one that is %s", q.reads, sites, q.method)
			}
			rows[i] = got
		}
		r.finish(success)
		for i, q := range order {
			rows[i].wait(t)
			for _, name := range q.reads {
				got := rows[i].ints(name)
				want := make([]int64, calls)
				for k := range want {
					want[k] = passed[name](int64(k))
				}
				if !slices.Equal(got, want) {
					t.Errorf("query of %v, backwards %v: %s is %v", q.reads, backwards, name, got)
				}
			}
		}
	}
}
