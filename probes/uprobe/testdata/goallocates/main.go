// Command goallocates is a target that allocates memory and says how much.
package main

import (
	"bufio"
	"fmt"
	"os"
)

type pair struct{ a, b *int }

var (
	bytes   [][]byte
	pairs   []*pair
	numbers []*int
)

//go:noinline
func makes(n int) []byte { return make([]byte, n) }

//go:noinline
func news() *pair { return new(pair) }

//go:noinline
func number(n int) *int { return &n }

func main() {
	bytes, pairs, numbers = make([][]byte, 0, 1000), make([]*pair, 0, 1000), make([]*int, 0, 1000)
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	done := make(chan bool)
	go func() {
		for i := range 300 {
			bytes = append(bytes, makes(100+i*100))
		}
		done <- true
	}()
	<-done
	for i := range 300 {
		pairs = append(pairs, news())
		numbers = append(numbers, number(1000+i))
	}
}
