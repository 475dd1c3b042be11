// Command gopointers has variables behind pointers, which it writes as its input says.
package main

import (
	"bufio"
	"fmt"
	"os"
)

type node struct {
	id   int
	name string
	next *node
	list []int32
}

var (
	nodes = [3]node{{id: 100, name: "a"}, {id: 101, name: "b"}, {id: 102, name: "c"}}
	head  = &nodes[0]
	table = []int64{10, 11, 12, 13}
	rows  = [][]int32{{1, 2}, {3, 4}}
)

//go:noinline
func aim(n int) {
	if n < 0 {
		head = nil
	} else {
		head = &nodes[n]
	}
}

//go:noinline
func (n *node) number(id int) { n.id = id }

//go:noinline
func (n *node) rename(name string) { n.name = name }

//go:noinline
func fresh(id int) { head = &node{id: id, name: "fresh", next: head} }

//go:noinline
func link(n int) { head.next = &nodes[n] }

//go:noinline
func cell(n int) { table[2] = int64(n) }

//go:noinline
func grow(n int) { table = append(make([]int64, 0, 2*n), table[:n]...) }

//go:noinline
func leave() {}

func main() {
	fmt.Println(1)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var n int
		fmt.Sscan(in.Text()[1:], &n)
		switch in.Text()[0] {
		case 'h':
			aim(n)
		case 'i':
			head.number(n)
		case 'o':
			nodes[1].number(n)
		case 'r':
			head.rename(fmt.Sprint("name ", n))
		case 'f':
			fresh(n)
		case 'x':
			link(n)
		case 'y':
			head.next.number(n)
		case 'c':
			cell(n)
		case 'g':
			grow(n)
		case 'q':
			leave()
		case 's':
			rows[n] = append(rows[n], 9)
		}
		fmt.Println(1)
	}
}
