package demo

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"endoscope/probes/testenv"
)

// Functions named by the first queries and the documentation.
var named = []string{
	"cache_evict", "cache_get", "cache_put", "checksum", "dequeue_job", "enqueue_job", "fib",
	"handle_request", "lock_stats", "on_timer", "process_job", "read_request", "send_request",
	"unlock_stats", "update_stats",
}

func TestProgramIsSmallAndCanBeLookedInto(t *testing.T) {
	if len(program) > 60<<10 {
		t.Errorf("the embedded program has %d bytes, more than 60 KiB", len(program))
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	have := functions(t, f)
	for _, name := range named {
		if !slices.Contains(have, name) {
			t.Errorf("function %s is not in .symtab", name)
		}
	}
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	if got := parameters(t, d, "handle_request"); !slices.Equal(got, []string{"path"}) {
		t.Errorf("handle_request has the parameters %v in DWARF, want path", got)
	}
	if got := parameters(t, d, "process_job"); !slices.Equal(got, []string{"id", "size"}) {
		t.Errorf("process_job has the parameters %v in DWARF, want id, size", got)
	}
	// A personality routine in a CIE ("zPLR") would rule out return traps.
	if frames, err := f.Section(".eh_frame").Data(); err != nil || bytes.Contains(frames, []byte("zPLR")) {
		t.Errorf(".eh_frame names a personality routine, or cannot be read: %v", err)
	}
	if bytes.Contains(program, []byte("/client/demo")) {
		t.Error("the program contains the directory that it was built in")
	}
}

// go generate builds the embedded program; this test fails if the functions of its
// source have changed since.
func TestProgramIsBuiltFromItsSource(t *testing.T) {
	built, err := elf.Open(testenv.CompileC(t, "target/demo.c", "-O1", "-g", "-fno-inline", "-pthread"))
	if err != nil {
		t.Fatal(err)
	}
	defer built.Close()
	embedded, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	if want, got := functions(t, built), functions(t, embedded); !slices.Equal(want, got) {
		t.Errorf("run go generate: target/demo.c has functions\n%v\nthe embedded program\n%v", want, got)
	}
}

func TestTargetRunsNamedThreadsAndEndsWithItsInput(t *testing.T) {
	target, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer target.Stop()
	want := []string{"client", "endoscope-demo", "reader", "timer", "worker-1", "worker-2"}
	testenv.UntilNil(t, "the threads have named themselves", func() error {
		if got := threads(t, target.PID()); !slices.Equal(got, want) {
			return fmt.Errorf("threads %v, want %v", got, want)
		}
		return nil
	})
	if group, err := syscall.Getpgid(target.PID()); err != nil || group != target.PID() {
		t.Errorf("the program is in process group %d, %v: Ctrl-C would end it", group, err)
	}
	if err := target.stdin.Close(); err != nil { // as when its parent is killed
		t.Fatal(err)
	}
	state, err := target.cmd.Process.Wait()
	if err != nil || !state.Success() {
		t.Errorf("after its input ended the program gave %v, %v; want exit status 0", state, err)
	}
}

func TestStopLeavesNothing(t *testing.T) {
	target, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	pid := target.PID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := target.Stop(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d is still there: %v", pid, err)
	}
	if _, err := os.Stat(target.dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", target.dir, err)
	}
}

func functions(t *testing.T, f *elf.File) (names []string) {
	t.Helper()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

func parameters(t *testing.T, d *dwarf.Data, function string) (names []string) {
	t.Helper()
	r, inside := d.Reader(), false
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return names
		}
		switch e.Tag {
		case dwarf.TagSubprogram:
			inside = e.Val(dwarf.AttrName) == function
		case dwarf.TagFormalParameter:
			if name, ok := e.Val(dwarf.AttrName).(string); inside && ok {
				names = append(names, name)
			}
		}
	}
}

func threads(t *testing.T, pid int) (names []string) {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/comm", pid, task.Name()))
		if err != nil {
			continue // the thread has ended
		}
		names = append(names, strings.TrimSpace(string(comm)))
	}
	slices.Sort(names)
	return names
}
