// Command goprog has functions of Go with arguments of many kinds, and calls each with values
// that a test knows.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
)

type color int8

type point struct {
	x, y int32
}

type request struct {
	id     int64
	path   string
	at     point
	parent *request
	open   bool
	load   float64
}

var sink int

//go:noinline
func integers(a int8, b int16, c int32, d int64, e uint8, f uint16, g uint32, h uint64, i bool, j int) {
	sink += int(a) + int(b) + int(c) + int(d) + int(e) + int(f) + int(g) + int(h) + j
	if i {
		sink++
	}
}

//go:noinline
func texts(first string, empty string, n int, last string) int {
	sink += len(first) + len(empty) + n + len(last)
	return -len(first)
}

//go:noinline
func (r *request) handle(verb string, p point, c color) bool {
	sink += int(r.id) + len(verb) + int(p.x) + int(p.y) + int(c)
	return r.open
}

//go:noinline
func floating(f float64, after int32) { sink += int(f) + int(after) }

//go:noinline
func slices(list []byte, any fmt.Stringer, end int16) { sink += len(list) + int(end) }

type path string

//go:noinline
func named(p path, end int) { sink += len(p) + end }

//go:noinline
func generic[T ~string](text T, end int) T {
	sink += len(text) + end
	return text
}

//go:noinline
func elements(list []*request, array [3]int16, pointer *[2]int64, words []string, none []int, bytes []byte) ([]string, error) {
	sink += len(list) + int(array[1]) + int(pointer[0]) + len(none) + len(bytes)
	return words, nil
}

//go:noinline
func indexed(list []*request, array *[3]int16, words []string, i int8, end uint) {
	sink += len(list) + int(array[1]) + len(words) + int(i) + int(end)
}

// numbered returns the number of the goroutine that calls it, as the runtime prints it.
//
//go:noinline
func numbered(id int) int { return id }

// number returns the number of this goroutine.
func number() (id int) {
	text := make([]byte, 64)
	fmt.Sscanf(string(text[:runtime.Stack(text, false)]), "goroutine %d ", &id)
	return id
}

func main() {
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		os.Exit(1)
	}
	parent := &request{id: 41, path: "/up"}
	r := &request{id: -5, path: "/index.html", at: point{3, -4}, parent: parent, open: true, load: 0.75}
	for range 3 {
		integers(-100, -30000, -2000000000, -9000000000000000000, 200, 60000, 4000000000, 9000000000000000000, true, -77)
		texts("first", "", -7, "the last")
		r.handle("GET", point{-1, 2}, -3)
		floating(1.5, -3)
		slices([]byte("abc"), nil, -12)
		named("/etc/hosts", 4)
		generic("any text", 5)
		indexed([]*request{r, parent}, &[3]int16{-1, -2, -3}, []string{"one", "two"}, 1, 3)
		elements([]*request{r, parent}, [3]int16{1, 2, -3}, &[2]int64{-7, 8}, []string{"one", "two"}, nil, append(make([]byte, 0, 64), "abc"...))
	}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			for id := number(); numbered(id) < 0; {
			}
			numbered(number())
		})
	}
	all.Wait()
	fmt.Println("done", sink)
}
