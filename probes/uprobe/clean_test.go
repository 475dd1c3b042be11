package uprobe

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	ebpflink "github.com/cilium/ebpf/link"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
)

// linkCount is how many links probe the program at path, whoever made them.
func linkCount(t testing.TB, path string) int {
	t.Helper()
	n := 0
	it := new(ebpflink.Iterator)
	defer it.Close()
	for it.Next() {
		info, err := it.Link.Info()
		if err != nil {
			continue // gone meanwhile
		}
		if u := info.UprobeMulti(); u != nil && u.File == path {
			n++
		}
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// attachEnv makes the test program attach to what it describes, and hang.
const attachEnv = "ENDOSCOPE_TEST_ATTACH"

type attachOrder struct {
	PID       int
	Functions []string
}

func attachAndHang() {
	var o attachOrder
	if err := json.Unmarshal([]byte(os.Getenv(attachEnv)), &o); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	spec := acquisition(FunctionDuration, plan.Target{PIDs: []int{o.PID}}, named(o.Functions...), "timestamp")
	p := New(Options{Match: matchExpr})
	src, err := p.Prepare(context.Background(), spec)
	if err == nil {
		err = src.Start(context.Background(), newRecord(spec))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("attached")
	select {}
}

// A monitor that is killed leaves nothing attached, and its target unharmed.
func TestKilledMonitorLeavesNothing(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	r := run(t, target)
	order, _ := json.Marshal(attachOrder{PID: r.cmd.Process.Pid, Functions: []string{"alpha", "beta"}})
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
	if n := linkCount(t, target); n == 0 {
		t.Fatal("the monitor attached nothing: the test tests nothing")
	}
	monitor.Process.Kill()
	monitor.Wait()
	// The kernel frees a dead process's files on its own time.
	for deadline := time.Now().Add(5 * time.Second); linkCount(t, target) != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d links remain", linkCount(t, target))
		}
	}
	r.round()
	r.finish(success)
}
