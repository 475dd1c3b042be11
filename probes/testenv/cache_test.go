package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A program is built once for equal sources and flags, and each test has a file of
// its own.
func TestProgramsAreBuiltOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	built := func() int {
		folders, err := filepath.Glob(filepath.Join(cacheFolder(), "*", "complete"))
		if err != nil {
			t.Fatal(err)
		}
		return len(folders)
	}
	const text = "int main(void) { return SEVEN; }"
	seven := CompileCText(t, text, "-DSEVEN=7")
	same := CompileCText(t, text, "-DSEVEN=7")
	if n := built(); n != 1 {
		t.Errorf("%d programs were built", n)
	}
	eight := CompileCText(t, text, "-DSEVEN=8")
	CompileCText(t, text+"\n", "-DSEVEN=7")
	if n := built(); n != 3 {
		t.Errorf("%d programs were built, want 3", n)
	}
	if err := os.Remove(seven); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]int{same: 7, eight: 8} {
		cmd := exec.Command(program)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("it returns %d, want %d", got, want)
		}
	}
	// What names temporary files cannot be found again.
	CompileCText(t, text, "-DSEVEN=7", "-L"+t.TempDir())
	if n := built(); n != 3 {
		t.Errorf("%d programs are kept, want 3", n)
	}
}

// What nobody has used for a week is removed when something else is built.
func TestOldProgramsAreRemoved(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	CompileCText(t, "int main(void) { return 1; }")
	folders, err := os.ReadDir(cacheFolder())
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	old := filepath.Join(cacheFolder(), folders[0].Name())
	before := time.Now().Add(-8 * 24 * time.Hour)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	CompileCText(t, "int main(void) { return 2; }")
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}
