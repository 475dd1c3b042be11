package handlersuite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"endoscope/probes/testenv"
)

func init() {
	programs = append(programs,
		program{
			name: "Java", start: func(t *testing.T) (int, []string) { return startJava(t, "Server") },
			want: []string{"app.Server.process", "app.Server$Reader.handleMessage", "app.Server$Tick.run"},
		},
		program{
			name: "Java, thread pool", start: func(t *testing.T) (int, []string) { return startJava(t, "Pool") },
			want: []string{"app.Pool$IndexJob.run", "app.Pool.compress", "app.Pool.flush", "app.Pool$Inbox.handle", "app.Pool$Pages.index"},
			// Called for each message.
			also: []string{"app.Pool$Inbox.log"},
			// Called for output, for timestamps, and by compiler-generated code.
			never: []string{"app.Pool$Message.toString", "app.Pool$Clock.currentTimeMillis", "app.Pool.lambda$main$0", "app.Pool.access$000"},
		},
		program{
			name: "Python", start: func(t *testing.T) (int, []string) {
				return testenv.Run(t, exec.Command(testenv.NeedProgram(t, "/usr/bin/python3"), "testdata/server.py")), nil
			},
			want: []string{"process", "handle", "resize", "Service.on_readable"},
		},
		program{
			name: "Node", start: func(t *testing.T) (int, []string) {
				script, err := filepath.Abs("testdata/server.js")
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(testenv.NeedProgram(t, "node"), "--perf-basic-prof", script)
				cmd.Dir = t.TempDir() // it writes a log
				pid := testenv.Run(t, cmd)
				t.Cleanup(func() { os.Remove(fmt.Sprintf("/tmp/perf-%d.map", pid)) })
				testenv.Until(t, "it says where its functions are", func() bool {
					_, err := os.Stat(fmt.Sprintf("/tmp/perf-%d.map", pid))
					return err == nil
				})
				return pid, nil
			},
			want: []string{"onMessage", "onTick", "onRequest"},
			also: []string{"ping", "fetchPage"}, // called by timers; they take little time
		},
	)
}

// startJava compiles and starts a class of testdata/java.
func startJava(t *testing.T, class string) (int, []string) {
	t.Helper()
	dir := testenv.CompileJava(t, "testdata/java/app/"+class+".java")
	pid := testenv.Run(t, exec.Command(testenv.NeedProgram(t, "java"), "-Xmx256m", "-cp", dir, "app."+class))
	testenv.ForgetJava(t, pid)
	testenv.Until(t, "it handles SIGQUIT", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, caught, _ := strings.Cut(string(status), "SigCgt:\t")
		caught, _, _ = strings.Cut(caught, "\n")
		signals, err := strconv.ParseUint(caught, 16, 64)
		return err == nil && signals&(1<<(syscall.SIGQUIT-1)) != 0
	})
	return pid, []string{"java_stacks = 'threaddump'", "stack_overhead = 10%"}
}
