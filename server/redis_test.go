package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// redis is a server of ours on a free port of the loopback interface.
type redis struct {
	port int
	pid  int
}

func startRedis(t testing.TB) *redis {
	t.Helper()
	program := testenv.NeedProgram(t, "redis-server")
	port := freePort(t)
	cmd := exec.Command(program, "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	r := &redis{port: port, pid: cmd.Process.Pid}
	testenv.UntilNil(t, "redis-server listens", func() error {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			c.Close()
		}
		return err
	})
	return r
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// calls asks the server how many commands it has executed, by INFO
// commandstats; an INFO does not count itself.
func (r *redis) calls(t testing.TB) int64 {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "INFO commandstats\r\n")
	in := bufio.NewReader(c)
	header, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	size, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(header, "$")))
	if err != nil {
		t.Fatalf("INFO answered %q", header)
	}
	var sum int64
	for size > 0 {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		size -= len(line)
		if _, rest, ok := strings.Cut(line, ":calls="); ok {
			n, _, _ := strings.Cut(rest, ",")
			v, err := strconv.ParseInt(n, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// connections is how many clients the server has, the one that asks included.
func (r *redis) connections(t *testing.T) int {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "INFO clients\r\n")
	for in := bufio.NewReader(c); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "connected_clients:"); ok {
			v, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
}

// load runs redis-benchmark.
func (r *redis) load(t *testing.T, args ...string) {
	t.Helper()
	program := testenv.NeedProgram(t, "redis-benchmark")
	args = append([]string{"-p", strconv.Itoa(r.port), "-q"}, args...)
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("redis-benchmark: %v\n%s", err, out)
	}
}

// TestRedisCountsEqualCommandstats counts processCommand under load and
// compares with what the server itself has counted, exactly.
func TestRedisCountsEqualCommandstats(t *testing.T) {
	testenv.NeedUprobes(t)
	r := startRedis(t)
	s := newSession(t, wire.Options{})
	for _, stream := range []string{"function_start", "function_end", "function_duration"} {
		before := r.calls(t)
		q := start(t, s, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE pid = %d AND function_name='processCommand'", stream, r.pid))
		r.load(t, "-t", "get", "-n", "20000")
		after := r.calls(t)
		// The first INFO is in the second's answer but was not observed; the
		// second was observed but is not in its own answer.
		want := after - before
		q.Stop()
		a := read(t, q)
		complete(t, a)
		if got := number(t, a, 0, 0); got != want {
			t.Errorf("%s counted %d commands, commandstats %d", stream, got, want)
		}
		if want < 20000 {
			t.Errorf("the load was %d commands", want)
		}
	}
}

// TestRedisTotalsEachSecond runs the second query of the project's promise:
// totals grow, groups are right, and each call of processCommand contains one
// of call.
func TestRedisTotalsEachSecond(t *testing.T) {
	testenv.NeedUprobes(t)
	r := startRedis(t)
	s := newSession(t, wire.Options{PID: r.pid})
	var a reply
	var want int64
	seconds := 0
	testenv.Once(t, func() error {
		seconds += 5
		began := time.Now()
		q := start(t, s, fmt.Sprintf(`SELECT function_name, COUNT(*), AVG(duration), QUANTILE(duration,0.99) FROM function_duration
			WHERE function_name IN (processCommand, call, lookupKey) GROUP BY function_name EMIT EVERY 1s FOR %ds`, seconds))
		before := r.calls(t)
		r.load(t, "-t", "get", "-n", "5000")
		want = r.calls(t) - before + 1 // both INFOs were observed, one of them is in the difference
		took := time.Since(began)
		a = read(t, q)
		complete(t, a)
		if a.flushes != seconds {
			t.Errorf("%d results in %d s", a.flushes, seconds)
		}
		if took > time.Duration(seconds)*time.Second {
			return fmt.Errorf("the load took %v, and the query was over", took)
		}
		return nil
	})
	last := map[string]int64{}
	for _, row := range a.rows {
		n, _ := strconv.ParseInt(row[1], 10, 64)
		if n < last[row[0]] {
			t.Errorf("the total of %s fell from %d to %d", row[0], last[row[0]], n)
		}
		last[row[0]] = n
		mean, _ := strconv.ParseInt(row[2], 10, 64)
		if mean <= 0 || mean > 1e11 {
			t.Errorf("mean duration of %s: %d ns", row[0], mean)
		}
	}
	if last["processCommand"] != want || last["call"] != want {
		t.Errorf("processCommand %d, call %d, commands %d", last["processCommand"], last["call"], want)
	}
	if last["lookupKey"] < 5000 {
		t.Errorf("lookupKey was called %d times for 5,000 GETs", last["lookupKey"])
	}
}

// TestOverheadIsRefused asks for every function of a busy server: what that
// would cost is said before anything is attached, and a limit raised lets it run.
func TestOverheadIsRefused(t *testing.T) {
	testenv.NeedUprobes(t)
	r := startRedis(t)
	load := exec.Command(testenv.NeedProgram(t, "redis-benchmark"), "-p", strconv.Itoa(r.port), "-q", "-t", "get", "-n", "100000000")
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { load.Process.Kill(); load.Wait() }()
	s := newSession(t, wire.Options{PID: r.pid})
	const query = "SELECT COUNT(*) FROM function_start"
	ask(t, s, "SET max_overhead = 0.01%")
	var err error
	for deadline := time.Now().Add(2 * time.Minute); err == nil && time.Now().Before(deadline); {
		// The load takes its time to begin.
		var q wire.Result
		if q, err = s.Execute(t.Context(), query+" FOR 1ms"); err == nil {
			read(t, q)
		}
	}
	if err == nil || !regexp.MustCompile(`probing \d+ functions costs too much: at the current call rates it would cost (about|at least|less than) [\d.]+ % of one CPU \([\d.,]+ (M )?calls/s, mostly \w+(, \w+){0,2}\), and at most 0.01 % (of the [\d.]+ CPUs that the program uses )?may be spent`).MatchString(err.Error()) ||
		!strings.Contains(err.Error(), "SET max_overhead = ") {
		t.Fatalf("all functions under load: %v", err)
	}
	if a := ask(t, s, "SELECT COUNT(*) FROM sys.probes"); a.rows[0][0] != "0" {
		t.Errorf("%s probes after the refusal", a.rows[0][0])
	}
	const said = "functions will be probed; at the current call rates that costs "
	explained := ""
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(explained, "it would be refused: ") && time.Now().Before(deadline); {
		explained = strings.Join(ask(t, s, "EXPLAIN "+query).notices, "\n")
	}
	if !strings.Contains(explained, said) || !strings.Contains(explained, "it would be refused: probing ") {
		t.Errorf("EXPLAIN says %q", explained)
	}

	ask(t, s, "SET max_overhead = 1000000%")
	testenv.Once(t, func() error {
		a := ask(t, s, query+" FOR 200ms")
		complete(t, a)
		if ns := strings.Join(a.notices, "\n"); !strings.Contains(ns, "functions will be probed; ") {
			t.Errorf("allowed, it says %q", ns)
		}
		if number(t, a, 0, 0) == 0 {
			return errors.New("no calls under load")
		}
		return nil
	})
	// Few functions are what it was made for.
	ask(t, s, "SET max_overhead = 0.01%")
	complete(t, ask(t, s, query+" WHERE function_name IN (call, processCommand) FOR 50ms"))
}
