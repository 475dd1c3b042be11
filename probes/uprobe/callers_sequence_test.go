package uprobe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
)

// followed returns the stacks of a sequence's thread as derived from its events, without
// calls that are not observed: the call of each event and those around it.
func followed(t *testing.T, rows [][]types.Value, event, function int) (stacks []string) {
	t.Helper()
	var under []string
	for i, row := range rows {
		switch name := row[function].S; row[event].S {
		case decode.EventEnter:
			under = append(under, name)
			stacks = append(stacks, strings.Join(reversed(under), " "))
		case decode.EventLeave, decode.EventUnwind:
			if len(under) == 0 || under[len(under)-1] != name {
				t.Fatalf("event %d: %s of %s in %v", i, row[event].S, name, under)
			}
			stacks = append(stacks, strings.Join(reversed(under), " "))
			under = under[:len(under)-1]
		default:
			t.Fatalf("event %d is a %s", i, row[event].S)
		}
	}
	return stacks
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// The stack of each event of a sequence agrees with the events before it, and its caller
// is the next function on it, also for an abandoned call.
func TestStacksOfSequences(t *testing.T) {
	testenv.NeedUprobes(t)
	const program = prelude + `
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE long fib(long n) { if (n < 2) return leaf(n); long r = fib(n-1); r += fib(n-2); sink = r; return r; }
static jmp_buf env;
NOINLINE long leap(long n) { long r; if (n == 0) longjmp(env, 1); r = leap(n-1) + 1; sink = r; return r; }
NOINLINE long catch_(long n) { if (!setjmp(env)) leap(n); long r = leaf(n); sink = r; return r; }
NOINLINE long all(long n) { long r = fib(5) + catch_(n); sink += r; return r; }
int main(void) { ready(); for (long i = 0; i < 10; i++) all(i); leaf(0); return 0; }`
	functions := []string{"leaf", "fib", "leap", "catch_", "all"}
	target := testenv.CompileCText(t, program, "-O1", "-fno-optimize-sibling-calls")
	multiModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named(functions...), "timestamp", "event", "function_name", "depth", "caller", "stack"))
		r.finish(success)
		if got.wait(t); len(got.lost) > 0 || len(got.counts) > 0 {
			t.Fatalf("lost %v, counted %v", got.lost, got.counts)
		}
		const event, function, caller, stack = 1, 2, 4, 5
		seen := map[string]int{}
		for i, want := range followed(t, got.rows, event, function) {
			row := got.rows[i]
			what := row[event].S
			seen[what]++
			callers := append(strings.Fields(want)[1:], "main")
			if row[caller].S != callers[0] {
				t.Fatalf("event %d: %s of %s is called by %q, want %s", i, what, row[function].S, row[caller].S, callers[0])
			}
			if what == decode.EventUnwind {
				if !row[stack].IsNull {
					t.Fatalf("event %d: a call that was abandoned has the stack %v", i, frames(row[stack]))
				}
				continue
			}
			names := frames(row[stack])
			if at := slices.Index(names, "main"); at < 0 || strings.Join(names[:at], " ") != want {
				t.Fatalf("event %d: the stack at the %s of %s is %s\nwant %s main", i, what, row[function].S, strings.Join(names, " "), want)
			}
		}
		// 15 calls of fib and 8 of leaf in them, and leaf, catch_ and all, each ten times; leaf once more; leap(i).
		if want := (map[string]int{decode.EventEnter: 261 + 55, decode.EventLeave: 261, decode.EventUnwind: 55}); fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", seen, want)
		}
	})
}

// A text and a stack, of the same call.
func TestStacksWithTexts(t *testing.T) {
	testenv.NeedUprobes(t)
	const program = prelude + `
NOINLINE long say(const char *text, long n) { sink += *text + n; return n; }
NOINLINE long odd(const char *text, long n) { long r = say(text, n); sink += r; return r; }
NOINLINE long even(const char *text, long n) { volatile char room[100]; room[n] = 1; return odd(text, n) + room[n]; }
int main(void) {
	char text[300];
	ready();
	for (long i = 0; i < 60; i++) {
		for (long k = 0; k < i; k++) text[k] = 'a' + k % 26;
		text[i] = 0;
		sink += i % 2 ? odd(text, i) : even(text, i);
	}
	return 0;
}`
	target := testenv.CompileCText(t, program, "-O1", "-fno-optimize-sibling-calls")
	for _, stream := range []string{catalog.FunctionStart, catalog.FunctionDuration} {
		for _, more := range [][]string{nil, {"process", "caller", "depth"}} {
			t.Run(fmt.Sprint(stream, len(more)), func(t *testing.T) {
				multiModes(t, func(t *testing.T, o Options) {
					p := provider(t, o)
					r := run(t, target)
					out := append([]string{"arg1", "stack"}, more...)
					spec := testplan.Acquire(stream, r.target(), testplan.Named("say"), out...)
					spec.Out.Fields = append(spec.Out.Fields, types.Field{Name: "str(arg0)", Type: types.Varchar})
					_, got := start(t, p, spec)
					r.finish(success)
					if got.wait(t); len(got.rows) != 60 || len(got.lost) > 0 || len(got.counts) > 0 {
						t.Fatalf("%d rows, lost %v, counted %v", len(got.rows), got.lost, got.counts)
					}
					text := slices.Index(got.names, "str(arg0)")
					for i, row := range got.rows {
						want := "say odd main"
						if i%2 == 0 {
							want = "say odd even main"
						}
						if stack := strings.Join(frames(row[1]), " "); !strings.HasPrefix(stack, want) || row[0].I != int64(i) {
							t.Fatalf("say(%d): %s\nwant %s", row[0].I, stack, want)
						}
						if want := strings.Repeat("abcdefghijklmnopqrstuvwxyz", 3)[:i]; row[text].S != want {
							t.Fatalf("say(%d) of %q, want %q", i, row[text].S, want)
						}
					}
				})
			})
		}
	}
}
