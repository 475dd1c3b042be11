package keeper

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
	"unsafe"
)

// TypeMulti is the attach type of links without sessions (BPF_TRACE_UPROBE_MULTI, Linux 6.6).
const TypeMulti = 48

// Link describes a uprobe_multi link (union bpf_attr of include/uapi/linux/bpf.h).
// Semaphores may be nil.
type Link struct {
	Program, File                int // descriptors
	AttachType, Flags            uint32
	PID                          int // 0: all processes
	Offsets, Cookies, Semaphores []uint64
}

// Held is a link that the keeper holds, too.
type Held struct {
	FD   int // this process's descriptor
	conn int // to the keeper; -1: there is no keeper, and this is the only descriptor
}

// request is what is sent of a Link, with the descriptors of the connection, the
// program, the file, and a file that has the lists one after the other.
type request struct {
	attachType, flags, pid, count uint32
	semaphores                    uint32 // 1: there are three lists, not two
}

// reply is the answer, with the descriptor of the link.
type reply struct{ errno uint32 }

const (
	requestBytes = int(unsafe.Sizeof(request{}))
	replyBytes   = int(unsafe.Sizeof(reply{}))
	// controlFD is the keeper's descriptor of the socket for requests.
	controlFD = 3
	// name is the keeper's argv[0].
	name = "endoscope-keeper"
)

var keeper struct {
	sync.Mutex
	started bool
	control int // -1: it could not be started
	pid     int
}

// Start starts the keeper, if it does not run yet. It does not wait for it.
func Start() {
	keeper.Lock()
	defer keeper.Unlock()
	if keeper.started {
		return
	}
	keeper.started, keeper.control = true, -1
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer syscall.Close(pair[1])
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		syscall.Close(pair[0])
		return
	}
	defer null.Close()
	fd := null.Fd()
	// A session of its own: signals of the terminal and to the process group do not
	// reach it. It is not waited for, since it lives longer than this process.
	pid, _, err := syscall.StartProcess("/proc/self/exe", []string{name}, &syscall.ProcAttr{
		Dir: "/", Files: []uintptr{fd, fd, fd, uintptr(pair[1])}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		syscall.Close(pair[0])
		return
	}
	keeper.control, keeper.pid = pair[0], pid
}

// Prioritize makes the keeper create and close links before ordinary processes run, so that
// probes that are attached for a millisecond do not stay where the machine is busy. Without
// the right to it does nothing.
func Prioritize() {
	Start()
	keeper.Lock()
	defer keeper.Unlock()
	if keeper.control < 0 {
		return
	}
	const fifo = 1
	priority := int32(1)
	threads, _ := os.ReadDir("/proc/" + strconv.Itoa(keeper.pid) + "/task")
	for _, t := range threads { // threads that they start inherit it
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(tid), fifo, uintptr(unsafe.Pointer(&priority)))
		}
	}
}

// Used returns the processor time that the keeper has used, in ns: what creating and closing
// links takes, which the kernel does in its name.
func Used() int64 {
	keeper.Lock()
	pid := keeper.pid
	keeper.Unlock()
	if pid == 0 {
		return 0
	}
	const schedClock = 2 // MAKE_PROCESS_CPUCLOCK of include/linux/posix-timers.h
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(^pid<<3|schedClock), uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0
	}
	return t.Nano()
}

// Create creates a link. Its error is the kernel's, a syscall.Errno. If there is no
// keeper, this process creates the link.
func Create(l *Link) (Held, error) {
	h, err := ask(l)
	if err != errNone {
		return h, err
	}
	lists, err := file(l)
	if err != nil {
		return Held{}, err
	}
	defer syscall.Close(lists)
	fd, errno := create(requestOf(l), l.Program, l.File, lists)
	if errno != 0 {
		return Held{}, errno
	}
	return Held{FD: fd, conn: -1}, nil
}

func requestOf(l *Link) request {
	r := request{attachType: l.AttachType, flags: l.Flags, pid: uint32(l.PID), count: uint32(len(l.Offsets))}
	if l.Semaphores != nil {
		r.semaphores = 1
	}
	return r
}

// errNone is returned by ask if the keeper cannot be used.
var errNone = errors.New("there is no process that keeps links")

// ask has the keeper create a link.
func ask(l *Link) (Held, error) {
	Start()
	lists, err := file(l)
	if err != nil {
		return Held{}, errNone
	}
	defer syscall.Close(lists)
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return Held{}, errNone
	}
	r := requestOf(l)
	keeper.Lock()
	control := keeper.control
	keeper.Unlock()
	err = send(control, bytes(&r, requestBytes), pair[1], l.Program, l.File, lists)
	syscall.Close(pair[1])
	if err != nil {
		syscall.Close(pair[0])
		return Held{}, errNone
	}
	var answer reply
	fds, err := receive(pair[0], bytes(&answer, replyBytes))
	switch {
	case err == nil && len(fds) == 1:
		return Held{FD: fds[0], conn: pair[0]}, nil
	case err == nil && answer.errno != 0:
		err = syscall.Errno(answer.errno)
	default: // it has ended, or this process has no room for the descriptor
		err = errNone
	}
	syscall.Close(pair[0])
	return Held{}, err
}

// Close detaches the link. When it returns, no program of the link is running.
func (h Held) Close() {
	h.Begin()
	h.Wait()
}

// Begin begins to detach the link, which it does not wait for; Wait must follow. If there is
// no keeper, Wait does it.
func (h Held) Begin() {
	if h.conn < 0 {
		return
	}
	syscall.Close(h.FD)
	// The keeper closes its descriptor when it is asked to, and then the connection.
	_, _ = syscall.Write(h.conn, []byte{0})
}

// Wait waits until no program of the link is running. That takes tens of milliseconds.
func (h Held) Wait() {
	if h.conn < 0 {
		syscall.Close(h.FD)
		return
	}
	c := pollable(h.conn)
	defer c.Close()
	awaitEnd(c)
}

// file returns a file in memory with the lists of a link.
func file(l *Link) (int, error) {
	const memfdCreate, closeOnExec = 319, 1
	label := [...]byte{'l', 'i', 's', 't', 's', 0}
	fd, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(&label[0])), closeOnExec, 0)
	if errno != 0 {
		return -1, errno
	}
	for _, list := range [][]uint64{l.Offsets, l.Cookies, l.Semaphores} {
		if len(list) == 0 {
			continue
		}
		b := unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), 8*len(list))
		for len(b) > 0 {
			n, err := syscall.Write(int(fd), b)
			if err != nil && err != syscall.EINTR {
				syscall.Close(int(fd))
				return -1, err
			}
			b = b[max(n, 0):]
		}
	}
	return int(fd), nil
}

// send sends a message with descriptors.
func send(conn int, b []byte, fds ...int) error {
	for {
		err := syscall.Sendmsg(conn, b, syscall.UnixRights(fds...), nil, syscall.MSG_NOSIGNAL)
		if err != syscall.EINTR {
			return err
		}
	}
}

// errEnded is returned by receive if the connection has ended.
var errEnded = errors.New("the connection has ended")

// receive receives a message of len(b) bytes, and its descriptors: fewer than were sent if
// this process has no room for more.
func receive(conn int, b []byte) ([]int, error) {
	control := make([]byte, syscall.CmsgSpace(4*4))
	for {
		n, rights, _, _, err := syscall.Recvmsg(conn, b, control, syscall.MSG_CMSG_CLOEXEC)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		var fds []int
		messages, err := syscall.ParseSocketControlMessage(control[:rights])
		for i := range messages {
			got, _ := syscall.ParseUnixRights(&messages[i])
			fds = append(fds, got...)
		}
		if err != nil || n != len(b) {
			closeAll(fds)
			return nil, errEnded
		}
		return fds, nil
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		syscall.Close(fd)
	}
}

// pollable returns a connection for which no thread waits in the kernel.
func pollable(conn int) *os.File {
	_ = syscall.SetNonblock(conn, true) // else the file is not one that can be polled
	return os.NewFile(uintptr(conn), "connection")
}

// awaitEnd waits until the other side closes a connection or sends a byte.
func awaitEnd(c *os.File) {
	var b [1]byte
	if _, err := c.Read(b[:]); errors.Is(err, syscall.EAGAIN) { // it cannot be polled
		_ = syscall.SetNonblock(int(c.Fd()), false)
		_, _ = c.Read(b[:])
	}
}

func bytes[T request | reply](v *T, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), n)
}
