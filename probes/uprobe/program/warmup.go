package program

import (
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"endoscope/probes/uprobe/attach"
)

// warmUp starts the kernel's preparation for setting a probe while a query's programs
// are still being loaded. The first probe after a while waits until each processor has
// passed a quiescent state, 6 ms and more; those that follow soon do not
// (percpu_down_write of dup_mmap_sem in register_for_each_vma, kernel/events/uprobes.c,
// and rcu_sync_enter). So a probe is set and removed in a memory file that no process
// executes.
type warmUp struct {
	possible bool
	underWay sync.WaitGroup
}

// Begin does not wait. A failure is ignored: only the speed-up is lost.
func (h *warmUp) Begin() {
	if h.possible {
		h.underWay.Go(func() { _ = touch() })
	}
}

// Close waits for running preparations.
func (h *warmUp) Close() { h.underWay.Wait() }

// touch sets the probe and removes it.
func touch() error {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: attach.TypeMulti, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return err
	}
	defer program.Close()
	fd, err := unix.MemfdCreate("endoscope-headstart", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "endoscope-headstart")
	defer file.Close()
	if err := file.Truncate(int64(os.Getpagesize())); err != nil {
		return err
	}
	l, err := attach.Uprobes(program, file, attach.TypeMulti, 0, 0, attach.Places{Offsets: []uint64{0}, Cookies: []uint64{0}})
	if err != nil {
		return err
	}
	l.Close()
	return nil
}
