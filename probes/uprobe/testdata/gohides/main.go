// Command gohides is a target that makes calls with a g of its own making, whose
// page it takes away in between: what is there cannot be read then, as for an
// instant where the kernel moves a page.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// pretend copies the goroutine's g to where page is and calls outer with that in
// its place. outer sets the page's protection to before and calls inner, which
// sets it to inside; it is readable again at the end.
func pretend(page unsafe.Pointer, before, inside int)

func main() {
	// No signal finds the thread with a g that cannot be read.
	runtime.LockOSThread()
	all := ^uint64(0)
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 0, uintptr(unsafe.Pointer(&all)), 0, 8, 0, 0)
	page, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	const there, away = syscall.PROT_READ | syscall.PROT_WRITE, syscall.PROT_NONE
	for _, c := range [][2]int{{there, there}, {there, away}, {away, away}, {there, there}} {
		pretend(unsafe.Pointer(&page[0]), c[0], c[1])
	}
}
