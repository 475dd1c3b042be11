package elf

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// whereProgram prints the functions that its instructions belong to, given by
// their offset from main.main.
const whereProgram = `package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
)

type pair[T any] struct{ a, b T }

func (p *pair[T]) swap() { p.a, p.b = p.b, p.a }
func twice(p *pair[string]) { p.swap(); p.swap() }

func main() {
	start := reflect.ValueOf(main).Pointer()
	p := &pair[string]{"a", "b"}
	twice(p)
	slices.Reverse(os.Args)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		var distance int64
		if _, err := fmt.Fscan(os.Stdin, &distance); err != nil {
			return
		}
		frames := runtime.CallersFrames([]uintptr{start + uintptr(distance) + 1}) // a return address
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			fmt.Fprintf(out, "%s %s:%d;", f.Function, f.File, f.Line)
		}
		fmt.Fprintln(out)
	}
}
`

// The innermost inlined call of an instruction, and its line, agree with the program's own
// runtime.
func TestInlined(t *testing.T) {
	for _, flags := range [][]string{nil, {"-buildmode=pie"}, {"-ldflags=-s -w"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			if flags != nil {
				testenv.Long(t)
			}
			program := testenv.CompileGoText(t, whereProgram, flags...)
			m := openModule(t, program)
			start := m.functions[only(t, m, "main.main")].Addr
			type place struct {
				addr   uint64
				calls  string
				inline bool
			}
			var places []place
			var asked strings.Builder
			for i, f := range m.All() {
				if f.Lang != Go || i%2 != 0 && !strings.HasPrefix(f.Name, "main.") {
					continue
				}
				step := uint64(7)
				if strings.HasPrefix(f.Name, "main.") {
					step = 1
				}
				for addr := f.Addr; addr < f.Addr+min(f.Size-1, 600); addr += step {
					if in, ok := m.FunctionAt(addr); !ok || in != i {
						break
					}
					p := place{addr: addr}
					inlined, at := m.Calls(addr, nil, true)
					for _, in := range inlined {
						p.calls += fmt.Sprintf("%s %s;", in.Name, in.Position)
					}
					p.calls += fmt.Sprintf("%s %s;", f.Name, at)
					p.inline = len(inlined) > 0
					places = append(places, p)
					fmt.Fprintln(&asked, int64(addr-start))
				}
			}
			cmd := exec.Command(program)
			cmd.Stdin = strings.NewReader(asked.String())
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			told := bufio.NewScanner(out)
			inlined, wrong := 0, 0
			for _, p := range places {
				if !told.Scan() {
					t.Fatal("the program says no more")
				}
				if p.inline {
					inlined++
				}
				if runtime := strings.Replace(told.Text(), " ?:0;", " :0;", 1); !strings.HasPrefix(p.calls, runtime) && !strings.HasPrefix(told.Text(), " ") { // the first name in its table is empty
					if wrong++; wrong <= 5 {
						t.Errorf("%x is of %s, by the runtime of %s", p.addr, p.calls, told.Text())
					}
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d of %d instructions are of calls compiled into their callers, %d differ", inlined, len(places), wrong)
			if inlined < 1000 {
				t.Errorf("only %d of %d", inlined, len(places))
			}
		})
	}
}

// Code of other languages has no inlined calls of Go.
func TestNothingInlined(t *testing.T) {
	m := openModule(t, testenv.NeedProgram(t, "sleep"))
	for i := range m.Len() {
		addr, _ := m.Entry(i)
		if in, _ := m.Calls(addr, nil, false); len(in) > 0 {
			t.Errorf("%x has calls of Go", addr)
		}
	}
}

// The inlined calls of Go, and their lines, are those of the program's debug information.
func TestGoCalls(t *testing.T) {
	m := openModule(t, testenv.CompileGoText(t, whereProgram))
	source, err := m.Source()
	if err != nil {
		t.Fatal(err)
	}
	deepest := 0
	for _, f := range m.All() {
		if !strings.HasPrefix(f.Name, "main.") && !strings.HasPrefix(f.Name, "fmt.") {
			continue
		}
		for addr := f.Addr; addr < f.Addr+f.Size-1; addr++ {
			mine, at := m.Calls(addr, nil, true)
			theirs, want := source.Inlined(addr, true)
			if want.Line == 0 {
				continue // padding
			}
			same := at == want && len(mine) == len(theirs)
			for i := range min(len(mine), len(theirs)) {
				same = same && mine[i].Mangled == theirs[i].Name && mine[i].Position == theirs[i].Position
			}
			if !same {
				t.Fatalf("%s, %#x: %v %v, by the debug information %v %v", f.Name, addr, mine, at, theirs, want)
			}
			deepest = max(deepest, len(mine))
		}
	}
	if deepest < 3 {
		t.Errorf("at most %d calls are inlined", deepest)
	}
}
