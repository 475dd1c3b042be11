package uprobe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	ebpflink "github.com/cilium/ebpf/link"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/internal/testplan"
)

// linkCount returns the number of links that probe the program at path, of any process,
// and of perf event links of this process, which do not identify their program.
func linkCount(t testing.TB, path string) int {
	t.Helper()
	n := 0
	it := new(ebpflink.Iterator)
	defer it.Close()
	for it.Next() {
		info, err := it.Link.Info()
		if err != nil {
			continue // closed meanwhile
		}
		if u := info.UprobeMulti(); u != nil && u.File == path {
			n++
		}
	}
	if err := it.Err(); errors.Is(err, unix.EAGAIN) {
		return linkCount(t, path) // another process is creating a link (bpf_link_by_id)
	} else if err != nil {
		t.Fatal(err)
	}
	infos, err := os.ReadDir("/proc/self/fdinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range infos {
		if b, _ := os.ReadFile("/proc/self/fdinfo/" + f.Name()); bytes.Contains(b, []byte("link_type:\tperf\n")) {
			n++
		}
	}
	return n
}

// isPatched reports whether a process has probes in the code of its program.
func isPatched(t testing.TB, r *running) bool {
	t.Helper()
	pid := r.cmd.Process.Pid
	proc, err := procfs.NewProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	maps, err := proc.ProcMaps()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(r.cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for _, m := range maps {
		if !m.Perms.Execute || m.Pathname != r.cmd.Path {
			continue
		}
		want := file[m.Offset:min(int(m.Offset)+int(m.EndAddr-m.StartAddr), len(file))]
		got := make([]byte, len(want))
		if _, err := memory.ReadAt(got, int64(m.StartAddr)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			return true
		}
	}
	return false
}

// attachEnv makes the test program attach to the target described in it, and hang.
const attachEnv = "ENDOSCOPE_TEST_ATTACH"

type attachOrder struct {
	PID       int
	Links     string
	Functions []string
}

func attachAndHang() {
	var o attachOrder
	if err := json.Unmarshal([]byte(os.Getenv(attachEnv)), &o); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	spec := testplan.Acquire(catalog.FunctionDuration, plan.Target{PIDs: []int{o.PID}}, testplan.Named(o.Functions...), "timestamp")
	p := New(Options{Match: testplan.Match, Links: o.Links, Prices: calls.Estimates})
	src, err := p.Prepare(context.Background(), spec)
	if err == nil {
		err = src.Start(context.Background(), newRecord(spec), probes.Options{})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("attached")
	select {}
}

// A monitor that is killed leaves nothing attached, and its target continues.
func TestKilledMonitorLeavesNothing(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	returnModes(t, func(t *testing.T, o Options) {
		r := run(t, target)
		if isPatched(t, r) {
			t.Fatal("the program has probes already, or cannot be compared with its file")
		}
		order, _ := json.Marshal(attachOrder{PID: r.cmd.Process.Pid, Links: o.Links, Functions: []string{"alpha", "beta"}})
		monitor := exec.Command(os.Args[0])
		monitor.Env = append(os.Environ(), attachEnv+"="+string(order))
		out, err := monitor.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := monitor.Start(); err != nil {
			t.Fatal(err)
		}
		defer monitor.Wait()
		defer monitor.Process.Kill()
		lines := bufio.NewScanner(out)
		if lines.Scan(); lines.Text() != "attached" {
			t.Fatalf("monitor said %q", lines.Text())
		}
		r.round()
		if !isPatched(t, r) {
			t.Fatal("the monitor attached nothing: the test tests nothing")
		}
		monitor.Process.Kill()
		monitor.Wait()
		// The kernel frees a dead process's files asynchronously.
		testenv.UntilNil(t, "nothing of the monitor is attached", func() error {
			if patched, links := isPatched(t, r), linkCount(t, target); patched || links != 0 {
				return fmt.Errorf("%d links remain; the code has probes: %v", links, patched)
			}
			return nil
		})
		r.round()
		r.finish(success)
	})
}
