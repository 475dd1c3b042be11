// Command goprog has functions of Go that return one of each type.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
)

type point struct{ x, y int32 }

type request struct {
	id   int64
	path string
	at   point
}

var sink int

//go:noinline
func small(n int) int8 { sink += n; return int8(n - 106) }

//go:noinline
func unsigned(n int) uint32 { sink += n; return uint32(n) + 3999999994 }

//go:noinline
func wide(n int) int { sink += n; return n - 9000000000000000006 }

//go:noinline
func yes(n int) bool { sink += n; return n == 6 }

//go:noinline
func text(n int) string { sink += n; return "a result"[n-6:] }

//go:noinline
func empty(n int) string { sink += n; return "a result"[:n-6] }

//go:noinline
func where(n int32) point { sink += int(n); return point{n - 7, n + 2} }

//go:noinline
func whole(n int) request { sink += n; return request{int64(-n), "/whole", point{1, -2}} }

//go:noinline
func found(n int) (r *request, ok bool, err error) {
	sink += n
	if n < 0 {
		return nil, false, errors.New("negative")
	}
	return &request{id: int64(n), path: "/found"}, true, nil
}

//go:noinline
func both(n int) (int, string) { sink += n; return -n, "second" }

//go:noinline
func fraction(n int) float64 { sink += n; return float64(n) / 4 }

//go:noinline
func none(n int) { sink += n }

func main() {
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		os.Exit(1)
	}
	for range 3 {
		small(6)
		unsigned(6)
		wide(6)
		yes(6)
		text(6)
		empty(6)
		where(6)
		whole(6)
		found(6)
		both(6)
		fraction(6)
		none(6)
	}
	fmt.Println("done", sink)
}
