package handlersuite

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
	"time"

	"endoscope/probes/testenv"
)

// programs are what the suite is of.
var programs = []program{
	{
		name: "redis", start: startRedis,
		// processEventsWhileBlocked, acceptTcpHandler and the like come on occasions
		// that this load does not have.
		want: []string{"readQueryFromClient", "serverCron", "beforeSleep"},
		also: []string{"sendReplyToClient", "acceptTcpHandler", "afterSleep", "handleClientsWithPendingWrites"},
	},
	{
		name: "PostgreSQL backend", start: startPostgres, rename: map[string]func(*testing.T, int) string{"exec_simple_query": execSimpleQuery},
		want: []string{"exec_simple_query"},
		also: []string{"finish_xact_command", "start_xact_command", "ProcessClientReadInterrupt"},
	},
	{
		name: "C, four loops", start: func(t *testing.T) (int, []string) {
			return run(t, exec.Command(testenv.CompileC(t, "testdata/loops.c", "-O1", "-pthread", "-fno-optimize-sibling-calls"))), nil
		},
		want: []string{"process_message", "compress_job", "index_job", "on_event", "by_size", "on_signal", "set_up"},
	},
	{
		name: "C++", start: func(t *testing.T) (int, []string) {
			return run(t, exec.Command(testenv.CompileC(t, "testdata/queue.cc", "-O1", "-pthread", "-fno-optimize-sibling-calls"))), nil
		},
		want: []string{"Server::on_login", "Server::on_query", "Resize::execute", "Encode::execute", "on_timer"},
	},
	{
		name: "Go", start: func(t *testing.T) (int, []string) {
			return run(t, exec.Command(testenv.CompileGo(t, "testdata/goserver"))), nil
		},
		want: []string{"main.process", "main.handleMessage", "main.(*hub).onCommand", "main.(*hub).onTick", "main.hello"},
	},
}

// execSimpleQuery is the function that runs a statement. Where the program is
// stripped it has no name, and is the last one before PostgresMain.
func execSimpleQuery(t *testing.T, pid int) string {
	t.Helper()
	before := ""
	for _, name := range functionsOf(t, pid) {
		if name == "exec_simple_query" {
			return name
		}
		if name == "PostgresMain" {
			return before
		}
		before = name
	}
	t.Fatal("postgres has no PostgresMain")
	return ""
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// startRedis is a redis under load, with keys that expire, so that serverCron has
// something to do.
func startRedis(t *testing.T) (int, []string) {
	program, load := testenv.NeedProgram(t, "redis-server"), testenv.NeedProgram(t, "redis-benchmark")
	port := freePort(t)
	pid := run(t, exec.Command(program, "--port", port, "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", t.TempDir(), "--hz", "500", "--active-expire-effort", "10"))
	for i := 0; ; i++ {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
			break
		}
		if i > 100 {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	run(t, exec.Command(load, "-p", port, "-q", "-n", "1000000000", "-c", "20", "-r", "1000000", "setex", "key:__rand_int__", "1", "value"))
	return pid, nil
}

// startPostgres is a backend that pgbench keeps busy.
func startPostgres(t *testing.T) (int, []string) {
	initdb, err := filepath.EvalSymlinks(testenv.NeedProgram(t, "initdb"))
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
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(filepath.Dir(initdb), name), args...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return cmd
	}
	if out, err := command("initdb", "-D", filepath.Join(dir, "data"), "-A", "trust", "-N").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	port := freePort(t)
	postmaster := run(t, command("postgres", "-D", filepath.Join(dir, "data"), "-p", port, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off"))
	for i := 0; ; i++ {
		out, err := command("pgbench", "-h", dir, "-p", port, "-i", "-q", "postgres").CombinedOutput()
		if err == nil {
			break
		}
		if i > 100 {
			t.Fatalf("%v\n%s", err, out)
		}
		time.Sleep(50 * time.Millisecond)
	}
	run(t, command("pgbench", "-h", dir, "-p", port, "-S", "-n", "-c", "1", "-T", "1000", "postgres"))
	for last := 0; ; { // pgbench's first connection looks around and is over soon
		pid := backend(postmaster)
		if pid != 0 && pid == last {
			return pid, nil
		}
		last = pid
		time.Sleep(200 * time.Millisecond)
	}
}

// backend is the child of a postmaster that serves a client.
func backend(postmaster int) int {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", postmaster, postmaster))
	for _, child := range strings.Fields(string(children)) {
		title, _ := os.ReadFile("/proc/" + child + "/cmdline")
		if strings.Contains(string(title), "[local]") {
			pid, _ := strconv.Atoi(child)
			return pid
		}
	}
	return 0
}
