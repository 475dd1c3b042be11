// Command goelements computes with elements of slices and arrays, once for each line of
// input.
package main

import (
	"bufio"
	"fmt"
	"os"
)

type part struct {
	id    int
	words []string
	sizes [3]int16
}

//go:noinline
func sum(parts []*part, list []int64, grid [2][3]int, n int) int64 {
	total := int64(0)
	list[1] = int64(n)
	parts[0].words[1] = fmt.Sprint("word ", n)
	parts[0].sizes[2] = int16(n + 1)
	grid[1][2] = n + 2
	list = append(list, int64(n+3))
	for _, x := range list {
		total += x
	}
	list = list[:1]
	return total + int64(grid[1][2]) + list[0]
}

func main() {
	fmt.Println(1)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var n int
		fmt.Sscan(in.Text(), &n)
		fmt.Println(sum([]*part{{id: 7, words: []string{"a", "b"}}}, []int64{1, 2}, [2][3]int{}, n))
	}
}
