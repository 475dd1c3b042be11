package codesite

import (
	"testing"

	"endoscope/probes/testenv"
)

// A result is known to be returned if a caller reads it, or the function is
// called by its address.
func TestResultRead(t *testing.T) {
	const text = `
#define APART __attribute__((noipa))
static volatile int sink;
static APART int read(int n) { sink = n; return n + 1; }
static APART int ignored(int n) { sink = n; return n + 2; }
static APART int passed(int n) { sink = n; return n + 3; }
static APART int passes(int n) { sink = n; return passed(n); }
static APART int passes_on(int n) { sink = n; return passes(n); }
static APART int given(const void *a, const void *b) { sink++; return a > b; }
static APART int search(long a, long b, long c, long d, int (*f)(const void *, const void *)) { sink = a + b + c + d; return f(&a, &b); }
static APART int taken(int n) { sink = n; return n + 4; }
static APART int listed(int n) { sink = n; return n + 5; }
static int (*const volatile list[])(int) = {listed, listed};
int main(int argc, char **argv) {
	int (*volatile back)(int) = taken;
	sink += read(argc);
	ignored(argc);
	if (search(1, 2, 3, 4, given)) sink++;
	if (passes_on(argc) > 3) sink++;
	back(1);
	return list[argc & 1](2) & 0;
}`
	for _, flags := range [][]string{{"-O1", "-fno-optimize-sibling-calls"}, {"-O2"}, {"-O2", "-no-pie", "-fno-pie"}} {
		m := moduleAt(t, testenv.CompileText(t, ".c", text, flags...))
		for name, want := range map[string]bool{"read": true, "ignored": false, "passed": true, "passes": true, "taken": true, "given": true, "listed": true} {
			if got := In(m).ResultRead(indexOf(t, m, name), 0); got != want {
				t.Errorf("%s: %s: %v, want %v", flags, name, got, want)
			}
		}
	}
}
