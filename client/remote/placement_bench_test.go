package remote_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/client/remote"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/flight"
	"endoscope/server/wire"
)

var placementSVG = flag.String("svg", "", "file for the picture that BenchmarkPlacement draws")

// placementQuery computes an expensive aggregate of each tuple and returns a row
// every 500 ms: the aggregate of section 7.4.
const placementQuery = `SELECT count(*), count(*) FILTER (WHERE CAST(n AS VARCHAR) ~ '7[0-4]*[5-9]$') FROM series(1000000000000) EMIT EVERY 500ms FOR %s`

// BenchmarkPlacement is the experiment of section 7.4 of the EndoScope paper: the cost
// of a tuple when an expensive aggregate is computed at the server and at the client,
// by the load of the server's CPU and the delay of the network, and where the
// optimiser places it; then the same query while both change, with its moves.
//
//	go test -run '^$' -bench Placement -benchtime 1x -timeout 30m ./client/remote -svg testdata/placement.svg
//	go test -short -run '^$' -bench Placement -benchtime 1x ./client/remote
//
// The server has its own CPU and network namespace. The load is busy loops on the
// server's CPU; the network is a pair of veth whose rate tc limits. netem delays it,
// or, if the kernel has no netem, a relay that holds every 64 KiB for that long, as
// the paper's send operator holds its batches. The source produces tuples as fast as
// they are consumed, so the cost of a tuple is the time between two of them.
func BenchmarkPlacement(b *testing.B) {
	for b.Loop() {
		s := newPlacementSetting(b)
		steps := []int{0, 1, 2, 3, 4}
		delays := []time.Duration{0, 100 * time.Microsecond, 300 * time.Microsecond, time.Millisecond, 3 * time.Millisecond}
		rates := []int{0, 400, 200, 100, 50}
		if testing.Short() {
			steps, delays, rates = []int{0, 3}, []time.Duration{0, time.Millisecond}, []int{0, 50}
		}
		byLoad := placementTable{title: "load of the server's processor", axis: "other threads that want it"}
		for _, n := range steps {
			byLoad.points = append(byLoad.points, s.compare(fmt.Sprint(n), n, 0, 0))
		}
		byDelay := placementTable{title: "delay of the network", axis: s.delayed()}
		for _, d := range delays {
			byDelay.points = append(byDelay.points, s.compare(d.String(), 0, d, 0))
		}
		byRate := placementTable{title: "rate of the network", axis: "Mbit/s (tbf)"}
		for _, r := range rates {
			name := fmt.Sprint(r)
			if r == 0 {
				name = "any"
			}
			byRate.points = append(byRate.points, s.compare(name, 0, 0, r))
		}
		tables := []placementTable{byLoad, byDelay, byRate}
		for _, t := range tables {
			fmt.Printf("\n%s", t.markdown())
		}
		run := s.change()
		fmt.Printf("\n%s", run.markdown())
		if *placementSVG != "" {
			if err := os.WriteFile(*placementSVG, []byte(drawPlacement(tables, run)), 0o644); err != nil {
				b.Error(err)
			}
		}
	}
}

// placementServer is the environment variable that makes the test binary the server.
const placementServer = "ENDOSCOPE_PLACEMENT_SERVER"

// servePlacement serves an engine until SIGTERM.
func servePlacement(addr string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	dir, err := os.MkdirTemp("", "placement")
	fail(err)
	defer os.RemoveAll(dir)
	e, err := server.New(server.Options{ModelDir: dir})
	fail(err)
	l, err := net.Listen("tcp", addr)
	fail(err)
	s := flight.New(e, flight.Options{})
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	go func() {
		<-end
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.Stop(ctx)
	}()
	fail(s.Serve(l))
	fail(e.Close())
}

// placementSetting is a server behind a network, and the disturbances of both.
type placementSetting struct {
	b     *testing.B
	ns    string
	addr  string // of the server
	netem bool
	relay *relay
}

// CPUs of the server and of the client.
const (
	serverCPU = 0
	clientCPU = 1
)

func newPlacementSetting(b *testing.B) *placementSetting {
	testenv.NeedRoot(b)
	for _, program := range []string{"ip", "tc", "taskset"} {
		testenv.NeedProgram(b, program)
	}
	s := &placementSetting{b: b, ns: "es-p" + strconv.Itoa(os.Getpid()), addr: "10.213.9.1:7474"}
	s.run("ip", "netns", "add", s.ns)
	b.Cleanup(func() { _ = exec.Command("ip", "netns", "del", s.ns).Run() })
	s.run("ip", "link", "add", s.wire(), "type", "veth", "peer", "name", "wire", "netns", s.ns)
	b.Cleanup(func() { _ = exec.Command("ip", "link", "del", s.wire()).Run() })
	s.run("ip", "-n", s.ns, "addr", "add", "10.213.9.1/24", "dev", "wire")
	s.run("ip", "addr", "add", "10.213.9.2/24", "dev", s.wire())
	s.run("ip", "-n", s.ns, "link", "set", "wire", "up")
	s.run("ip", "link", "set", s.wire(), "up")
	s.netem = exec.Command("tc", "-n", s.ns, "qdisc", "replace", "dev", "wire", "root", "netem", "delay", "1ms").Run() == nil
	s.network(0, 0)
	s.pin()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	c := exec.Command("ip", "netns", "exec", s.ns, "taskset", "-c", strconv.Itoa(serverCPU), self)
	c.Env = append(os.Environ(), placementServer+"="+s.addr)
	c.Stderr = os.Stderr
	s.start(c, syscall.SIGTERM)
	s.relay = newRelay(b, s.addr)
	return s
}

// wire returns the client's end of the network.
func (s *placementSetting) wire() string { return "esp" + strconv.Itoa(os.Getpid()) }

func (s *placementSetting) run(name string, args ...string) {
	s.b.Helper()
	if msg, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		s.b.Skipf("%s %v: %v: %s", name, args, err, msg)
	}
}

// start starts a command that is ended by a signal.
func (s *placementSetting) start(c *exec.Cmd, end os.Signal) (stop func()) {
	s.b.Helper()
	if err := c.Start(); err != nil {
		s.b.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = c.Process.Signal(end)
			_ = c.Wait()
		}
	}
	s.b.Cleanup(stop)
	return stop
}

// pin moves this process to the client's CPU.
func (s *placementSetting) pin() {
	var set unix.CPUSet
	set.Set(clientCPU)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		s.b.Fatal(err)
	}
	for _, t := range tasks {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.SchedSetaffinity(tid, &set) // the thread may have ended
		}
	}
}

// network limits the rate of the network, in Mbit/s (0: no limit), and delays it.
func (s *placementSetting) network(mbit int, delay time.Duration) {
	_ = exec.Command("tc", "-n", s.ns, "qdisc", "del", "dev", "wire", "root").Run()
	if mbit > 0 {
		s.run("tc", "-n", s.ns, "qdisc", "add", "dev", "wire", "root", "tbf", "rate", fmt.Sprintf("%dmbit", mbit), "burst", "128k", "latency", "50ms")
	}
	switch {
	case s.netem && delay > 0:
		s.run("tc", "-n", s.ns, "qdisc", "add", "dev", "wire", "root", "netem", "delay", delay.String())
	case s.relay != nil:
		s.relay.delay.Store(int64(delay))
	}
}

func (s *placementSetting) delayed() string {
	if s.netem {
		return "delay (netem)"
	}
	return "delay of every 64 KiB (relay)"
}

// load keeps the server's CPU busy with n threads.
func (s *placementSetting) load(n int) (stop func()) {
	var stops []func()
	for range n {
		stops = append(stops, s.start(exec.Command("taskset", "-c", strconv.Itoa(serverCPU), "sh", "-c", "while :; do :; done"), syscall.SIGKILL))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// connect opens a session, through the relay if that makes the delay.
func (s *placementSetting) connect(delay time.Duration) wire.Session {
	s.b.Helper()
	addr := s.addr
	if delay > 0 && !s.netem {
		addr = s.relay.addr
	}
	e, err := remote.Dial(addr, remote.Options{})
	if err != nil {
		s.b.Fatal(err)
	}
	var x wire.Session
	testenv.UntilNil(s.b, "there is a session", func() (err error) {
		x, err = e.NewSession(s.b.Context(), wire.Options{})
		return err
	})
	return x
}

// compare measures the placements in one setting.
func (s *placementSetting) compare(name string, load int, delay time.Duration, mbit int) placementPoint {
	s.b.Helper()
	p := placementPoint{name: name}
	s.network(mbit, delay)
	defer s.network(0, 0)
	defer s.load(load)()
	for i, how := range placementNames {
		took := 5 * time.Second
		if how == "auto" {
			took = 8 * time.Second
		}
		at, sum := s.watch(how, delay, took, nil)
		p.took[i] = perTuple(at)
		if how == "auto" {
			p.moves = movesOf(sum)
		}
	}
	return p
}

// total is the number of tuples counted at a time.
type total struct {
	at time.Duration
	n  int64
}

// watch runs the query and returns its totals.
func (s *placementSetting) watch(how string, delay, took time.Duration, each func(time.Duration)) (at []total, sum wire.Summary) {
	s.b.Helper()
	x := s.connect(delay)
	defer x.Close()
	r, err := x.Execute(s.b.Context(), "SET placement = '"+how+"'")
	if err == nil {
		err = r.Close()
	}
	if err == nil {
		r, err = x.Execute(s.b.Context(), fmt.Sprintf(placementQuery, fmt.Sprintf("%dms", took.Milliseconds())))
	}
	if err != nil {
		s.b.Fatal(err)
	}
	began := time.Now()
	for {
		ev, err := r.Next(s.b.Context())
		if errors.Is(err, io.EOF) {
			return at, r.Summary()
		}
		if err != nil {
			s.b.Fatal(err)
		}
		if ev.Batch == nil {
			continue
		}
		if ev.Kind == wire.Rows && !ev.Preview {
			now := time.Since(began)
			at = append(at, total{now, ev.Batch.Cols[0].Value(ev.Batch.Row(0)).I})
			if each != nil {
				each(now)
			}
		}
		ev.Batch.Release()
	}
}

// perTuple returns the time per tuple in the second half; NaN if unknown.
func perTuple(at []total) float64 {
	if len(at) < 2 {
		return math.NaN()
	}
	a, b := at[(len(at)-1)/2], at[len(at)-1]
	if b.n == a.n {
		return math.NaN()
	}
	return float64(b.at-a.at) / float64(b.n-a.n)
}

func movesOf(s wire.Summary) (moves []string) {
	for _, n := range s.Notes {
		if strings.HasPrefix(n, "moved ") {
			moves = append(moves, n)
		}
	}
	return moves
}

// phase is a period without changes.
type phase struct {
	name  string
	load  int
	mbit  int
	until time.Duration
}

// change runs the query while load and network change.
func (s *placementSetting) change() placementRun {
	step := 10 * time.Second
	if testing.Short() {
		step = 6 * time.Second
	}
	run := placementRun{phases: []phase{{"nothing else", 0, 0, step}, {"4 other threads", 4, 0, 2 * step}, {"50 Mbit/s, too", 4, 50, 3 * step}, {"only 50 Mbit/s", 0, 50, 4 * step}, {"nothing else", 0, 0, 5 * step}}}
	current, stop := 0, func() {}
	run.totals, run.summary = s.watch("auto", 0, 5*step, func(now time.Duration) {
		next := slices.IndexFunc(run.phases, func(p phase) bool { return now < p.until })
		if next < 0 || next == current {
			return
		}
		current = next
		stop()
		stop = s.load(run.phases[next].load)
		s.network(run.phases[next].mbit, 0)
	})
	stop()
	s.network(0, 0)
	return run
}
