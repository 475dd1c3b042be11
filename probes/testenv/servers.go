package testenv

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Run starts a program, which is killed with its children when the test ends,
// and returns its pid.
func Run(t testing.TB, cmd *exec.Cmd) int {
	t.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// AwaitSleep waits until the first thread of a process sleeps, as sleep(1) does.
func AwaitSleep(t testing.TB, pid int) {
	t.Helper()
	want := strconv.Itoa(syscall.SYS_CLOCK_NANOSLEEP) + " "
	UntilNil(t, fmt.Sprintf("process %d sleeps", pid), func() error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), want) {
			return fmt.Errorf("it is in %s", text)
		}
		return nil
	})
}

// FreePort returns an unused port of the loopback interface.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// BusyRedis starts a redis-server that redis-benchmark keeps busy with keys
// that expire, so that its clock function is called.
func BusyRedis(t testing.TB) (pid int) {
	t.Helper()
	program, load := NeedProgram(t, "redis-server"), NeedProgram(t, "redis-benchmark")
	own := CopyFile(t, program, filepath.Join(t.TempDir(), "redis-server"))
	const host = "127.0.0.2" // of which no other program takes the port meanwhile
	port := FreePort(t)
	pid = Run(t, exec.Command(own, "--port", port, "--save", "", "--appendonly", "no", "--bind", host, "--dir", t.TempDir(),
		"--hz", "500", "--active-expire-effort", "10"))
	UntilNil(t, "redis-server listens", func() error {
		c, err := net.Dial("tcp", host+":"+port)
		if err == nil {
			c.Close()
		}
		return err
	})
	Run(t, exec.Command(load, "-h", host, "-p", port, "-q", "-n", "1000000000", "-c", "20", "-r", "1000000", "setex", "key:__rand_int__", "1", "value"))
	return pid
}

// BusyPostgres starts a PostgreSQL server, as the user that Debian's package
// creates, with a backend that pgbench keeps busy, with these further arguments.
// Its executable is a copy, so that targets by executable contain no server of
// another test.
func BusyPostgres(t testing.TB, pgbench ...string) (postmaster, backend int) {
	t.Helper()
	initdb, err := filepath.EvalSymlinks(NeedProgram(t, "initdb"))
	if err != nil {
		t.Fatal(err)
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	dir, err := os.MkdirTemp("", "endoscope-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	PostgresData(t, dir)
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(filepath.Dir(initdb), name), args...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return cmd
	}
	port := FreePort(t)
	server := command("postgres", "-D", filepath.Join(dir, "data"), "-p", port, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	own := filepath.Join(dir, "postgres")
	CopyFile(t, server.Path, own)
	server.Path, server.Args[0] = own, own
	postmaster = Run(t, server)
	UntilNil(t, "pgbench has made its tables", func() error {
		out, err := command("pgbench", "-h", dir, "-p", port, "-i", "-q", "postgres").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	load := append([]string{"-h", dir, "-p", port, "-S", "-n", "-c", "1", "-T", "1000"}, pgbench...)
	Run(t, command("pgbench", append(load, "postgres")...))
	first := 0
	Until(t, "a backend serves pgbench", func() bool { // whose first connection is short
		n := 0
		if client := clientOf(postmaster); client != 0 {
			if n = switches(client); client != backend {
				backend, first = client, n
			}
		}
		return n-first > 200
	})
	return postmaster, backend
}

// switches returns how often a process has waited for something.
func switches(pid int) (n int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
	fmt.Sscan(after, &n)
	return n
}

// PostgresData makes the folder data of a PostgreSQL server in dir, which belongs
// to the user of the server: a copy of what initdb makes once on a machine.
func PostgresData(t testing.TB, dir string) {
	t.Helper()
	initdb := NeedProgram(t, "initdb")
	copyTo := func(to, from string) {
		t.Helper()
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	data := filepath.Join(dir, "data")
	template := filepath.Join(builtFolder(t, "PostgreSQL "+initdb, func(template string) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		owner := info.Sys().(*syscall.Stat_t)
		cmd := exec.Command(initdb, "-D", data, "-A", "trust", "-N")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		copyTo(template, data)
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
	}), "data")
	copyTo(dir, template)
}

// clientOf returns the child of a postmaster that serves a client.
func clientOf(postmaster int) int {
	for _, child := range Children(postmaster) {
		title, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		if strings.Contains(string(title), "[local]") {
			return child
		}
	}
	return 0
}

// Children returns the child processes of a process's first thread.
func Children(pid int) (pids []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, child := range strings.Fields(string(text)) {
		n, _ := strconv.Atoi(child)
		pids = append(pids, n)
	}
	return pids
}
