package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"endoscope/probes/testenv"
)

// TestMain lets scripts run this very program as "endoscope".
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"endoscope": main})
}

// TestScript runs the sessions of testdata/script: the command with its real
// engine, as a user sees it.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != ""})
}

// TestProbeScript runs the sessions that attach probes. $TARGET is a compiled
// testdata/target.c, $BUSY testdata/busy.c, $SEED4
// testdata/seed4.c.
func TestProbeScript(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileC(t, "testdata/target.c", "-O1", "-fno-inline")
	busy := testenv.CompileC(t, "testdata/busy.c", "-O1")
	seed4 := testenv.CompileC(t, "testdata/seed4.c", "-O1", "-fno-inline", "-fno-optimize-sibling-calls", "-pthread")
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/probe",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("TARGET", target)
			e.Setenv("BUSY", busy)
			e.Setenv("SEED4", seed4)
			e.Setenv("HOME", os.Getenv("HOME"))
			return nil
		},
	})
}
