package fleet_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Parts of a fleet that run in processes of their own are this test's program with the
// part's name and its options, in JSON, in the environment. A part says in one line of its
// output that it is ready, and ends with its input.
const (
	partName    = "ENDOSCOPE_FLEET_PART"
	partOptions = "ENDOSCOPE_FLEET_OPTIONS"
)

var processParts = map[string]func(options []byte) error{
	"hosts":   simulateHosts,
	"server":  runServer,
	"host":    runHost,
	"reducer": runReducer,
}

func TestMain(m *testing.M) {
	if name := os.Getenv(partName); name != "" {
		if err := processParts[name]([]byte(os.Getenv(partOptions))); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// ready says that a part is ready, and returns when it is to end.
func ready(line string) {
	fmt.Println(line)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// process is a part that runs.
type process struct {
	*exec.Cmd
	said string // its line
	in   io.Closer
}

// startProcess starts a part with a command in front of it, such as ip netns exec.
func startProcess(t testing.TB, name string, options any, before ...string) *process {
	t.Helper()
	o, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(before, self)
	p := &process{Cmd: exec.Command(args[0], args[1:]...)}
	p.Env = append(os.Environ(), partName+"="+name, partOptions+"="+string(o))
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	if p.said, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%s does not start: %v", name, err)
	}
	p.said = strings.TrimSpace(p.said)
	return p
}

// end ends the part in order.
func (p *process) end() {
	_ = p.in.Close()
	_ = p.Wait()
}

// kill ends the part at once.
func (p *process) kill() {
	_ = p.Process.Kill()
	p.end()
}
