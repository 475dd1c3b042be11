package process

import (
	"os/exec"
	"testing"
	"time"

	"endoscope/probes/testenv"

	"go.uber.org/goleak"
)

// within fails the test if c is not closed soon.
func within(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(2 * time.Minute):
		t.Fatalf("two minutes later still not: %s", what)
	}
}

func TestWatch(t *testing.T) {
	defer goleak.VerifyNone(t)
	sleep := testenv.NeedProgram(t, "sleep")
	var cmds []*exec.Cmd
	var ends []<-chan struct{}
	for range 3 {
		cmd := exec.Command(sleep, "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended, cancel, err := Watch(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if len(cmds) == 2 { // the watch of the third is cancelled
			cancel()
		}
		defer cancel()
		cmds, ends = append(cmds, cmd), append(ends, ended)
	}
	cmds[0].Process.Kill()
	within(t, ends[0], "the end of a killed process, before anybody waits for it")
	select {
	case <-ends[1]:
		t.Error("the end of one process was taken for another's")
	default:
	}
	for _, cmd := range cmds {
		cmd.Process.Kill()
		cmd.Wait()
	}
	within(t, ends[1], "the end of the second process")
	select {
	case <-ends[2]:
		t.Error("the channel of a watch given up was closed")
	case <-time.After(20 * time.Millisecond):
	}
	if _, _, err := Watch(cmds[0].Process.Pid); err == nil {
		t.Error("a process that is gone can be watched")
	}
}
