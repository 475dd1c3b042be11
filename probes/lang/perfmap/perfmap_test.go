package perfmap

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// A process appends to its map while it is read: later code replaces earlier
// code at its addresses, malformed lines are skipped, and an incomplete line is
// read later.
func TestMap(t *testing.T) {
	testenv.NeedRoot(t)
	cmd := exec.Command(testenv.NeedProgram(t, "sleep"), "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	pid := cmd.Process.Pid
	if _, err := Open(pid); err == nil {
		t.Error("a process without a map has one")
	}
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	defer f.Close()
	fmt.Fprint(f, "1000 100 first\n2000 100 second of two\nnonsense\nzz 10 x\n3000 0 empty\n0x4000 0x10 hexa")
	m, err := Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	find := func(addr uint64, want string) {
		t.Helper()
		if e, _ := m.find(addr); addr < e.Start && want != "" || e.Name != want && want != "" || want == "" && e.End > addr && e.Start <= addr {
			t.Errorf("at %x there is %q, want %q", addr, e.Name, want)
		}
	}
	find(0x1000, "first")
	find(0x10ff, "first")
	find(0x1100, "")
	find(0x2050, "second of two")
	find(0x4000, "")
	fmt.Fprint(f, "decimal\n10f0 f20 over both\n")
	testenv.Until(t, "new code is found", func() bool {
		e, ok := m.Find(0x1800)
		return ok && e.Name == "over both"
	})
	find(0x1010, "")
	find(0x2050, "")
	find(0x4000, "hexadecimal")
	// A rewritten file, longer or not, is read by Renew.
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("5000 100 "+strings.Repeat("long", 80)+"\n1000 100 moved\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := m.Renew(); err != nil {
		t.Error(err)
	}
	find(0x1010, "moved")
	find(0x4000, "")
	if _, err := f.WriteAt([]byte("1000 100 other\n"), 0); err != nil {
		t.Fatal(err)
	}
	time.Sleep(again) // interval after which new code is looked for
	if e, ok := m.Find(0x1010); !ok || e.Name != "moved" {
		t.Errorf("what was not said to be new is read: %v", e)
	}
	// Files of other users are not read, and links are not followed.
	os.Remove(path)
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(pid); err == nil {
		t.Error("a symbolic link is followed")
	}
	os.Remove(path)
	os.WriteFile(path, []byte("1000 100 planted\n"), 0o644)
	os.Chown(path, 65534, 65534)
	if _, err := Open(pid); err == nil {
		t.Error("another user's file is read")
	}
}
