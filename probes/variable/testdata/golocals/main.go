// Command golocals computes with variables of functions, once for each line of input.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

type request struct {
	id   int
	path string
	next *request
}

//go:noinline
func fib(n int) int {
	if n < 2 {
		return n
	}
	a := fib(n - 1)
	b := fib(n - 2)
	return a + b
}

//go:noinline
func collatz(start uint32) (steps int) {
	n := start
	for n != 1 {
		if n%2 == 1 {
			n = 3*n + 1
		} else {
			n /= 2
		}
		steps++
	}
	return steps
}

// serve has a variable on the heap.
//
//go:noinline
func serve(r *request) (string, func() int) {
	text := r.path
	total := r.id
	for part := r.next; part != nil; part = part.next {
		text = strings.ToUpper(part.path)
		total += part.id
	}
	return text, func() int { total++; return total }
}

// deep grows its stack.
//
//go:noinline
func deep(n int) int {
	var room [512]byte
	room[n%512] = byte(n)
	if n == 0 {
		return int(room[0])
	}
	return deep(n-1) + int(room[n%512])
}

func main() {
	fmt.Println(1)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var n int
		fmt.Sscan(in.Text(), &n)
		text, next := serve(&request{n, "first", &request{2, "second", nil}})
		done := make(chan int)
		go func() { done <- deep(n) }()
		fmt.Println(fib(n), collatz(uint32(n)), text, next(), <-done)
	}
}
