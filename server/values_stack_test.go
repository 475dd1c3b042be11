package server_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"endoscope/probes/testenv"
)

// Objects whose pointers or parts are passed on the stack move the arguments after them.
func TestArgumentsAfterObjectsOnTheStack(t *testing.T) {
	testenv.NeedUprobes(t)
	const cpp = `#include <cstdio>
#include <string>
__attribute__((noinline, noipa)) long after(long a, long b, long c, long d, long e, long f, std::string s, int q) { return a + q; }
int main() { puts("ready"); fflush(stdout); getchar(); after(1, 2, 3, 4, 5, 6, "text", 8); }
`
	const rust = `use std::hint::black_box;
#[inline(never)]
pub fn after(a: u64, b: u64, c: u64, d: u64, e: u64, s: &str, q: u64) -> u64 { black_box((a, b, c, d, e, s)); q }
fn main() { println!("ready"); std::io::stdin().read_line(&mut String::new()).unwrap(); black_box(after(1, 2, 3, 4, 5, black_box("text"), 8)); }
`
	for _, flags := range []string{"-O0", "-O2"} {
		valuesOfProgram(t, testenv.CompileText(t, ".cc", cpp, "-g", flags), []rowsOf{
			{query: "SELECT args.f, args.q FROM function_start WHERE function_name = 'after' LIMIT 1", rows: [][]string{{"6", "8"}}},
		})
	}
	testenv.NeedProgram(t, "rustc")
	source := filepath.Join(t.TempDir(), "after.rs")
	write(t, source, rust)
	program := filepath.Join(t.TempDir(), "after")
	if out, err := exec.Command("rustc", "-g", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	valuesOfProgram(t, program, []rowsOf{
		// q is on the stack, after the length of s: it is not known where.
		{query: "SELECT args FROM function_start WHERE function_name LIKE '%after' LIMIT 1", rows: [][]string{{`{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "s": null, "q": null}`}}},
	})
}
