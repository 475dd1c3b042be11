package keeper

import (
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"unsafe"
)

func init() {
	if len(os.Args) == 1 && os.Args[0] == name {
		serve()
		os.Exit(0)
	}
}

// serve creates links until the other process has ended, and returns when all are
// closed.
func serve() {
	// With more threads at work, each wait in the kernel has the runtime look for others.
	runtime.GOMAXPROCS(1)
	// It ends when nothing is attached any more, and not before.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGIO)
	syscall.CloseOnExec(controlFD)
	var links sync.WaitGroup
	defer links.Wait()
	for {
		var r request
		fds, err := receive(controlFD, bytes(&r, requestBytes))
		switch {
		case err != nil:
			return
		case len(fds) == 4:
			links.Go(func() { keep(r, fds[0], fds[1], fds[2], fds[3]) })
		default:
			closeAll(fds) // without the connection the other process makes the link itself
		}
	}
}

// keep creates a link and closes it when the other side wants it, or has ended.
func keep(r request, conn, program, file, lists int) {
	c := pollable(conn)
	defer c.Close()
	link, errno := create(r, program, file, lists)
	syscall.Close(program)
	syscall.Close(file)
	syscall.Close(lists)
	answer := reply{errno: uint32(errno)}
	if errno != 0 {
		_ = send(conn, bytes(&answer, replyBytes))
		return
	}
	defer syscall.Close(link) // before conn, whose end tells that it is closed
	if send(conn, bytes(&answer, replyBytes), link) != nil {
		return
	}
	awaitEnd(c)
}

// linkCreate is the part of union bpf_attr that creates a uprobe_multi link.
type linkCreate struct {
	program, _, attachType, _          uint32 // target_fd, flags
	path, offsets, semaphores, cookies uint64 // ref_ctr_offsets
	count, multiFlags, pid, _          uint32
}

func create(r request, program, file, lists int) (link int, errno syscall.Errno) {
	n := int(r.count)
	words := make([]uint64, n*(2+int(r.semaphores&1)))
	if len(words) == 0 {
		return -1, syscall.EINVAL
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	for at := 0; at < len(b); {
		got, err := syscall.Pread(lists, b[at:], int64(at))
		if err == syscall.EINTR {
			continue
		}
		if err != nil || got == 0 {
			return -1, syscall.EINVAL
		}
		at += got
	}
	// The descriptor refers to the file that was examined. By now its path may lead
	// elsewhere, or not exist from our root.
	path, err := syscall.BytePtrFromString("/proc/self/fd/" + strconv.Itoa(file))
	if err != nil {
		return -1, syscall.EINVAL
	}
	address := func(i int) uint64 { return uint64(uintptr(unsafe.Pointer(&words[i]))) }
	attr := &linkCreate{
		program: uint32(program), attachType: r.attachType, path: uint64(uintptr(unsafe.Pointer(path))),
		offsets: address(0), cookies: address(n), count: r.count, multiFlags: r.flags, pid: r.pid,
	}
	if r.semaphores != 0 {
		attr.semaphores = address(2 * n)
	}
	fd, errno := bpf(attr, path, words)
	if errno != 0 {
		return -1, errno
	}
	return fd, 0
}

// bpf executes BPF_LINK_CREATE. The addresses in attr are integers, which keep nothing
// alive: path and words are pinned meanwhile.
func bpf(attr *linkCreate, path *byte, words []uint64) (int, syscall.Errno) {
	const sysBPF, linkCreateCommand = 321, 28
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(path)
	pin.Pin(&words[0])
	for {
		fd, _, errno := syscall.Syscall(sysBPF, linkCreateCommand, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
		if errno != syscall.EINTR && errno != syscall.EAGAIN {
			return int(fd), errno // the kernel sets O_CLOEXEC (bpf_link_new_fd)
		}
	}
}
