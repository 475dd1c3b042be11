package process

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
)

func TestGroupByPIDExcludesALaterProcessWithThePID(t *testing.T) {
	own, _ := Lookup(os.Getpid())
	parent, _ := Lookup(os.Getppid())
	g := NewGroup(plan.Target{PIDs: []int{own.PID}}, []Process{own, parent})
	found, err := g.Candidates()
	if err != nil || len(found) != 1 || found[0].PID != own.PID {
		t.Fatalf("candidates: %v, %v", found, err)
	}
	later := own
	later.StartTime++
	if !g.Includes(own) || g.Includes(later) || g.Includes(parent) {
		t.Errorf("included: own %v, later with its pid %v, parent %v", g.Includes(own), g.Includes(later), g.Includes(parent))
	}
}

func TestGroupByNameIncludesProcessesThatStartLater(t *testing.T) {
	g := NewGroup(plan.Target{Processes: []string{"sleep"}}, nil)
	c := start(t, "sleep", "1000")
	all, err := g.Candidates()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(p Process) bool { return p.PID == c.Process.Pid })
	if i < 0 || !g.Includes(all[i]) {
		t.Errorf("the process is not in the group")
	}
}

func TestWatchAllSignalsWhenTheLastProcessEnds(t *testing.T) {
	var pids []int
	var started []*exec.Cmd
	for range 2 {
		c := exec.Command("sleep", "1000")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { c.Process.Kill(); c.Wait() }()
		pids, started = append(pids, c.Process.Pid), append(started, c)
	}
	var asked []int
	ended, cancel := WatchAll(pids, func(pid int, err error) bool {
		asked = append(asked, pid)
		return err == nil
	})
	defer cancel()
	if !slices.Equal(asked, pids) {
		t.Errorf("asked about %v of %v", asked, pids)
	}
	started[1].Process.Kill()
	started[1].Wait()
	select {
	case <-ended:
		t.Error("signalled although a process runs")
	default:
	}
	started[0].Process.Kill()
	started[0].Wait()
	<-ended
}

// A group of descendants holds those that have lost their parents since they were found.
func TestGroupOfDescendants(t *testing.T) {
	c := exec.Command("sh", "-c", `(sleep 1000 & echo $!; read x; exec 1>&-) ; read y`)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	var sleeper int
	if _, err := fmt.Fscan(out, &sleeper); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(sleeper, syscall.SIGKILL)
	shell, _ := Lookup(c.Process.Pid)
	pids := func(g *Group) (list []int) {
		all, err := g.Candidates()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if g.Includes(p) {
				list = append(list, p.PID)
			}
		}
		return list
	}
	only := NewGroup(plan.Target{PIDs: []int{shell.PID}}, []Process{shell})
	g := NewGroup(plan.Target{PIDs: []int{shell.PID}, Follow: true}, []Process{shell})
	if got := pids(g); len(got) != 3 || !slices.Contains(got, shell.PID) || !slices.Contains(got, sleeper) || !slices.IsSorted(got) {
		t.Errorf("processes %v, want %d, its subshell and %d", got, shell.PID, sleeper)
	}
	if got := pids(only); !slices.Equal(got, []int{shell.PID}) {
		t.Errorf("without descendants: processes %v, want %d", got, shell.PID)
	}
	c.Process.Kill()
	fmt.Fprintln(in) // ends the subshell
	testenv.Until(t, "the subshell has ended", func() bool { return len(Descendants([]int{shell.PID})) == 0 })
	c.Wait()
	testenv.Until(t, "only the orphan is left", func() bool { return slices.Equal(pids(g), []int{sleeper}) })
	if got := pids(only); len(got) > 0 {
		t.Errorf("without descendants: processes %v", got)
	}
}
