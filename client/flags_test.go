package client

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// parseFlags parses a command line without running it.
func parseFlags(args []string) (*flags, error) {
	var p Program
	c := p.root()
	c.ResetFlags()
	f := p.define(c, flagGroups...)
	c.RunE = func(c *cobra.Command, args []string) error { return cmp.Or(f.arguments(c, args), f.check()) }
	c.SetArgs(args)
	return f, c.Execute()
}

// A second target is rejected rather than silently replacing the first.
func TestOneTarget(t *testing.T) {
	for line, want := range map[string]string{
		"-p 1 -p 2":                                 "-p can be given once",
		"-p1 --pid=2":                               "-p can be given once",
		"--process a --process b":                   "--process can be given once",
		"--exe /a -c SELECT --exe=":                 "--exe can be given once",
		"--connect a:1 --connect b:1 --connect a:1": "--connect a:1 is given twice",
		"-p 1 --exe /a":                             "-p and --exe exclude each other",
		"--fleet http://x":                          "--fleet: \"http://x\" is not the URL of a NATS server",
	} {
		if _, err := parseFlags(strings.Fields(line)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", line, err)
		}
	}
	if f, err := parseFlags([]string{"-p", "7", "-c", "a", "-c", "b"}); err != nil || f.pid != 7 || len(f.scripts) != 2 {
		t.Errorf("a target and two statements: %+v, %v", f, err)
	}
}

// A FIFO without a writer does not keep the program from ending.
func TestScriptThatDoesNotOpen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f, err := openScript(ctx, name); !errors.Is(err, context.Canceled) {
		t.Errorf("opened: %v, %v", f, err)
	}
	w, err := os.OpenFile(name, os.O_RDWR, 0) // so that a pending open returns
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
}
