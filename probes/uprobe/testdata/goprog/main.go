// Command goprog is a target with Go's calling convention and stacks that grow and move.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
)

type tree struct{ left, right *tree }

//go:noinline
func (t *tree) grow(depth int) *tree {
	if depth == 0 {
		return t
	}
	t.left, t.right = new(tree).grow(depth-1), new(tree).grow(depth-1)
	return t
}

//go:noinline
func deep(n int) int {
	var room [512]byte // makes the stack grow often
	room[n%len(room)] = byte(n)
	if n == 0 {
		return int(room[0])
	}
	return deep(n-1) + int(room[(n+1)%len(room)])
}

//go:noinline
func sum(a, b, c, d int) int { return a + b + c + d + len(os.Args) }

func main() {
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { deep(499) })
	}
	wg.Wait()
	new(tree).grow(9)
	for i := range 100 {
		sum(i, 2, 3, 4)
	}
}
