package uprobe

import (
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// headstart begins what the kernel does before it sets a probe while a query's
// programs are still being loaded. The first probe after a while waits until
// each processor has passed a quiescent state, 6 ms and more; those that follow
// soon do not (percpu_down_write of dup_mmap_sem in register_for_each_vma,
// kernel/events/uprobes.c, and rcu_sync_enter). So a probe is set, and taken
// away, which nobody can hit: in a file in memory that nobody executes.
type headstart struct {
	program  *ebpf.Program
	file     *os.File
	underWay sync.WaitGroup
}

// newHeadstart returns nil where the kernel has no links for it.
func newHeadstart() (*headstart, error) {
	if !featureMulti.has() {
		return nil, nil
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: attachMulti, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("endoscope-headstart", unix.MFD_CLOEXEC)
	if err != nil {
		program.Close()
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "endoscope-headstart")
	if err := file.Truncate(int64(os.Getpagesize())); err != nil {
		program.Close()
		file.Close()
		return nil, err
	}
	return &headstart{program: program, file: file}, nil
}

// begin does not wait. Where it fails nothing is gained, and nothing lost.
func (h *headstart) begin() {
	if h == nil {
		return
	}
	h.underWay.Go(func() {
		if l, err := attach(h.program, h.file, attachMulti, 0, 0, places{offsets: []uint64{0}, cookies: []uint64{0}}); err == nil {
			l.close()
		}
	})
}

// close waits for what is under way.
func (h *headstart) close() {
	if h == nil {
		return
	}
	h.underWay.Wait()
	h.program.Close()
	h.file.Close()
}
