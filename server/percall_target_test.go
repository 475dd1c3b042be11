package server_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"endoscope/probes/testenv"
)

// callTarget is a program that calls one function as often as it can for a
// while, and tells what a call took it of its own processor time.
type callTarget struct {
	name     string // of the target
	path     string
	function string
	symbol   string // bpftrace's name of the function
}

// entries are C functions of a frame and a little work, by their first
// instruction. The kernel emulates push and conditional jumps and single-steps
// the others, so that only the first needs no search for a cheaper site.
var entries = []struct{ name, code string }{
	{"push", `push %rbx
	.cfi_adjust_cfa_offset 8
	mov %rdi, %rbx
	lea 1(%rbx), %rax
	pop %rbx
	.cfi_adjust_cfa_offset -8
	ret`},
	{"lea", `lea 1(%rdi), %rax
	push %rbx
	.cfi_adjust_cfa_offset 8
	mov %rax, %rbx
	pop %rbx
	.cfi_adjust_cfa_offset -8
	ret`},
	{"sub rsp", `sub $24, %rsp
	.cfi_adjust_cfa_offset 24
	mov %rdi, (%rsp)
	test %rdi, %rdi
	js 1f
	mov (%rsp), %rax
1:	add $24, %rsp
	.cfi_adjust_cfa_offset -24
	ret`},
	{"endbr64, push", `endbr64
	push %rbx
	.cfi_adjust_cfa_offset 8
	mov %rdi, %rbx
	lea 1(%rbx), %rax
	pop %rbx
	.cfi_adjust_cfa_offset -8
	ret`},
}

// loopForC calls work in bursts until the time that a line of its input says,
// in ms of its own processor time, has passed, and prints ns for each call.
const loopForC = `
#include <stdio.h>
#include <time.h>
long work(long);
static long now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
int main(void) {
	long ms, n = 0;
	setbuf(stdout, NULL);
	while (scanf("%ld", &ms) == 1) {
		long calls = 0, begin = now(), took;
		do {
			for (int i = 0; i < 1000; i++) work(n++ & 0xffffff);
			calls += 1000;
		} while ((took = now() - begin) < ms * 1000000);
		printf("%f\n", (double)took / calls);
	}
}
`

const loopForGo = `package main

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

var sum int

//go:noinline
func rest(n int) int { return n + 1 }

//go:noinline
func work(n int) int { return rest(n) + 1 } // calls, so that its stack is checked

func now() int64 {
	const threadTime = 3
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadTime, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func main() {
	runtime.LockOSThread()
	var ms, n int64
	for {
		if _, err := fmt.Scan(&ms); err != nil {
			return
		}
		calls, begin, took := 0, now(), int64(0)
		for took < ms*1_000_000 {
			for range 1000 {
				sum += work(int(n & 0xffffff))
				n++
			}
			calls += 1000
			took = now() - begin
		}
		fmt.Printf("%f\n", float64(took)/float64(calls))
	}
}
`

// typed is a C function of a program with debug information.
const typed = `
struct item { long id; const char *name; };
__attribute__((noinline, noipa)) int typed(int n, const char *text, const struct item *item)
{
	asm volatile("" ::: "rbx"); /* begins with push */
	return n - 1;
}
static const struct item one = {1, "one"};
long work(long n) { return typed((int)n, "SELECT 1 FROM orders", &one); }
`

// callTargets compiles the targets.
func callTargets(b *testing.B) (targets []callTarget) {
	for _, e := range entries {
		path := testenv.CompileCText(b, fmt.Sprintf(`%s
__asm__(".text\n.globl work\n.type work,@function\n.balign 16\nwork: .cfi_startproc\n"%s".cfi_endproc\n.size work,.-work\n");`,
			loopForC, strconv.Quote(e.code+"\n")), "-O1", "-fcf-protection=none")
		targets = append(targets, callTarget{e.name, path, "work", "work"})
	}
	path := testenv.CompileCText(b, loopForC+typed, "-O2", "-g", "-fcf-protection=none")
	targets = append(targets, callTarget{"typed push", path, "typed", "typed"})
	dir := b.TempDir()
	for name, text := range map[string]string{"main.go": loopForGo, "go.mod": "module calls\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return append(targets, callTarget{"Go", testenv.CompileGo(b, dir), "main.work", `"main.work"`})
}

// caller is a running target.
type caller struct {
	b   *testing.B
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (t callTarget) start(b *testing.B) *caller {
	cmd := exec.Command(t.path)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &caller{b, cmd, in, bufio.NewScanner(out)}
}

// measure lets the target call for some ms and returns the ns of a call.
func (c *caller) measure(ms int) float64 {
	fmt.Fprintln(c.in, ms)
	if !c.out.Scan() {
		c.b.Fatalf("the target has ended: %v", c.out.Err())
	}
	ns, err := strconv.ParseFloat(c.out.Text(), 64)
	if err != nil {
		c.b.Fatal(err)
	}
	return ns
}
