package client

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"endoscope/client/internal/fake"
)

// TestMain makes the command, joined to the fake engine, a program that
// scripts and other tests can start. With SIGNAL=late it gets a SIGINT when it has
// done everything.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"endoscope": func() {
			p := Program{Open: fake.New, Version: "v0-test"}
			code := p.Run(context.Background(), os.Args[1:])
			if os.Getenv("SIGNAL") == "late" {
				_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
				time.Sleep(100 * time.Millisecond) // in which the signal would end it
			}
			os.Exit(code)
		},
	})
}

// TestScripts runs whole sessions against the fake engine: every file of
// testdata/script is one. UPDATE_SCRIPTS=1 rewrites what they compare with.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
	})
}
