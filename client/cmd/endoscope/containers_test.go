package main

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// containment is what the tests of containers share: a static program, and a folder that
// containers see as /log.
type containment struct {
	t        *testing.T
	endo     string   // the command endoscope
	connect  []string // its arguments, if another engine counts
	program  string   // testdata/contained.c
	dir, log string
}

func newContainment(t *testing.T) *containment {
	testenv.Long(t)
	testenv.NeedUprobes(t)
	testenv.Interruptible(t)
	c := &containment{t: t, endo: testenv.Command(t, "."), program: testenv.CompileC(t, "testdata/contained.c", "-static", "-O1", "-g")}
	// Sockets have short paths.
	dir, err := os.MkdirTemp("/tmp", "endo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c.dir, c.log = dir, filepath.Join(dir, "log")
	if err := os.Mkdir(c.log, 0o777); err != nil {
		t.Fatal(err)
	}
	return c
}

// begin lets the programs call.
func (c *containment) begin() {
	if err := os.WriteFile(filepath.Join(c.log, "go"), nil, 0o666); err != nil {
		c.t.Fatal(err)
	}
}

// logged returns what programs of a name have logged.
func (c *containment) logged(name string) (calls []int) {
	text, _ := os.ReadFile(filepath.Join(c.log, name))
	for line := range strings.Lines(string(text)) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			c.t.Fatalf("%s: %q", name, text)
		}
		calls = append(calls, n)
	}
	return calls
}

// total returns the sum of what programs of a name have logged, of so many runs.
func (c *containment) total(name string, runs int) (sum int) {
	c.t.Helper()
	testenv.Until(c.t, name+" has ended", func() bool { return len(c.logged(name)) == runs })
	for _, n := range c.logged(name) {
		if n == 0 {
			c.t.Errorf("%s has made no calls: %v", name, c.logged(name))
		}
		sum += n
	}
	return sum
}

// counting is a running query.
type counting struct {
	t    *testing.T
	cmd  *exec.Cmd
	errs testenv.Buffer
	done chan struct{}

	mu   sync.Mutex
	last map[string]any // the last row
}

// count counts the calls of handle that satisfy a condition, until the end. It returns when the
// query observes.
func (c *containment) count(env []string, condition string, before ...string) *counting {
	c.t.Helper()
	q := &counting{t: c.t, done: make(chan struct{})}
	sql := strings.Join(before, " ") + fmt.Sprintf(`SELECT COUNT(*) AS calls, COUNT(DISTINCT pid) AS processes, MIN(container) AS container,
		MIN(pod) AS pod, MIN(namespace) AS namespace, MIN(label('app')) AS app
		FROM function_start WHERE function_name = 'handle' %s EMIT EVERY 50ms`, condition)
	q.cmd = exec.Command(c.endo, append(slices.Clone(c.connect), "--format", "jsonl", "-c", sql)...)
	q.cmd.Env = append(os.Environ(), env...)
	q.cmd.Stderr = &q.errs
	out, err := q.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := q.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { q.cmd.Process.Kill(); <-q.done })
	go func() {
		defer close(q.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var row map[string]any
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				c.t.Errorf("%s: %v", lines.Bytes(), err)
				return
			}
			q.mu.Lock()
			q.last = row
			q.mu.Unlock()
		}
	}()
	testenv.UntilNil(c.t, "the query runs", func() error {
		if q.row() == nil {
			return fmt.Errorf("%s", q.errs.String())
		}
		return nil
	})
	return q
}

func (q *counting) row() map[string]any {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

func (q *counting) calls() int {
	n, _ := q.row()["calls"].(float64)
	return int(n)
}

// reaches waits until more calls were counted.
func (q *counting) reaches(n int) {
	q.t.Helper()
	testenv.UntilNil(q.t, "more calls", func() error {
		if q.calls() < n {
			return fmt.Errorf("%v of %d\n%s", q.row(), n, q.errs.String())
		}
		return nil
	})
}

// end ends the query, and checks its last row and that it has lost nothing.
func (q *counting) end(want map[string]any) {
	q.t.Helper()
	if err := q.cmd.Process.Signal(syscall.SIGINT); err != nil {
		q.t.Fatal(err)
	}
	<-q.done
	if err := q.cmd.Wait(); err != nil || !strings.Contains(q.errs.String(), ", complete") {
		q.t.Errorf("%v\n%s", err, q.errs.String())
	}
	for name, v := range want {
		if n, ok := v.(int); ok {
			v = float64(n)
		}
		if got := q.row()[name]; got != v {
			q.t.Errorf("%s is %v, want %v: %v\n%s", name, got, v, q.row(), q.errs.String())
		}
	}
}

// background runs a server until the end of the test.
func (c *containment) background(env []string, name string, args ...string) {
	c.t.Helper()
	cmd := exec.Command(testenv.NeedProgram(c.t, name), args...)
	cmd.Env = append(os.Environ(), env...)
	log, err := os.Create(filepath.Join(c.dir, filepath.Base(name)+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if c.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			c.t.Logf("%s: %s", name, text[max(0, len(text)-3000):])
		}
	})
}

// ulimits are limits for containers that a test without CAP_SYS_RESOURCE may set.
func ulimits(t *testing.T) (lines []string) {
	for name, number := range map[string]int{"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC} {
		var l unix.Rlimit
		if err := unix.Getrlimit(number, &l); err != nil {
			t.Fatal(err)
		}
		n := min(l.Max, 4096)
		lines = append(lines, fmt.Sprintf("%q", fmt.Sprintf("%s=%d:%d", name, n, n)))
	}
	return lines
}

// podman is a Podman of its own.
type podman struct {
	*containment
	env []string
}

func newPodman(c *containment) *podman {
	testenv.NeedProgram(c.t, "podman")
	testenv.NeedProgram(c.t, "runc")
	p := &podman{containment: c}
	conf := filepath.Join(c.dir, "containers.conf")
	text := fmt.Sprintf("[containers]\ndefault_ulimits = [%s]\nnetns = \"host\"\n[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n", strings.Join(ulimits(c.t), ","))
	if err := os.WriteFile(conf, []byte(text), 0o666); err != nil {
		c.t.Fatal(err)
	}
	socket := filepath.Join(c.dir, "podman.sock")
	p.env = []string{"CONTAINERS_CONF=" + conf, "CONTAINER_HOST=unix://" + socket, "XDG_RUNTIME_DIR="}
	c.t.Cleanup(func() {
		p.run("rm", "-fa", "-t", "0")
		p.run("rmi", "-fa")
		// conmon runs a command of its own after each container, that may still run. Commands
		// mount the storage onto itself.
		testenv.UntilNil(c.t, "Podman has ended and its storage is removed", func() error {
			if pids, _ := exec.Command("pgrep", "-f", p.dir).Output(); len(pids) > 0 {
				return fmt.Errorf("processes %q", pids)
			}
			for _, dir := range []string{"storage/overlay", "storage"} {
				for unix.Unmount(filepath.Join(p.dir, dir), unix.MNT_DETACH) == nil {
				}
			}
			return os.RemoveAll(p.dir)
		})
	})
	tar := filepath.Join(c.dir, "image.tar")
	testenv.Output(c.t, "tar", "-C", filepath.Dir(c.program), "-cf", tar, "--transform", "s,.*,contained,", filepath.Base(c.program))
	p.run("import", "--change", `CMD ["/contained"]`, tar, "localhost/contained:1")
	c.background(p.env, "podman", append(p.where(), "system", "service", "-t", "0", "unix://"+socket)...)
	testenv.Until(c.t, "podman serves", func() bool { _, err := os.Stat(socket); return err == nil })
	return p
}

func (p *podman) where() []string {
	return []string{"--remote=false", "--root", filepath.Join(p.dir, "storage"), "--runroot", filepath.Join(p.dir, "run"), "--tmpdir", filepath.Join(p.dir, "tmp")}
}

func (p *podman) run(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("podman", append(p.where(), args...)...)
	cmd.Env = append(os.Environ(), p.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// start starts a container that logs as its name.
func (p *podman) start(name string, args ...string) {
	p.t.Helper()
	p.run(append(append([]string{"run", "-d", "--name", name, "-v", p.log + ":/log"}, args...), "localhost/contained:1", "/contained", name)...)
}

// A container that is restarted during queries by its name and by its label is counted as it
// counts itself; another of the same image is not.
func TestPodmanContainers(t *testing.T) {
	c := newContainment(t)
	p := newPodman(c)
	p.start("web", "--label", "app=shop")
	p.start("other", "--label", "app=other")
	byName := c.count(p.env, "", "USE CONTAINER 'web';")
	byLabel := c.count(p.env, "AND label('app') = 'shop'")
	c.begin()
	byName.reaches(200)
	p.run("restart", "web")
	first := c.total("web", 1)
	byName.reaches(first + 200)
	p.start("late", "--label", "app=shop")
	byLabel.reaches(byName.calls() + 200)
	p.run("stop", "web", "late", "other")
	web, late := c.total("web", 2), c.total("late", 1)
	c.total("other", 1)
	byName.reaches(web)
	byLabel.reaches(web + late)
	byName.end(map[string]any{"calls": web, "processes": 2, "container": "web", "app": "shop", "pod": nil})
	byLabel.end(map[string]any{"calls": web + late, "processes": 3, "container": "late", "app": "shop"})
}

// group makes a control group in whatever hierarchy there is.
func (c *containment) group(name string) (dir string) {
	c.t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		dir = filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		c.t.Cleanup(func() {
			testenv.UntilNil(c.t, "the control group is empty", func() error { return os.Remove(dir) })
		})
		return dir
	}
	testenv.Skip(c.t, "needs a hierarchy of control groups that it may change")
	return ""
}

// A container that no runtime knows is found by its id: namespaces, a root and a control group
// suffice. Its second run is observed, too, and the same program outside is not.
func TestContainerWithoutRuntime(t *testing.T) {
	c := newContainment(t)
	unshare := testenv.NeedProgram(t, "unshare")
	testenv.CopyFile(t, c.program, filepath.Join(c.dir, "contained"))
	var random [32]byte
	_, _ = rand.Read(random[:])
	id := hex.EncodeToString(random[:]) // one that another run of this test has not left
	group := c.group("endoscope-" + id + ".scope")
	start := func(name string, in string) *exec.Cmd {
		t.Helper()
		cmd := exec.Command("sh", "-c", fmt.Sprintf("%s exec %s --pid --mount --fork --kill-child=TERM --root=%s /contained %s", in, unshare, c.dir, name))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	within := fmt.Sprintf("echo $$ >%s/cgroup.procs &&", group)
	web, other := start("web", within), start("other", "")
	none := []string{"CONTAINER_RUNTIME_ENDPOINT=unix:///nowhere", "DOCKER_HOST=unix:///nowhere", "CONTAINER_HOST=unix:///nowhere"}
	testenv.Until(t, "the container runs", func() bool { text, _ := os.ReadFile(filepath.Join(group, "cgroup.procs")); return len(text) > 0 })
	byID := c.count(none, "AND container = '"+id+"'")
	byGroup := c.count(none, "AND cgroup = '/"+filepath.Base(group)+"'")
	c.begin()
	byID.reaches(200)
	web.Process.Kill() // the kernel ends the container's process by SIGTERM
	first := c.total("web", 1)
	web = start("web", within)
	byID.reaches(first + 200)
	web.Process.Kill()
	other.Process.Kill()
	calls := c.total("web", 2)
	c.total("other", 1)
	byID.reaches(calls)
	byGroup.reaches(calls)
	byID.end(map[string]any{"calls": calls, "processes": 2, "container": id, "pod": nil})
	byGroup.end(map[string]any{"calls": calls, "processes": 2})
}
