// Command gopaths is a target whose function leaf is called in different ways, once in
// each, when it is told by a line; at another it ends.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sort"
)

// leaf begins with setting its frame pointer, as others that follow those expect.
//
//go:noinline
//go:nosplit
func leaf(n int) int {
	var room [16]byte
	room[n%len(room)] = 1
	return n + int(room[3])
}

//go:noinline
func one(n int) int { return leaf(n) + 1 }

//go:noinline
func deep(n, k int) int {
	if k == 0 {
		return leaf(n)
	}
	return deep(n, k-1) + 1
}

type shape struct{ n int }

//go:noinline
func (s *shape) area() int { return one(s.n) + 1 }

//go:noinline
func compares(n int) int {
	list := []int{2, 1}
	sort.Slice(list, func(a, b int) bool { return list[a] < list[b]+0*leaf(n) })
	return list[0]
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	in.Scan()
	done := make(chan int)
	go func() { done <- leaf(0) + one(1) + deep(2, 9) + (&shape{3}).area() + compares(4) }()
	fmt.Println("done", <-done > 0)
	in.Scan()
}
