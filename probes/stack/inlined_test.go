package stack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// inlinedCalls is a program that prints its callers, as Go sees them, where it waits:
// three of these calls are inlined.
const inlinedCalls = `package main

import (
	"fmt"
	"runtime"
	"time"
)

type queue struct{ jobs chan int }

//go:noinline
func wait(c chan int) int {
	pcs := make([]uintptr, 50)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		fmt.Print(f.Function, " ")
	}
	fmt.Println()
	return <-c
}

func receive(c chan int) int   { return wait(c) * 2 }
func (q *queue) next() int     { return receive(q.jobs) + 1 }
func take[T any](q *queue) int { return q.next() + 2 }

//go:noinline
func serve(q *queue) int { return take[string](q) - 1 }

func main() {
	go time.Sleep(time.Hour) // or all would be asleep for good
	println(serve(&queue{make(chan int)}))
}
`

// Inlined calls are on the stack as Go reports them.
func TestInlinedCalls(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module target\n\ngo 1.23\n", "main.go": inlinedCalls} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := run(t, testenv.CompileGo(t, dir))
	told := strings.Fields(r.line(t))
	c := collect(t, r.pid)
	var mine []string
	testenv.Until(t, "the stack of main.wait is seen", func() bool {
		err := c.snapshotThreads(func(o *observation) {
			var functions []string
			for _, f := range o.stack.value.([]types.Value) {
				functions = append(functions, f.A.([]types.Value)[0].S)
			}
			if i := slices.Index(functions, "main.wait"); i > 0 && functions[i-1] == "runtime.chanrecv1" {
				mine = functions[i:]
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return mine != nil
	})
	if !slices.Equal(mine, told) || len(told) < 7 || told[3] != "main.take[...]" {
		t.Errorf("%v, by the program's runtime %v", mine, told)
	}
}
