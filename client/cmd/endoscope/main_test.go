package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"endoscope/probes/testenv"
	"endoscope/server/daemon"
)

// TestMain lets scripts run the test binary as "endoscope" and as the daemon
// "endoscoped".
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"endoscope": connected, "endoscoped": daemonMain})
}

// askDaemon is the environment variable that makes "endoscope" in scripts use a
// daemon started for it in the same directory. Without it, it uses its own engine.
const askDaemon = "ENDOSCOPE_TEST_DAEMON"

func connected() {
	if os.Getenv(askDaemon) == "" || slices.Contains(os.Args, "demo") {
		main()
	}
	addr, stop, err := startDaemon()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := program().Run(context.Background(), append([]string{"--connect", addr}, os.Args[1:]...))
	stop()
	os.Exit(code)
}

// startDaemon starts a daemon for this process.
func startDaemon() (addr string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "endoscope")
	if err != nil {
		return "", nil, err
	}
	socket := filepath.Join(dir, "socket")
	me, err := user.Current() // root is always an admin
	if err != nil {
		return "", nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", nil, err
	}
	users := fmt.Sprintf("user %s\n role admin\n unix %s\n grants commands models\n read %s\n write %s\n", me.Username, me.Username, here, here)
	if err := os.WriteFile(filepath.Join(dir, "users"), []byte(users), 0o600); err != nil {
		return "", nil, err
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(os.Args[0]), "endoscoped"), "--unix", socket, "--config", dir, "--client-timeout", "5m")
	// Signals for the client's group do not reach the daemon; it ends with the
	// client.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	logs, err := cmd.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	lines := bufio.NewScanner(logs)
	for lines.Scan() && !strings.Contains(lines.Text(), "listening") {
	}
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	return "unix:" + socket, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}, lines.Err()
}

func daemonMain() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	os.Exit(daemon.Program{}.Run(ctx, os.Args[1:]))
}

// eachMode runs scripts with an engine in the command's own process and with one in a
// daemon: the user sees the same. In short mode the latter is left out.
func eachMode(t *testing.T, dir string, setup func(*testscript.Env)) {
	for _, way := range testenv.Few(1, []string{"here", "remote"}) {
		t.Run(way, func(t *testing.T) {
			testenv.Interruptible(t)
			testscript.Run(t, testscript.Params{
				Dir:           dir,
				UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "" && way == "here",
				Setup: func(e *testscript.Env) error {
					if setup != nil {
						setup(e)
					}
					if way == "remote" {
						e.Setenv(askDaemon, "1")
					}
					return nil
				},
			})
		})
	}
}

// TestScript runs the sessions of testdata/script: the command with its real engine.
func TestScript(t *testing.T) { eachMode(t, "testdata/script", nil) }

// TestProbeScript runs the sessions that attach probes. $TARGET is a compiled
// testdata/target.c, $BUSY testdata/busy.c, $SEED4
// testdata/seed4.c.
func TestProbeScript(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileC(t, "testdata/target.c", "-O1", "-fno-inline")
	busy := testenv.CompileC(t, "testdata/busy.c", "-O1")
	seed4 := testenv.CompileC(t, "testdata/seed4.c", "-O1", "-fno-inline", "-fno-optimize-sibling-calls", "-pthread")
	eachMode(t, "testdata/probe", func(e *testscript.Env) {
		e.Setenv("TARGET", target)
		e.Setenv("BUSY", busy)
		e.Setenv("SEED4", seed4)
		e.Setenv("HOME", os.Getenv("HOME"))
	})
}
