package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

func TestParseMaps(t *testing.T) {
	const text = `55e0c0a00000-55e0c0a02000 r--p 00000000 fe:01 100                        /usr/bin/x
55e0c0a02000-55e0c0a07000 r-xp 00002000 fe:01 100                        /usr/bin/x
55e0c0a08000-55e0c0a09000 r-xp 00008000 fe:01 100                        /usr/bin/x
7f0000000000-7f0000001000 r-xp 00000000 00:00 0 
7f0000002000-7f0000003000 rwxp 00001000 103:0a 7                         /tmp/a b\012c (deleted)
7f0000004000-7f0000005000 r-xp 00000000 00:0e 9                          anon_inode:[perf]
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
7f0000009000-7f0000008000 r-xp 00000000 fe:01 200                        /backwards
7f0000009000 r-xp 00000000 fe:01 200 /half
zzzz-zzzzz r-xp 00000000 fe:01 200 /letters
11111111111111111-22222222222222222 r-xp 00000000 fe:01 200 /too/long
7f0000009000-7f000000a000 r-xp 00000000 fe:01 0 /no/inode
7f0000009000-7f000000a000 r-x`
	want := []Mapping{
		{Path: "/usr/bin/x", Dev: unix.Mkdev(0xfe, 1), Inode: 100, Start: 0x55e0c0a02000, End: 0x55e0c0a07000, Offset: 0x2000},
		{Path: "/tmp/a b\nc", Dev: unix.Mkdev(0x103, 10), Inode: 7, Start: 0x7f0000002000, End: 0x7f0000003000, Offset: 0x1000, Deleted: true},
	}
	if diff := cmp.Diff(want, parseMaps([]byte(text))); diff != "" {
		t.Error(diff)
	}
}

// A program that has just been started is in the middle of exec for a moment, in which
// it has no code.
func TestLoadedModulesOfNewProcess(t *testing.T) {
	cat := testenv.NeedProgram(t, "cat")
	for range 100 {
		testenv.Once(t, func() error { // a program without a processor stays there
			cmd := exec.Command(cat, "/dev/zero")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			mappings, err := LoadedModules(cmd.Process.Pid)
			cmd.Process.Kill()
			cmd.Wait()
			if err != nil || len(mappings) == 0 || filepath.Base(mappings[0].Path) != filepath.Base(cat) {
				return fmt.Errorf("mapped are %v, %v", mappings, err)
			}
			return nil
		})
	}
}

// Nothing is awaited of a process that has ended.
func TestLoadedModulesOfEndedProcess(t *testing.T) {
	cmd := exec.Command(testenv.NeedProgram(t, "true"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	testenv.Until(t, "the process has ended", func() bool {
		p, err := procfs.NewProc(cmd.Process.Pid)
		return err == nil && ended(p)
	})
	if mappings, err := LoadedModules(cmd.Process.Pid); err != nil || len(mappings) != 0 {
		t.Errorf("mapped are %v, %v", mappings, err)
	}
}

func TestModulesAgainstOracle(t *testing.T) {
	pid := start(t, testenv.NeedProgram(t, "cat"), "/dev/zero").Process.Pid
	// The dynamic linker may still be mapping libraries.
	for modules := 0; modules < 3; {
		ms, err := Modules(pid)
		if err != nil {
			t.Fatal(err)
		}
		modules = len(ms)
	}
	got, err := Modules(pid)
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := procfs.NewProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	maps, err := oracle.ProcMaps()
	if err != nil {
		t.Fatal(err)
	}
	var want []Mapping
	for _, m := range maps {
		known := slices.ContainsFunc(want, func(w Mapping) bool { return w.Inode == m.Inode && w.Dev == m.Dev })
		if m.Perms.Execute && m.Inode != 0 && !known {
			want = append(want, Mapping{Path: m.Pathname, Dev: m.Dev, Inode: m.Inode,
				Start: uint64(m.StartAddr), End: uint64(m.EndAddr), Offset: uint64(m.Offset)})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, m := range got {
		f, err := OpenModule(pid, m)
		if err != nil {
			t.Errorf("%s: %v", m.Path, err)
			continue
		}
		f.Close()
	}
}

func TestModulesOfNoProcess(t *testing.T) {
	if _, err := Modules(1 << 30); err == nil {
		t.Error("no error")
	}
	if _, err := OpenModule(1<<30, Mapping{Path: "/etc/passwd"}); err == nil {
		t.Error("no error")
	}
}

// mainMapping returns the mapping of a program's executable. A program that has
// just been started closes the descriptors it does not inherit, for which start
// waits, before anything is mapped.
func mainMapping(t *testing.T, pid int, program string) Mapping {
	t.Helper()
	var found Mapping
	testenv.UntilNil(t, program+" is among the modules", func() error {
		ms, err := Modules(pid)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(ms, func(m Mapping) bool { return m.Path == program })
		if i < 0 {
			return fmt.Errorf("%+v", ms)
		}
		found = ms[i]
		return nil
	})
	return found
}

func TestOpenModuleThatLostItsName(t *testing.T) {
	testenv.NeedRoot(t)
	for name, lose := range map[string]func(path string) error{
		"deleted": os.Remove,
		"upgraded": func(path string) error {
			os.Remove(path)
			return os.WriteFile(path, []byte("the next version"), 0o755)
		},
		"a directory now": func(path string) error {
			os.Remove(path)
			return os.Mkdir(path, 0o755)
		},
		"a FIFO now": func(path string) error {
			os.Remove(path)
			return unix.Mkfifo(path, 0o644)
		},
		"literally called deleted": func(path string) error {
			return os.Rename(path, path+" (deleted)")
		},
	} {
		for _, when := range []string{"before it is listed", "after"} {
			t.Run(name+" "+when, func(t *testing.T) {
				program := copyProgram(t, "sleep", filepath.Join(t.TempDir(), "program"))
				want, err := os.ReadFile(program)
				if err != nil {
					t.Fatal(err)
				}
				pid := start(t, program, "60").Process.Pid
				m := mainMapping(t, pid, program)
				if err := lose(program); err != nil {
					t.Fatal(err)
				}
				if when != "after" {
					m = mainMapping(t, pid, program)
					if !m.Deleted {
						t.Errorf("not told to be deleted: %+v", m)
					}
				}
				f, err := OpenModule(pid, m)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if got, err := io.ReadAll(f); err != nil || string(got) != string(want) {
					t.Errorf("read %d bytes, %v; not the program that runs", len(got), err)
				}
			})
		}
	}
}

func TestOpenModuleRefusesAnotherFile(t *testing.T) {
	program := copyProgram(t, "sleep", filepath.Join(t.TempDir(), "program"))
	pid := start(t, program, "60").Process.Pid
	m := mainMapping(t, pid, program)
	for name, change := range map[string]func(*Mapping){
		"another inode":  func(m *Mapping) { m.Inode++ },
		"another device": func(m *Mapping) { m.Dev++ },
	} {
		wrong := m
		change(&wrong)
		if f, err := OpenModule(pid, wrong); err == nil {
			f.Close()
			t.Errorf("%s: opened", name)
		}
	}
}

// A process in a mount namespace of its own maps /data/plugin. Then /data is
// made a symbolic link to a directory that exists, with a plugin, on both
// sides: only the one inside is the process's.
func TestOpenModuleStaysInTheProcessRoot(t *testing.T) {
	testenv.NeedRoot(t)
	root, host := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "plugin"), []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	program := testenv.CompileCText(t, `
		#define _GNU_SOURCE
		#include <fcntl.h>
		#include <sched.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		#include <sys/mman.h>
		#include <sys/mount.h>
		#include <sys/stat.h>
		#include <sys/syscall.h>
		#include <unistd.h>
		static void must(int r, const char *what) { if (r < 0) { perror(what); fflush(0); exit(1); } }
		static void mkdirs(char *path) {
			for (char *p = path + 1; *p; p++) if (*p == '/') { *p = 0; mkdir(path, 0755); *p = '/'; }
			mkdir(path, 0755);
		}
		int main(int argc, char **argv) {
			char *root = argv[1], *link = argv[2];
			must(unshare(CLONE_NEWNS), "unshare");
			must(mount("none", "/", 0, MS_REC | MS_PRIVATE, 0), "private");
			must(mount("tmpfs", root, "tmpfs", 0, 0), "tmpfs");
			must(chdir(root), "chdir");
			must(mkdir("old", 0755), "old");
			must(syscall(SYS_pivot_root, ".", "old"), "pivot_root");
			must(chdir("/"), "chdir");
			must(umount2("/old", MNT_DETACH), "umount");
			must(mkdir("/data", 0755), "data");
			int fd = open("/data/plugin", O_RDWR | O_CREAT, 0755);
			must(fd, "plugin");
			must(write(fd, "inside", 6), "write");
			if (mmap(0, 6, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) must(-1, "mmap");
			puts("mapped"); fflush(stdout);
			getchar();
			mkdirs(link);
			char moved[4096];
			snprintf(moved, sizeof moved, "%s/plugin", link);
			must(rename("/data/plugin", moved), "rename");
			must(rmdir("/data"), "rmdir");
			must(symlink(link, "/data"), "symlink");
			puts("moved"); fflush(stdout);
			getchar();
		}
	`)
	cmd := exec.Command(program, root, host)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewReader(out)
	if s, _ := lines.ReadString('\n'); s != "mapped\n" {
		t.Fatalf("the process says %q", s)
	}
	m := mainMapping(t, cmd.Process.Pid, "/data/plugin")
	io.WriteString(in, "\n")
	if s, _ := lines.ReadString('\n'); s != "moved\n" {
		t.Fatalf("the process says %q", s)
	}

	proc, err := openAt(unix.AT_FDCWD, path(cmd.Process.Pid, ""), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(proc)
	if b, err := os.ReadFile(path(cmd.Process.Pid, "root/data/plugin")); string(b) != "outside" {
		t.Fatalf("the plain path does not lead outside (%q, %v): this test shows nothing", b, err)
	}
	f, err := openInRoot(proc, m)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); string(b) != "inside" {
		t.Errorf("read %q, %v", b, err)
	}
	m.Path = "/" + strings.Repeat("../", 30) + "data/plugin"
	up, err := openInRoot(proc, m)
	if err != nil {
		t.Fatal(err)
	}
	up.Close()
}
