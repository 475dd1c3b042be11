package process

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"endoscope/planner/plan"
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
	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
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
