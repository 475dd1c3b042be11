package client

import (
	"os"
	"path/filepath"
	"testing"
)

// top takes the whole screen, answers keys, and gives the terminal back.
func TestTop(t *testing.T) {
	x := newTerminal(t, "top", "-p", "42")
	x.expect("pid 42")
	x.expect("overhead")
	x.expect("within 1 %")
	x.expect("work")
	x.expect("~400us") // an estimate
	x.send("/")
	x.expect("filter:")
	x.send("wo\r")
	x.expect("/wo")
	x.send("\r")
	x.expect("callers of 2 calls")
	x.expect("arg0")
	x.send("\x1b")
	x.expect("TREND")
	x.send("q")
	x.expect("\x1b[?1049l") // the first screen is restored
	x.exit(0)
	if after := x.modes(); after != x.before {
		t.Errorf("modes after the end %+v, before %+v", after, x.before)
	}
}

// On a terminal flame writes a file whose name says what it shows.
func TestFlameNamesItsFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	x := newTerminal(t, "flame", "--process", "redis/../server")
	x.expect("shows 200 samples of threads that were on a CPU (3 of them); the stacks of 1 end before")
	x.exit(0)
	files, err := filepath.Glob(filepath.Join(dir, "flame-redis-..-server-*.svg"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if text, err := os.ReadFile(files[0]); err != nil || string(text) != "<svg/>\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// The statements of rc run before the first prompt; an error in it is shown and is not the
// end.
func TestStartupFile(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	if err := os.MkdirAll(filepath.Join(config, "endoscope"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "endoscope", "rc"), []byte("\\timing\nSELECT * FROM nowhere;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := newTerminal(t)
	x.expect("Timing is on.")
	x.expect("there is no stream nowhere")
	x.expect("endoscope> ")
	x.send("SELECT * FROM noisy;\r")
	x.expect("time: ")
	x.send("\\q\r")
	x.exit(0)
}
