package keeper

import (
	stdbytes "bytes"
	"debug/elf"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"endoscope/probes/process"
	"endoscope/probes/testenv"
)

// places are the instructions that the tests probe: one of each three bytes.
const places = 5000

const target = `#include <unistd.h>
__asm__(".text\n.globl places\n.type places,@function\nplaces: .rept 5000\n push %rbp\n pop %rbp\n ret\n .endr\n.size places, .-places\n");
void places(void);
int main(void) { for (;;) { places(); usleep(1000); } }`

func TestMain(m *testing.M) {
	if path := os.Getenv("KEEPER_TARGET"); path != "" {
		pid, _ := strconv.Atoi(os.Getenv("KEEPER_PID"))
		for {
			l, err := link(path, pid)
			if err == nil {
				err = l.err
			}
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			l.held.Close()
			l.program.Close()
		}
	}
	os.Exit(m.Run())
}

type made struct {
	held    Held
	program *ebpf.Program
	err     error
}

// link links a program that does nothing to all places.
func link(path string, pid int) (*made, error) {
	at, err := offset(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceUprobeMulti, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return nil, err
	}
	l := &Link{Program: program.FD(), File: int(f.Fd()), AttachType: 48, PID: pid}
	for i := range uint64(places) {
		l.Offsets, l.Cookies = append(l.Offsets, at+3*i), append(l.Cookies, i)
	}
	held, err := Create(l)
	return &made{held, program, err}, nil
}

// offset returns the file offset of the places.
func offset(path string) (uint64, error) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "places" {
			text := f.Sections[s.Section]
			return s.Value - text.Addr + text.Offset, nil
		}
	}
	return 0, errors.New("no places")
}

// code returns the code of the places in a process, and in its file.
func code(t *testing.T, path string, pid int) (got, want []byte) {
	t.Helper()
	at, err := offset(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want = file[at:][:3*places]
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for line := range stdbytes.Lines(maps) {
		var from, to, from0 uint64
		var rights string
		if _, err := fmt.Sscanf(string(line), "%x-%x %s %x", &from, &to, &rights, &from0); err != nil || !stdbytes.Contains(line, []byte(path)) || rights[2] != 'x' || at < from0 || at >= from0+to-from {
			continue
		}
		got = make([]byte, len(want))
		if _, err := memory.ReadAt(got, int64(from+at-from0)); err != nil {
			t.Fatal(err)
		}
		return got, want
	}
	t.Fatal("the code is not mapped")
	return nil, nil
}

// run starts the target, and returns when its code is mapped.
func run(t *testing.T, path string) (pid int) {
	t.Helper()
	pid = testenv.Run(t, exec.Command(path))
	testenv.Until(t, "its code is mapped", func() bool {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range stdbytes.Lines(maps) {
			if stdbytes.Contains(line, []byte(path)) && stdbytes.Contains(line, []byte(" r-xp ")) {
				return true
			}
		}
		return false
	})
	return pid
}

// A link that the keeper made attaches and, when it is closed, detaches.
func TestCreateAndClose(t *testing.T) {
	testenv.NeedUprobes(t)
	path := testenv.CompileCText(t, target, "-O1")
	pid := run(t, path)
	l, err := link(path, pid)
	if err != nil || l.err != nil {
		t.Fatal(err, l.err)
	}
	defer l.program.Close()
	if l.held.conn < 0 {
		t.Error("there is no keeper")
	}
	if got, _ := code(t, path, pid); stdbytes.Count(got, []byte{0xcc}) != places {
		t.Errorf("%d places have a probe, want %d", stdbytes.Count(got, []byte{0xcc}), places)
	}
	l.held.Close()
	if got, want := code(t, path, pid); !stdbytes.Equal(got, want) {
		t.Error("its code is not that of its file")
	}
}

// Errors are those of the kernel.
func TestCreateFails(t *testing.T) {
	testenv.NeedUprobes(t)
	path := testenv.CompileCText(t, target, "-O1")
	l, err := link(path, 1<<22) // PID_MAX_LIMIT: no process has this number
	if err != nil {
		t.Fatal(err)
	}
	defer l.program.Close()
	if !errors.Is(l.err, syscall.ESRCH) {
		t.Errorf("the error is %v, want %v", l.err, syscall.ESRCH)
	}
}

// A keeper that has no room for descriptors makes no link, and stays: this process makes the
// link.
func TestCreateWithoutRoom(t *testing.T) {
	testenv.NeedUprobes(t)
	path := testenv.CompileCText(t, target, "-O1")
	pid := run(t, path)
	Start()
	limit := func(most uint64) {
		t.Helper()
		for _, child := range process.Descendants([]int{os.Getpid()}) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			if stdbytes.HasPrefix(line, []byte(name)) {
				if err := unix.Prlimit(child, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: 4096}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	defer limit(4096)
	for _, c := range []struct {
		most uint64
		kept bool
	}{{4, false}, {4096, true}} {
		limit(c.most)
		l, err := link(path, pid)
		if err != nil || l.err != nil {
			t.Fatal(err, l.err)
		}
		if kept := l.held.conn >= 0; kept != c.kept {
			t.Errorf("with %d descriptors the keeper makes the link: %v", c.most, kept)
		}
		l.held.Close()
		l.program.Close()
	}
}

// A process that is killed while it attaches and detaches leaves nothing in its target.
func TestKilled(t *testing.T) {
	testenv.NeedUprobes(t)
	path := testenv.CompileCText(t, target, "-O1")
	pid := run(t, path)
	for range 10 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "KEEPER_TARGET="+path, fmt.Sprintf("KEEPER_PID=%d", pid))
		var out stdbytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		testenv.Until(t, "it attaches", func() bool {
			got, want := code(t, path, pid)
			return !stdbytes.Equal(got, want)
		})
		time.Sleep(time.Duration(rand.Int64N(int64(300 * time.Millisecond)))) // the moment of the kill
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if cmd.Wait(); out.Len() > 0 {
			t.Fatal(out.String())
		}
		testenv.UntilNil(t, "its code is that of its file", func() error {
			if got, want := code(t, path, pid); !stdbytes.Equal(got, want) {
				return fmt.Errorf("%d breakpoints are left", stdbytes.Count(got, []byte{0xcc}))
			}
			return nil
		})
	}
}
