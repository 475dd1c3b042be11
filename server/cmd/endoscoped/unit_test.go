package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"endoscope/probes/testenv"
)

var capabilities = map[string]uintptr{"CAP_BPF": unix.CAP_BPF, "CAP_PERFMON": unix.CAP_PERFMON, "CAP_SYS_PTRACE": unix.CAP_SYS_PTRACE,
	"CAP_DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH, "CAP_CHECKPOINT_RESTORE": unix.CAP_CHECKPOINT_RESTORE}

// uid is the daemon's.
const uid = 51999

// unitCapabilities are those of the unit file.
func unitCapabilities(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("endoscoped.service")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^(AmbientCapabilities|CapabilityBoundingSet)=(.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(lines) != 2 || lines[0][2] != lines[1][2] {
		t.Fatalf("the unit's capabilities are %q", lines)
	}
	return strings.Fields(lines[0][2])
}

// serve runs the daemon as a user of the machine with some capabilities, and
// connects to it. Whoever starts it is told when it is ready, as systemd is.
func serve(t *testing.T, program string, caps []string) *flightsql.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "endoscoped")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	if err := os.Chmod(filepath.Join(dir, "notify"), 0o666); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(program, "--unix", socket, "--config", filepath.Join(dir, "none"))
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(filepath.Dir(program), "cache"), "NOTIFY_SOCKET="+filepath.Join(dir, "notify"))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	for _, c := range caps {
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, capabilities[c])
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the daemon: %v", err)
		}
	})
	_ = told.SetDeadline(time.Now().Add(2 * time.Minute))
	b := make([]byte, 100)
	if n, err := told.Read(b); err != nil || string(b[:n]) != "READY=1" {
		t.Fatalf("told %q: %v", b[:n], err)
	}
	c, err := flightsql.NewClient("unix:"+socket, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// number runs a query that gives one number.
func number(c *flightsql.Client, query string) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	info, err := c.Execute(ctx, query)
	if err != nil {
		return 0, err
	}
	r, err := c.DoGet(ctx, info.Endpoint[0].Ticket)
	if err != nil {
		return 0, err
	}
	defer r.Release()
	var n int64
	for r.Next() {
		if a, ok := r.RecordBatch().Column(0).(*array.Int64); ok && a.Len() > 0 && a.IsValid(0) {
			n = a.Value(0)
		}
	}
	return n, r.Err()
}

// TestCapabilities holds what the unit file says of them: with all the daemon can
// do everything, for processes of any user, and without each something fails.
func TestCapabilities(t *testing.T) {
	testenv.NeedUprobes(t)
	dir, err := os.MkdirTemp("", "endoscoped")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := testenv.CopyFile(t, testenv.Command(t, "."), filepath.Join(dir, "endoscoped"))
	library := testenv.CompileCText(t, `int libwork(int i) { __asm__ volatile(""); return i + 1; }`, "-shared", "-fPIC", "-O1")
	target := testenv.CompileCText(t, `#include <unistd.h>
#include <dlfcn.h>
__attribute__((noinline)) int work(int i) { __asm__ volatile(""); return i + 1; }
int main(int n, char **args) {
	int (*libwork)(int) = (int (*)(int))dlsym(dlopen(args[1], RTLD_NOW), "libwork");
	volatile int s = 0;
	for (;;) { s = work(s); s = libwork(s); usleep(1000); }
}`, "-O1", "-fno-inline")
	for _, err := range []error{os.Chmod(dir, 0o755), os.Chmod(program, 0o755), os.Rename(library, filepath.Join(dir, "libw.so")), os.Rename(target, filepath.Join(dir, "es-target"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	victim := exec.Command(filepath.Join(dir, "es-target"), filepath.Join(dir, "libw.so"))
	victim.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 51234, Gid: 51234}}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { victim.Process.Kill(); victim.Wait() })
	testenv.Until(t, "the program has loaded its library", func() bool {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", victim.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(maps), "libw.so")
	})
	if err := os.Remove(filepath.Join(dir, "libw.so")); err != nil { // as an upgrade does
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "cache"), 0o755), os.Chown(filepath.Join(dir, "cache"), uid, uid)); err != nil {
		t.Fatal(err)
	}
	of := fmt.Sprintf(" WHERE pid = %d", victim.Process.Pid)
	queries := map[string]string{
		"functions":           "SELECT tid FROM function_duration" + of + " AND function_name = 'work' LIMIT 1",
		"a replaced library":  "SELECT tid FROM function_start" + of + " AND module = 'libw.so' AND function_name = 'libwork' LIMIT 1",
		"stacks":              "SELECT COUNT(*) FROM SAMPLE(stack_sample, 10ms)" + of,
		"files of a process":  "SELECT MAX(open_files) FROM SAMPLE(process_usage, 10ms)" + of,
		"bytes of a process":  "SELECT COUNT(read_bytes) FROM SAMPLE(process_usage, 10ms)" + of,
		"the machine's usage": "SELECT COUNT(*) FROM SAMPLE(cpu_usage, 10ms)",
	}
	working := func(caps []string) (names []string) {
		c := serve(t, program, caps)
		var mu sync.Mutex
		var all sync.WaitGroup
		for name, query := range queries {
			all.Go(func() {
				for _, long := range []string{" FOR 200ms", " FOR 5s"} { // nothing may be seen in a short time
					if strings.HasSuffix(query, " LIMIT 1") { // of a program that may have no processor for a while
						long = ""
					}
					n, err := number(c, query+long)
					if err != nil {
						return
					}
					if n > 0 {
						mu.Lock()
						names = append(names, name)
						mu.Unlock()
						return
					}
				}
			})
		}
		all.Wait()
		slices.Sort(names)
		return names
	}
	all := unitCapabilities(t)
	everything := working(all)
	if len(everything) != len(queries) {
		t.Fatalf("with the unit's capabilities only these work: %q", everything)
	}
	fail := map[string][]string{
		"CAP_BPF":                {"a replaced library", "functions", "stacks"},
		"CAP_PERFMON":            {"a replaced library", "functions", "stacks"},
		"CAP_SYS_PTRACE":         {"a replaced library", "bytes of a process", "functions", "stacks"},
		"CAP_DAC_READ_SEARCH":    {"a replaced library", "bytes of a process", "functions"},
		"CAP_CHECKPOINT_RESTORE": {"a replaced library"},
	}
	for _, without := range all {
		var failing []string
		works := working(slices.DeleteFunc(slices.Clone(all), func(c string) bool { return c == without }))
		for _, name := range everything {
			if !slices.Contains(works, name) {
				failing = append(failing, name)
			}
		}
		if !slices.Equal(failing, fail[without]) {
			t.Errorf("without %s these fail: %q, want %q", without, failing, fail[without])
		}
	}
}
