package java

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// A machine with frame pointers writes its methods; one without is refused, and
// writes nothing. Another file at the path is left alone.
func TestWritePerfMap(t *testing.T) {
	for option, want := range map[string]error{"-XX:+PreserveFramePointer": nil, "-XX:-PreserveFramePointer": ErrFramePointers} {
		cmd := start(t, option, "-Xcomp", "-XX:TieredStopAtLevel=1", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Waits::*")
		pid := cmd.Process.Pid
		path := fmt.Sprintf("/tmp/perf-%d.map", pid)
		m, err := Attach(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := m.WritePerfMap(); !errors.Is(err, want) {
			t.Errorf("%s: error %v", option, err)
		}
		text, err := os.ReadFile(path)
		if want == nil && (err != nil || !strings.Contains(string(text), " void Waits.deep(int)\n") || !strings.Contains(string(text), "Interpreter")) {
			t.Errorf("%s: error %v, map %.2000s", option, err, text)
		}
		if want != nil {
			if err == nil {
				t.Errorf("%s: it has written %.200s", option, text)
			}
			continue
		}
		elsewhere := t.TempDir() + "/elsewhere"
		if err := errors.Join(os.Remove(path), os.Symlink(elsewhere, path)); err != nil {
			t.Fatal(err)
		}
		if _, err := m.WritePerfMap(); !errors.Is(err, ErrPlanted) {
			t.Errorf("through a symbolic link: error %v", err)
		}
		if _, err := os.Lstat(elsewhere); err == nil {
			t.Error("a symbolic link was followed")
		}
	}
}
