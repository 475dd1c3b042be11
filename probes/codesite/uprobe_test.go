package codesite

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// The kernel is the reference for a site: countAt puts a uprobe on a file
// offset of a program and counts its hits, without any of our probe code.

// countAt arms a counting uprobe on every processor and returns the counter.
// The program should be running, so that the kernel looks at the instruction.
func countAt(t *testing.T, program string, offset uint64) (hits func() uint64, err error) {
	t.Helper()
	testenv.NeedUprobes(t)
	raw, err := os.ReadFile("/sys/bus/event_source/devices/uprobe/type")
	if err != nil {
		t.Fatal(err)
	}
	pmu, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	path, err := unix.BytePtrFromString(program)
	if err != nil {
		t.Fatal(err)
	}
	attr := unix.PerfEventAttr{
		Type: uint32(pmu),
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Ext1: uint64(uintptr(unsafe.Pointer(path))),
		Ext2: offset,
	}
	var fds []int
	// Not runtime.NumCPU: the processors that this process may use need not be
	// the first.
	for cpu := range ebpf.MustPossibleCPU() {
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) {
			continue // it is not there
		}
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { unix.Close(fd) })
		fds = append(fds, fd)
	}
	runtime.KeepAlive(path)
	return func() (sum uint64) {
		for _, fd := range fds {
			var b [8]byte
			if _, err := unix.Read(fd, b[:]); err != nil {
				t.Fatal(err)
			}
			sum += binary.LittleEndian.Uint64(b[:])
		}
		return sum
	}, nil
}
