package stack

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"endoscope/probes/bpf"
	"endoscope/probes/lang/interpreter"
	"endoscope/probes/rights"
	"endoscope/probes/ringbuf"
	"endoscope/probes/unwind"
)

// Bits of bpf.StackSample.Flags (stack.bpf.c).
const (
	onCPU = 1 << iota
	running
	unchanged
	torn
	compat
	interpreted
	cut
	placed
)

const (
	sampleBytes = int(unsafe.Sizeof(bpf.StackSample{}))
	takenBytes  = int(unsafe.Sizeof(bpf.StackTaken{}))
	insideBytes = int(unsafe.Sizeof(bpf.StackInside{}))
	maxTaken    = 64
	stackAt     = sampleBytes + maxTaken*takenBytes // STACK_AT
	maxCodes    = interpreter.MaxFrames             // MAX_CODES
	redZone     = 128
	ringBytes   = 8 << 20
)

// sampler is the kernel side: programs that sample threads, and the ring that receives
// the samples. It knows processes by number; it does not know threads.
type sampler struct {
	objects      *ebpf.Collection
	ring         *ringbuf.Ring
	cpus         []int
	test         testRun // of on_cpu
	links        map[int]int
	bytes        *ebpf.Map // of stacks to copy, by tid
	interpreters *ebpf.Map // by tid
	contexts     bool      // samples tell what threads are inside of
}

// newSampler loads the programs. It attaches nothing to any process; the programs run
// only on request. inside are the maps of what threads are inside of, nil if samples do not
// tell it.
func newSampler(inside map[string]*ebpf.Map) (*sampler, error) {
	spec, err := bpf.LoadStack()
	if err != nil {
		return nil, err
	}
	types := btf.NewCache()
	for name, m := range inside {
		spec.Maps[name].MaxEntries = m.MaxEntries()
	}
	if err := spec.Variables[bpf.StackVarContexts].Set(inside != nil); err != nil {
		return nil, err
	}
	objects, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types, MapReplacements: inside})
	if err != nil {
		return nil, needs.Refused(Stream, err)
	}
	s := &sampler{objects: objects, contexts: inside != nil, links: map[int]int{}, bytes: objects.Maps[bpf.StackMapBytesOf], interpreters: objects.Maps[bpf.StackMapInterpreters]}
	if s.ring, err = ringbuf.Map(objects.Maps[bpf.StackMapSamples].FD(), ringBytes); err != nil {
		objects.Close()
		return nil, err
	}
	if s.cpus, err = onlineCPUs(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

var needs = rights.Needs{Ptrace: true, Since: "6.1", Instead: "thread_usage, process_usage"}

func (s *sampler) close() {
	for pid := range s.links {
		s.remove(pid)
	}
	s.ring.Unmap()
	s.objects.Close()
}

// add adds pid to the sampled processes.
func (s *sampler) add(pid int) error {
	fd, err := linkTasks(s.objects.Programs[bpf.StackProgOffCpu].FD(), pid)
	if err != nil {
		return fmt.Errorf("sampling process %d: %w", pid, err)
	}
	if err := s.objects.Maps[bpf.StackMapMembers].Put(uint32(pid), uint8(1)); err != nil {
		unix.Close(fd)
		return fmt.Errorf("sampling process %d: %w", pid, err)
	}
	s.links[pid] = fd
	return nil
}

// remove ends the sampling of pid.
func (s *sampler) remove(pid int) {
	if fd, ok := s.links[pid]; ok {
		unix.Close(fd)
		delete(s.links, pid)
		_ = s.objects.Maps[bpf.StackMapMembers].Delete(uint32(pid)) // it is there
		_ = s.objects.Maps[bpf.StackMapGolangs].Delete(uint32(pid))
	}
}

// setBytes sets how many bytes of a thread's stack are copied from now on.
func (s *sampler) setBytes(tid, bytes uint32) error { return s.bytes.Put(tid, bytes) }

// setInterpreter sets where a thread's interpreter keeps its frames, whose codes are
// added to its samples while it runs.
func (s *sampler) setInterpreter(tid uint32, t interpreter.Thread, f interpreter.Frames) error {
	return s.interpreters.Put(tid, bpf.StackInterpreter{State: t.State, Id: t.ID, IdAt: f.ID, Frame: f.Frame, Inner: f.Inner, Code: f.Code, Previous: f.Previous, Owner: f.Owner,
		Place: f.Place, Method: f.Method, Stack: f.Stack, Size: f.Size})
}

// setGolang sets where the threads of a Go program have their goroutine.
func (s *sampler) setGolang(pid int, g bpf.StackGolang) {
	_ = s.objects.Maps[bpf.StackMapGolangs].Put(uint32(pid), g) // the usual place is known
}

// inside reads what a goroutine is inside of; false: nothing.
func (s *sampler) inside(pid int, g uint64, to *bpf.StackInside) bool {
	return s.objects.Maps[bpf.StackMapElsewheres].Lookup(bpf.StackElsewhere{Id: g, Tgid: uint32(pid), Go: 1}, to) == nil
}

// forget removes what was set of a thread, if anything was.
func (s *sampler) forget(tid uint32) {
	_ = s.bytes.Delete(tid)
	_ = s.interpreters.Delete(tid)
}

// sample is one thread as the kernel saw it. The data it refers to is valid only
// during the visit.
type sample struct {
	*bpf.StackSample
	taken []bpf.StackTaken
	stack []byte
	low   uint64 // address of stack
	// Of an interpreter's frames, innermost first; places: nil if it has none.
	codes, places []uint64
	// inside is what the thread is inside of, nil: nothing.
	inside *bpf.StackInside
	// Of a call, see Copied; else 0.
	returned, returnAt uint64
	entered            bool // it is at its entry, which belongs to no call that is inlined into it
}

// running samples the threads of all processes that are on a CPU now.
func (s *sampler) running() error {
	prog := s.objects.Programs[bpf.StackProgOnCpu].FD()
	for _, cpu := range s.cpus {
		if err := s.test.run(prog, cpu); err != nil && err != unix.ENXIO { // a CPU that has gone offline
			return fmt.Errorf("sampling CPU %d: %w", cpu, err)
		}
	}
	return nil
}

// waiting samples the threads of a process that are not on a CPU. It visits the
// samples in the ring when the ring is full.
func (s *sampler) waiting(pid int, visit func(sample)) error {
	fd, err := openIterator(s.links[pid])
	if err != nil {
		return fmt.Errorf("sampling process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	var none [64]byte // the program writes nothing to its file
	for stuck := 0; ; {
		n, err := unix.Read(fd, none[:])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN: // the ring is full: the thread is sampled again
			before := s.ring.Consumed()
			s.drain(visit)
			if stuck++; s.ring.Consumed() != before {
				stuck = 0
			}
			if stuck > 10 {
				return fmt.Errorf("sampling process %d: the kernel finds no room in an empty buffer", pid)
			}
		case err != nil:
			return fmt.Errorf("sampling process %d: %w", pid, err)
		case n == 0:
			return nil
		}
	}
}

// drain visits the samples in the ring.
func (s *sampler) drain(visit func(sample)) {
	s.ring.Drain(s.ring.Produced(), func(b []byte) {
		if len(b) < sampleBytes {
			return
		}
		one := sample{StackSample: (*bpf.StackSample)(unsafe.Pointer(&b[0]))}
		if rest := len(b) - insideBytes; s.contexts && rest >= stackAt {
			if one.Contexts > 0 {
				one.inside = (*bpf.StackInside)(unsafe.Pointer(&b[rest]))
			}
			b = b[:rest]
		}
		if len(b) >= stackAt {
			one.taken = unsafe.Slice((*bpf.StackTaken)(unsafe.Pointer(&b[sampleBytes])), min(one.Returns, maxTaken))
			one.stack = b[stackAt:][:min(int(one.Stack), len(b)-stackAt)]
			one.low = one.Regs[unwind.RegSP] - redZone
			if one.Codes > 0 {
				if one.Flags&placed != 0 {
					one.places, b = lastWords(b, one.Codes)
				}
				one.codes, _ = lastWords(b, one.Codes)
			}
		}
		visit(one)
	})
}

// lastWords returns the first n of the last maxCodes words of a record, and the record before
// them; none if it is too short.
func lastWords(b []byte, n uint32) ([]uint64, []byte) {
	at := len(b) - maxCodes*8
	if at < stackAt {
		return nil, nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&b[at])), min(n, maxCodes)), b[:at]
}

// Commands of bpf(2).
const (
	cmdTestRun    = 10
	cmdLinkCreate = 28
	cmdIterCreate = 33

	attachIterator = 28     // BPF_TRACE_ITER
	runOnCPU       = 1 << 0 // BPF_F_TEST_RUN_ON_CPU
)

// testRun is the part of union bpf_attr that runs a program once. The kernel writes
// into it, so it is reused for the next run.
type testRun struct {
	prog, retval, sizeIn, sizeOut   uint32
	dataIn, dataOut                 uint64
	repeat, duration                uint32
	ctxSizeIn, ctxSizeOut           uint32
	ctxIn, ctxOut                   uint64
	flags, cpu, batchSize, _padding uint32
}

func (t *testRun) run(prog, cpu int) error {
	*t = testRun{prog: uint32(prog), flags: runOnCPU, cpu: uint32(cpu)}
	_, err := call(cmdTestRun, unsafe.Pointer(t), unsafe.Sizeof(*t))
	return err
}

// linkTasks links an iterator over the threads of a process, which cilium/ebpf
// cannot restrict to one.
func linkTasks(prog, pid int) (fd int, err error) {
	info := struct{ tid, pid, pidFD uint32 }{pid: uint32(pid)}
	attr := struct {
		prog, target, attachType, flags uint32
		info                            uint64
		infoBytes, _                    uint32
	}{prog: uint32(prog), attachType: attachIterator, infoBytes: uint32(unsafe.Sizeof(info))}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&info)
	attr.info = uint64(uintptr(unsafe.Pointer(&info)))
	return call(cmdLinkCreate, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

// openIterator begins a walk over the threads of a link.
func openIterator(link int) (fd int, err error) {
	attr := struct{ link, flags uint32 }{link: uint32(link)}
	return call(cmdIterCreate, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

// call calls bpf(2). New descriptors are closed on exec.
func call(cmd uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(attr), size)
		switch errno {
		case 0:
			return int(n), nil // the kernel sets O_CLOEXEC (bpf_link_new_fd, anon_inode_getfd)
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

// onlineCPUs lists the CPUs that may run threads.
func onlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("the CPUs cannot be listed: %w", err)
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// parseCPUs reads a list such as 0-3,8,10-11.
func parseCPUs(list string) (cpus []int, err error) {
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, err1 := strconv.Atoi(first)
		hi, err2 := strconv.Atoi(last)
		if err := errors.Join(err1, err2); err != nil || lo > hi || hi > 1<<16 {
			return nil, fmt.Errorf("the list of CPUs %q is not understood", list)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
