package testenv

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cached returns a copy, of this test alone, of a program that build makes in
// the folder dir as out. It is built once on a machine for equal flags and
// parts, which are all that the program is made from; the folder stays, since
// debug information has its path. Programs whose flags name temporary files are
// built each time.
func cached(t testing.TB, kind string, parts, flags []string, build func(dir, out string)) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "target")
	if strings.Contains(strings.Join(flags, " "), os.TempDir()) {
		build(t.TempDir(), out)
		return out
	}
	working, err := os.Getwd() // debug information has its name
	if err != nil {
		t.Fatal(err)
	}
	dir := builtFolder(t, fmt.Sprintf("%q %q %q %q %q", kind, working, parts, flags, compilers()),
		func(dir string) { build(dir, filepath.Join(dir, "target")) })
	return CopyFile(t, filepath.Join(dir, "target"), out)
}

// builtFolder returns a folder of the cache that build fills once on a machine
// from what key says.
func builtFolder(t testing.TB, key string, build func(dir string)) string {
	t.Helper()
	dir, unlock := lockFolder(t, key)
	defer unlock()
	complete := filepath.Join(dir, "complete")
	if _, err := os.Stat(complete); err != nil {
		build(dir)
		if err := os.WriteFile(complete, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// lockFolder returns a folder of the cache for what is made from what key says.
// No other test has it until it is unlocked.
func lockFolder(t testing.TB, key string) (dir string, unlock func() error) {
	t.Helper()
	cache := cacheFolder()
	hash := sha256.Sum256([]byte(key))
	dir = filepath.Join(cache, fmt.Sprintf("%x", hash[:16]))
	if _, err := os.Stat(dir); err != nil {
		forget(cache)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	os.Chtimes(dir, now, now)
	lock, err := os.Open(dir)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, lock.Close
}

// cacheFolder returns the folder of what was built for tests: the user's cache, or
// a folder of temporary files where that cannot be written.
func cacheFolder() string {
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "endoscope-tests")
		if os.MkdirAll(dir, 0o755) == nil && unix.Access(dir, unix.W_OK) == nil {
			return dir
		}
	}
	return filepath.Join(os.TempDir(), fmt.Sprint("endoscope-tests-", os.Getuid()))
}

// forget removes programs that have not been used for a week.
func forget(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 7*24*time.Hour {
			os.RemoveAll(filepath.Join(folder, e.Name()))
		}
	}
}

// compilers identifies the compilers that are installed.
var compilers = sync.OnceValue(func() string {
	versions := []string{runtime.Version(), os.Getenv("GOFLAGS")}
	for _, name := range []string{"gcc", "g++", "ld", "javac"} {
		path, _ := exec.LookPath(name)
		path, _ = filepath.EvalSymlinks(path)
		if info, err := os.Stat(path); err == nil {
			versions = append(versions, fmt.Sprint(path, info.Size(), info.ModTime()))
		}
	}
	return strings.Join(versions, " ")
})

var hashes sync.Map // of folders

// contents identifies all files in the testdata folder of which a file or
// folder is part: sources include others.
func contents(t testing.TB, path string) string {
	t.Helper()
	root := path
	if before, _, found := strings.Cut(path, "testdata"); found {
		root = before + "testdata"
	}
	if hash, found := hashes.Load(root); found {
		return hash.(string)
	}
	hash := sha256.New()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(hash, "%q %q\n", path, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%x", hash.Sum(nil))
	hashes.Store(root, text)
	return text
}
