package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Overlay returns an empty directory of an overlay whose layers are on other
// file systems, so that its files have one device in stat(2) and another in
// /proc/PID/maps.
func Overlay(t testing.TB) string {
	t.Helper()
	NeedRoot(t)
	dir := t.TempDir()
	mount := func(source, name, kind, options string) string {
		at := filepath.Join(dir, name)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		err := unix.Mount(source, at, kind, 0, options)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
			Skip(t, "%s cannot be mounted: %v", kind, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		// MNT_DETACH: a process may still run from there.
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
		return at
	}
	lower := mount("none", "lower", "tmpfs", "")
	upper := mount("none", "upper", "tmpfs", "")
	for _, name := range []string{"files", "work"} {
		if err := os.Mkdir(filepath.Join(upper, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return mount("overlay", "merged", "overlay", fmt.Sprintf("lowerdir=%s,upperdir=%s/files,workdir=%s/work", lower, upper, upper))
}

// CopyFile copies a program and returns the path of the copy.
func CopyFile(t testing.TB, from, to string) string {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		// A process forked meanwhile would have the file open for writing, too: it
		// could not be executed.
		syscall.ForkLock.RLock()
		err = os.WriteFile(to, b, 0o755)
		syscall.ForkLock.RUnlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}
