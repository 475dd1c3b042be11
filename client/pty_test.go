package client

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// terminal is the command on a pseudo-terminal.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File // kept open to inspect the terminal's modes
	output chan string
	seen   strings.Builder
	from   int // end of the output matched by expect
	state  string
	before unix.Termios // the modes before the program was started
}

func newTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs pseudo-terminals: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, slave: slave, output: make(chan string), state: t.TempDir()}
	term.cmd = exec.Command("endoscope", args...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.Env = append(os.Environ(), "TERM=xterm", "XDG_STATE_HOME="+term.state, "INPUTRC=/dev/null", "NO_COLOR=")
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	term.before = term.modes()
	testenv.Interruptible(t)
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(term.output)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			term.output <- string(buf[:n])
		}
	}()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill()
		_ = slave.Close()
		_ = master.Close()
		for range term.output {
		}
	})
	return term
}

func (x *terminal) send(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// expect waits until text is shown after the text expected before.
func (x *terminal) expect(text string) {
	x.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		if i := strings.Index(x.seen.String()[x.from:], text); i >= 0 {
			x.from += i + len(text)
			return
		}
		select {
		case out := <-x.output:
			x.seen.WriteString(out)
		case <-deadline:
			x.t.Fatalf("%q is not shown, but\n%q", text, x.seen.String()[x.from:])
		}
	}
}

// exit waits for the command to exit with code.
func (x *terminal) exit(code int) {
	x.t.Helper()
	done := make(chan error, 1)
	go func() { done <- x.cmd.Wait() }()
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case <-done:
			if got := x.cmd.ProcessState.ExitCode(); got != code {
				x.t.Fatalf("%v, want exit code %d", x.cmd.ProcessState, code)
			}
			return
		case out := <-x.output:
			x.seen.WriteString(out)
		case <-deadline:
			x.t.Fatalf("still running; it shows\n%q", x.seen.String()[x.from:])
		}
	}
}

func (x *terminal) modes() unix.Termios {
	x.t.Helper()
	m, err := unix.IoctlGetTermios(int(x.slave.Fd()), unix.TCGETS)
	if err != nil {
		x.t.Fatal(err)
	}
	return *m
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	up    = "\x1b[A"
)

func TestPrompt(t *testing.T) {
	x := newTerminal(t)
	x.expect("endoscope> ")

	// A statement extends over lines up to its semicolon.
	x.send("SELECT *\r")
	x.send("FROM calls;\r")
	x.expect(" function_name  | duration")
	x.expect(" fib            |   1.23ms")
	x.expect("3 rows in 1.23s, complete")
	x.expect("endoscope> ")

	// Tab completes; keys typed in quick succession are not lost.
	x.send("sel\t * from cal\t;\r")
	x.expect("3 rows in 1.23s, complete")
	x.expect("endoscope> ")

	// Ctrl-C discards the line being edited.
	x.send("SELECT nonsense")
	x.expect("nonsense")
	x.send(ctrlC)
	x.expect("endoscope> ")

	// A preview of a running total is redrawn; Ctrl-C ends it with its result.
	x.send("SELECT * FROM totals;\r")
	x.expect(" fib           |   1.00ms")
	x.expect("\x1b[3A\x1b[J")
	x.expect(" fib           |   2.00ms")
	x.send(ctrlC)
	x.expect(" total         |    1.00s")
	x.expect("1 row in 1.23s, complete")
	x.expect("endoscope> ")

	// An error is shown with its position; the prompt returns.
	x.send("SELECT * FROM nowhere;\r")
	x.expect("error: there is no stream nowhere\r\n  SELECT * FROM nowhere;\r\n                ^\r\nhint: SHOW STREAMS lists them")
	x.expect("endoscope> ")
	x.send("\\frobnicate\r")
	x.expect("error: there is no command \\frobnicate")
	x.expect("endoscope> ")

	// The history contains whole statements.
	x.send(up + up + up + up + "\r")
	x.expect("3 rows in 1.23s, complete")
	x.expect("endoscope> ")

	x.send(ctrlD)
	x.exit(0)

	path := filepath.Join(x.state, "endoscope", "history")
	history, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(history), `SELECT *\nFROM calls;`) || strings.Contains(string(history), "nonsense") {
		t.Errorf("history has %s, %v", history, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("history: %v, %v", info, err)
	}
}

// A topic longer than the screen is shown by the pager; a shorter one is not.
func TestManualIsPaged(t *testing.T) {
	t.Setenv("PAGER", "sed -n s/^SET.changes.*/paged/p")
	x := newTerminal(t, "help", "settings")
	x.expect("paged\r\n")
	x.exit(0)
	if strings.Contains(x.seen.String(), "max_probes") {
		t.Errorf("the text is shown beside its pager: %q", x.seen.String())
	}

	x = newTerminal(t)
	x.expect("endoscope> ")
	x.send("\\help settings\r")
	x.expect("paged\r\n")
	x.expect("endoscope> ")
	x.send("\\h max_probes\r")
	x.expect("Default: 10000")
	x.expect("endoscope> ")

	x.send("\\q\r")
	x.exit(0)

	t.Setenv("PAGER", "no-such-program")
	x = newTerminal(t, "help", "settings")
	x.expect("max_probes")
	x.exit(0)
}

func TestTerminationAtThePromptGivesTheTerminalBack(t *testing.T) {
	x := newTerminal(t)
	x.expect("endoscope> ")
	testenv.Until(t, "the prompt has set the terminal's modes", func() bool { return x.modes() != x.before })
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.exit(0)
	if after := x.modes(); after != x.before {
		t.Errorf("modes after the end %+v, before %+v", after, x.before)
	}
}

func TestDemoGreets(t *testing.T) {
	x := newTerminal(t, "demo")
	x.expect("A demo program is running (pid ")
	x.expect("WHERE function_name = 'process_job' AND duration > 20ms LIMIT 5;")
	x.expect("endoscope> ")
	x.send("\\conninfo\r")
	x.expect("target: pid ")
	x.expect("endoscope> ")
	x.send("\\q\r")
	x.exit(0)
}

// If rows go to a file, prompts and messages still go to the terminal.
func TestPromptWithRowsElsewhere(t *testing.T) {
	x := newTerminal(t) // only for its slave
	x.expect("endoscope> ")
	x.send(ctrlD)
	x.exit(0)

	rows := filepath.Join(t.TempDir(), "rows")
	out, err := os.Create(rows)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("endoscope")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.slave, out, x.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x.cmd = cmd
	x.expect("endoscope> ")
	x.send("SELECT * FROM\n")
	x.expect("      ...> ")
	x.send("calls;\n")
	x.expect("3 rows in 1.23s, complete")
	x.expect("endoscope> ")
	x.send(ctrlD)
	x.exit(0)
	if got, err := os.ReadFile(rows); err != nil || !strings.HasPrefix(string(got), "function_name,duration\nfib,1234567\n") {
		t.Errorf("rows %q, %v", got, err)
	}
}
