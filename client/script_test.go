package client

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"endoscope/client/internal/fake"
	"endoscope/probes/testenv"
)

// TestMain lets the test binary run as the command with the fake engine, so that
// scripts and other tests can start it. With SIGNAL=late it receives a SIGINT after
// it has done everything.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"endoscope": func() {
			p := Program{Open: fake.New, Version: "v0-test"}
			code := p.Run(context.Background(), os.Args[1:])
			if os.Getenv("SIGNAL") == "late" {
				_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
				time.Sleep(100 * time.Millisecond) // an unhandled signal would end the process
			}
			os.Exit(code)
		},
	})
}

// TestScripts runs whole sessions with the fake engine, one for each file of
// testdata/script. UPDATE_SCRIPTS=1 rewrites the expected output.
func TestScripts(t *testing.T) {
	testenv.Interruptible(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
	})
}
