package codesite

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// The kernel must count each return once, find the return address where a site
// says, and the value where RetvalReady is set.
func TestExitSiteRules(t *testing.T) {
	// The body ends in the template's `lea 1(%rdi), %eax; ret`.
	const framed = ".cfi_startproc; push %rbx; .cfi_adjust_cfa_offset 8; "
	const closed = "pop %rbx; .cfi_adjust_cfa_offset -8; "
	for _, test := range []struct {
		name, body, where, extra string
		want                     string // instructions
		refused                  string
		notReady                 bool
	}{
		{name: "one return", body: "nop", want: "ret"},
		{name: "an early return", body: "test %esi, %esi; je 1f; mov $42, %eax; ret; 1:", want: "ret ret"},
		{name: "emulated on the way", body: "mov $42, %eax; test %edi, %edi; nop; mov %edi, %ecx; ret; ", want: "nop ret"},
		{name: "emulated, stack pointer elsewhere", body: "push %rbx; call 2f; mov $42, %eax; jmp 1f; 1: pop %rbx; ret; .section .text.other,\"ax\",@progbits; .type other, @function; other: 2: ret; .text", want: "jmp ret"},
		{name: "value written behind it", body: "xor %eax, %eax; nop; mov $42, %eax; ret", want: "ret ret"},
		{name: "value written behind it, not needed", body: "xor %eax, %eax; nop; mov $42, %eax; ret", want: "nop ret", notReady: true},
		{name: "two ways to one return", body: "test %esi, %esi; mov $42, %eax; je 1f; mov $42, %eax; 1: ret", want: "ret ret"},
		{name: "tail call", body: "jmp 1f; 1: test %esi, %esi; je 1f; mov $42, %eax; jmp extra; 1:", want: "jmp ret"},
		{name: "tail call with a frame that is not known", body: "push %rbx; pop %rbx; jmp extra", refused: "stack frame there is not known"},
		{name: "tail call with a frame that is known", body: framed + closed + "mov $42, %eax; jmp extra; .cfi_endproc", want: "jmp ret"},
		{name: "tail call to itself", body: framed + closed + "mov $42, %eax; dec %esi; js 1f; jmp probed; 1: ret; .cfi_endproc", want: "jmp ret ret"},
		{name: "computed tail call", body: "mov $42, %eax; jmp *8f(%rip); .section .data.rel.ro; 8: .quad extra; .text", want: "jmp ret"},
		{name: "jump table", body: "mov %esi, %eax; lea 5f(%rip), %rcx; movslq (%rcx,%rax,4), %rax; add %rcx, %rax; jmp *%rax; .section .rodata; .balign 4; 5: .long 6f-5b, 6f-5b, 7f-5b, 0; .text; 6: ud2; 7: mov $42, %eax; ret;", want: "ret ret"},
		{name: "table of functions", body: "mov $42, %eax; mov $0, %ecx; jmp *5f(,%rcx,8); .section .rodata; .balign 8; 5: .quad extra, extra; .text", refused: "computed addresses"},
		{name: "conditional tail call", body: "mov $42, %eax; test %edi, %edi; jne extra", refused: "conditional jump"},
		{name: "entered from elsewhere", body: "mov $7, %eax; 9: nop", extra: "mov $41, %edi; jmp 9b", refused: "entered from elsewhere"},
		{name: "calls itself inside", body: "call 1f; 1: pop %rax", refused: "calls a part of itself"},
		{name: "loop at the entry", body: "sub $1, %esi; jns probed", refused: "begins with a loop"},
		{name: "prefix", body: "test %esi, %esi; je 1f; mov $42, %eax; .byte 0x2e; ret; 1:", refused: "segment prefix"},
		{name: "undecodable", body: "jmp 1f; .byte 6; 1:", refused: "cannot be decoded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			testenv.NeedUprobes(t)
			path := testenv.CompileText(t, ".S", fmt.Sprintf(twoCallers, asmLines(test.body), test.where, asmLines(test.extra)), "-no-pie")
			m := moduleAt(t, path)
			need := Need{Value: !test.notReady}
			sites, err := In(m).ExitSitesFor(indexOf(t, m, "probed"), need)
			if err != nil || test.refused != "" {
				if err == nil || test.refused == "" || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("%v, refused: it %v; want %q", sites, err, test.refused)
				}
				return
			}
			var insns []string
			ready := true
			for _, s := range sites {
				op, _, _ := strings.Cut(s.Insn(), " ")
				insns = append(insns, op)
				ready = ready && (s.RetvalReady || op == "jmp")
			}
			if got := strings.Join(insns, " "); got != test.want {
				t.Errorf("sites %s, want %s", got, test.want)
			}
			seen := observe(t, path, addressOf(t, path, "back"), sites...)
			returns := uint64(100)
			if test.name == "tail call to itself" {
				returns = 300 // esi is 2: each call calls itself twice
			}
			if seen.hits != returns || seen.returnAddress != returns || need.Value && seen.value != returns {
				t.Errorf("of %d returns at %s: %+v", returns, insns, seen)
			}
		})
	}
}

// exitHits runs a program with uprobes at all exit sites of a function.
func exitHits(t *testing.T, path, function string, need Need) (hits uint64, sites []Site) {
	t.Helper()
	m := moduleAt(t, path)
	sites, err := In(m).ExitSitesFor(indexOf(t, m, function), need)
	if err != nil {
		t.Fatalf("%s %v", function, err)
	}
	return observe(t, path, 0, sites...).hits, sites
}

func TestExitSitesOfPrograms(t *testing.T) {
	testenv.NeedUprobes(t)
	rust := func(t *testing.T) string {
		rustc, err := exec.LookPath("rustc")
		if err != nil {
			rustc = os.ExpandEnv("$HOME/.cargo/bin/rustc")
		}
		if _, err := os.Stat(rustc); err != nil {
			testenv.Skip(t, "needs rustc")
		}
		dir := t.TempDir()
		src, out := filepath.Join(dir, "target.rs"), filepath.Join(dir, "target")
		if err := os.WriteFile(src, []byte(rustExits), 0o644); err != nil {
			t.Fatal(err)
		}
		if text, err := exec.Command(rustc, "-Copt-level=2", "-o", out, src).CombinedOutput(); err != nil {
			testenv.Skip(t, "rustc: %v\n%s", err, text)
		}
		return out
	}
	for _, test := range []struct {
		name     string
		build    func(t *testing.T) string
		function string
		want     uint64
		emulated bool
	}{
		{"C", func(t *testing.T) string { return testenv.CompileText(t, ".c", cExits, "-O2") }, "probed", 1000, false},
		{"C, not optimised", func(t *testing.T) string { return testenv.CompileText(t, ".c", cExits, "-O0") }, "probed", 1000, false},
		{"C, stack protector", func(t *testing.T) string { return testenv.CompileText(t, ".c", cExits, "-O2", "-fstack-protector-all") }, "guarded", 1000, true},
		{"C, stack protector, static", func(t *testing.T) string {
			return testenv.CompileText(t, ".c", cExits, "-O2", "-fstack-protector-all", "-static")
		}, "guarded", 1000, true},
		{"C, switch", func(t *testing.T) string { return testenv.CompileText(t, ".c", cExits, "-O2") }, "choose", 1000, false},
		{"C, noreturn", func(t *testing.T) string { return testenv.CompileText(t, ".c", cExits, "-O2") }, "leave", 0, false},
		{"C++", func(t *testing.T) string { return testenv.CompileText(t, ".cc", cppExits, "-O2") }, "probed", 750, false},
		{"C++, catching", func(t *testing.T) string { return testenv.CompileText(t, ".cc", cppExits, "-O2") }, "caught", 1000, false},
		{"Go", func(t *testing.T) string { return testenv.CompileGoText(t, goExits) }, "main.probed", 1000, false},
		{"Go, recovering", func(t *testing.T) string { return testenv.CompileGoText(t, goExits) }, "main.recovers", 1000, false},
		{"Go, growing stacks", func(t *testing.T) string { return testenv.CompileGoText(t, goProgram) }, "main.deep", 200*101 + 1, false},
		{"Rust", rust, "target::probed", 750, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			hits, sites := exitHits(t, test.build(t), test.function, Need{Value: true})
			var insns []string
			emulated := len(sites) > 0
			for _, s := range sites {
				insns = append(insns, s.Insn())
				emulated = emulated && s.Method == Emulated
			}
			if hits != test.want {
				t.Errorf("%d hits of %d returns at %q", hits, test.want, insns)
			}
			if test.emulated && !emulated {
				t.Errorf("sites %q are not all emulated", insns)
			}
		})
	}
}

const cExits = `
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	__attribute__((noinline)) int other(int x) { volatile int y = x; return y + 1; }
	__attribute__((noinline)) int probed(int x) {
		if (x % 3 == 0) return other(x);      // a tail call
		if (x % 3 == 1) { printf(""); return x; }
		return other(x) + 1;
	}
	__attribute__((noinline)) int guarded(int x) { char b[16]; memset(b, x, 16); return other(b[x & 15]); }
	__attribute__((noinline)) int choose(int x) {
		switch (x % 8) {
		case 0: return other(1); case 1: return other(2) + x; case 2: return x * 7; case 3: puts(""); return 3;
		case 4: return other(x) * 3; case 5: return other(x) ^ 5; case 6: return other(9); default: return x;
		}
	}
	__attribute__((noinline, noreturn)) void leave(int x) { printf("%d", x); exit(0); }
	int main(void) {
		getchar();
		int s = 0;
		for (int i = 0; i < 1000; i++) s += probed(i) + guarded(i) + choose(i);
		leave(s);
	}`

const cppExits = `
	#include <cstdio>
	#include <string>
	#include <stdexcept>
	__attribute__((noinline)) int probed(int x) {
		std::string held(x % 50, 'a');
		if (x % 4 == 0) throw std::runtime_error(held);
		return printf("%s", held.c_str());
	}
	__attribute__((noinline)) int caught(int x) {
		try { return probed(x); } catch (std::exception &) { return -1; }
	}
	int main() { getchar(); int s = 0; for (int i = 0; i < 1000; i++) s += caught(i); return s == 0; }`

const goExits = `package main

import "os"

//go:noinline
func probed(n int) int {
	if n%2 == 0 {
		return n
	}
	return probed2(n) + 1
}

//go:noinline
func probed2(n int) int { return n }

//go:noinline
func recovers(n int) (r int) {
	defer func() { recover() }()
	if n%2 == 0 {
		panic(n)
	}
	return n
}

func main() {
	os.Stdin.Read(make([]byte, 1))
	s := 0
	for i := range 1000 {
		s += probed(i) + recovers(i)
	}
	if s == 0 {
		os.Exit(3)
	}
}
`

const rustExits = `
use std::io::Read;
#[inline(never)]
fn probed(x: u32) -> u32 {
    let held = vec![x; (x % 50 + 1) as usize];
    if x % 4 == 0 { panic!(); }
    held.iter().sum()
}
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut b = [0u8; 1];
    let _ = std::io::stdin().read(&mut b);
    let mut s = 0u32;
    for i in 0..1000 {
        s = s.wrapping_add(std::panic::catch_unwind(|| probed(i)).unwrap_or(1));
    }
    if s == 0 { std::process::exit(3); }
}`

// Most functions of real programs are understood; the others have a reason.
func TestShareOfExitSites(t *testing.T) {
	testenv.Long(t)
	for program, want := range map[string]float64{"postgres": 90, "redis-server": 90, "gofmt": 90, "/lib/x86_64-linux-gnu/libc.so.6": 60} {
		path := program
		if _, err := os.Stat(path); err != nil {
			path = testenv.NeedProgram(t, program)
		}
		m := moduleAt(t, path)
		known, sites, cheap, never := 0, 0, 0, 0
		reasons := map[string]int{}
		for i := range m.Len() {
			found, err := In(m).ExitSites(i)
			if err != nil {
				why, _, _ := strings.Cut(err.Error(), " at +")
				reasons[why]++
				continue
			}
			known++
			if len(found) == 0 {
				never++
			}
			for _, s := range found {
				sites++
				if s.Method == Emulated {
					cheap++
				}
			}
		}
		all := m.Len()
		share := 100 * float64(known) / float64(all)
		t.Logf("%s: %.1f %% of %d functions, %d never return; %d sites, %d emulated", program, share, all, never, sites, cheap)
		keys := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return reasons[b] - reasons[a] })
		for _, why := range keys[:min(len(keys), 10)] {
			t.Logf("  %5d %s", reasons[why], why)
		}
		if share < want {
			t.Errorf("%s: the exits of %.1f %% of the functions are known, want %.0f", program, share, want)
		}
	}
}
