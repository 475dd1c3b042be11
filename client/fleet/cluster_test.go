package fleet_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"endoscope/client/fleet/root"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// cluster is a fleet of which each NATS server and each host is a process in a network
// namespace of its own.
type cluster struct {
	testing.TB
	dir      string
	bridge   string
	url      string
	servers  []*process
	hosts    []*process
	reducers []*process
	starts   []int       // of each host
	began    []time.Time // the last start of each
	recorded string
	history  []string // what was killed, and when
}

func (c *cluster) ip(args ...string) {
	c.Helper()
	if msg, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		testenv.Skip(c, "needs network namespaces: ip %v: %v: %s", args, err, msg)
	}
}

const (
	clusterServers = 3
	clusterNet     = "10.213.9."
	clusterShards  = 2
	hostsFrom      = 10 // last byte of the first host's address
	// reducerRests is how long reducers live between two that are killed: what only the one that
	// took over has of a host that was killed before is lost with it.
	reducerRests = 15 * time.Second
)

// namespace creates the namespace of a node, and connects it to the bridge.
func (c *cluster) namespace(node string, address int) {
	c.Helper()
	ns := c.bridge + node
	c.ip("netns", "add", ns)
	c.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
	c.ip("link", "add", ns, "type", "veth", "peer", "name", "wire", "netns", ns)
	c.ip("link", "set", ns, "master", c.bridge, "up")
	c.ip("-n", ns, "addr", "add", fmt.Sprint(clusterNet, address, "/24"), "dev", "wire")
	c.ip("-n", ns, "link", "set", "wire", "up")
	c.ip("-n", ns, "link", "set", "lo", "up")
}

func newCluster(t testing.TB, hosts, reducers int) *cluster {
	t.Helper()
	testenv.NeedRoot(t)
	testenv.NeedProgram(t, "ip")
	c := &cluster{TB: t, dir: t.TempDir(), bridge: "esb" + strconv.Itoa(os.Getpid()%100000)}
	c.ip("link", "add", c.bridge, "type", "bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", c.bridge).Run() })
	c.ip("addr", "add", clusterNet+"1/24", "dev", c.bridge)
	c.ip("link", "set", c.bridge, "up")
	e := engine(t)
	text, err := json.Marshal(record(t, e, "SELECT n AS k, COUNT(*) FROM series(1) GROUP BY n EMIT EVERY 1s"))
	if err := errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
	c.recorded = filepath.Join(c.dir, "recorded")
	if err := os.WriteFile(c.recorded, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for i := range clusterServers {
		c.namespace(fmt.Sprint("s", i), 2+i)
		urls = append(urls, fmt.Sprintf("nats://%s%d:%d", clusterNet, 2+i, clientPort))
		c.servers = append(c.servers, nil)
	}
	c.url = strings.Join(urls, ",")
	for i := range clusterServers {
		c.startServer(i)
	}
	testenv.UntilNil(t, "the cluster stores queries", func() error {
		nc, err := (&bus.Address{URL: c.url}).Connect("test", false)
		if err != nil {
			return err
		}
		defer nc.Close()
		return bus.Prepare(timeout(), nc, clusterServers)
	})
	for i := range hosts {
		c.namespace(fmt.Sprint("h", i), hostsFrom+i)
		c.hosts, c.starts, c.began = append(c.hosts, nil), append(c.starts, 0), append(c.began, time.Time{})
		c.startHost(i)
	}
	for i := range reducers {
		c.namespace(fmt.Sprint("r", i), hostsFrom+hosts+i)
		c.reducers = append(c.reducers, nil)
		c.startReducer(i)
	}
	return c
}

// in returns a command that runs another one in the namespace of a node.
func (c *cluster) in(node string) []string { return []string{"ip", "netns", "exec", c.bridge + node} }

func (c *cluster) startServer(i int) {
	o := clusterServer{Name: fmt.Sprint("s", i), Address: fmt.Sprint(clusterNet, 2+i), Dir: filepath.Join(c.dir, fmt.Sprint("s", i))}
	for k := range clusterServers {
		o.Routes = append(o.Routes, fmt.Sprint(clusterNet, 2+k))
	}
	c.servers[i] = startProcess(c, "server", o, c.in(o.Name)...)
}

// clockLayout shows when something happened during a test.
const clockLayout = "15:04:05.000"

// kill ends a node at once.
func (c *cluster) kill(kind string, i int, all []*process) {
	c.history = append(c.history, fmt.Sprintf("%s %s%d", time.Now().Format(clockLayout), kind, i))
	all[i].kill()
}

// Hosts have a group for each start, so that the result says what of each start it has.
func (c *cluster) key(host, start int) int64 { return int64(1000*host + start) }

func (c *cluster) witness(host, start int) string {
	return filepath.Join(c.dir, fmt.Sprintf("witness-%d", c.key(host, start)))
}

func (c *cluster) startHost(i int) {
	c.starts[i]++
	c.began[i] = time.Now()
	c.hosts[i] = startProcess(c, "host", clusterHost{Name: fmt.Sprint("h", i), URL: c.url, Key: c.key(i, c.starts[i]),
		Witness: c.witness(i, c.starts[i]), Recorded: c.recorded}, c.in(fmt.Sprint("h", i))...)
}

func (c *cluster) startReducer(i int) {
	name := fmt.Sprint("r", i)
	c.reducers[i] = startProcess(c, "reducer", runReducerOptions{URL: c.url, Name: name, Shards: clusterShards}, c.in(name)...)
}

// totals returns all totals that one start of a host has given, in order.
func (c *cluster) totals(host, start int) (all []int64) { return totalsIn(c.witness(host, start)) }

// totalsIn reads the totals in the file of a witness.
func totalsIn(file string) (all []int64) {
	for _, g := range givenIn(file) {
		all = append(all, g.total)
	}
	return all
}

// given is a total, and when a host gave it.
type given struct {
	total int64
	at    time.Time
}

// givenIn reads the file of a witness.
func givenIn(file string) (all []given) {
	f, err := os.Open(file)
	if err != nil {
		return nil // it was killed before the query arrived
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var total, at int64
		if n, _ := fmt.Sscan(s.Text(), &total, &at); n == 2 {
			all = append(all, given{total, time.Unix(0, at)})
		}
	}
	return all
}

// While servers of the bus, hosts and reducers are killed and started again, the counts of the hosts
// that live are exact, those of the others lack only what is in a gap that is named, and
// nothing counts twice. ENDOSCOPE_SOAK is how long it takes, and 50 hosts take part then.
func TestClusterWithFailures(t *testing.T) {
	testenv.Long(t)
	t.Run("without reducers", func(t *testing.T) { testFailures(t, 0) })
	t.Run("with reducers", func(t *testing.T) { testFailures(t, clusterShards+1) })
}

func testFailures(t *testing.T, reducers int) {
	hosts, killing := 10, 12*time.Second
	if text := os.Getenv("ENDOSCOPE_SOAK"); text != "" {
		var err error
		if hosts = 50; err == nil {
			killing, err = time.ParseDuration(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c := newCluster(t, hosts, reducers)
	var e *root.Engine
	testenv.UntilNil(t, "all hosts join", func() (err error) {
		if e, err = root.Dial(t.Context(), root.Options{Bus: bus.Address{URL: c.url}}); err == nil {
			if err = e.Await(t.Context(), hosts, reducers); err != nil {
				_ = e.Close()
			}
		}
		return err
	})
	defer e.Close()
	if reducers > 0 {
		awaitShards(t, &bus.Address{URL: c.url}, clusterShards)
	}
	s, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Execute(t.Context(), "SELECT n AS k, COUNT(*) FROM series(1) GROUP BY n EMIT EVERY 1s")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	answers := answersOf(t, r)
	var last totals
	covered := coverageWitness{cluster: c, result: r, stale: map[int]bool{}}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	killed := map[int]bool{}
	down := map[int]time.Time{}                             // hosts that rest, and when they are started again
	lost, rested := 0, time.Now()                           // of reducers
	testenv.Until(t, "all hosts are counted", func() bool { // the gap of one that was never heard is not known
		last = covered.newest(answers)
		for i := range hosts {
			if last[c.key(i, 1)] == 0 {
				return false
			}
		}
		return true
	})
	for began := time.Now(); time.Since(began) < killing; {
		last = covered.newest(answers)
		covered.check(last)
		for i, until := range down {
			if time.Now().After(until) {
				c.startHost(i)
				delete(down, i)
			}
		}
		i := random.IntN(hosts / 2) // the other half of the hosts lives
		if !down[i].IsZero() {
			continue
		}
		switch random.IntN(5) {
		case 0:
			s := random.IntN(clusterServers)
			c.kill("s", s, c.servers)
			c.startServer(s)
		case 1, 2:
			c.kill("h", i, c.hosts)
			c.startHost(i)
			killed[i] = true
		case 3:
			c.kill("h", i, c.hosts)
			if killed[i] = true; reducers == 0 {
				down[i] = time.Now().Add(2 * fresh)
			} else { // what only a reducer has of it would be lost with that
				c.startHost(i)
			}
		default:
			if reducers > 0 && (lost == 0 || time.Since(rested) > reducerRests) {
				r := random.IntN(reducers)
				c.kill("r", r, c.reducers)
				c.startReducer(r)
				lost, rested = lost+1, time.Now()
			}
		}
	}
	if reducers > 0 && lost == 0 {
		c.kill("r", 0, c.reducers)
		c.startReducer(0)
	}
	for i := range down {
		c.startHost(i)
	}
	c.kill("h", 0, c.hosts)
	testenv.Until(t, "h0 is silent", func() bool {
		last = covered.newest(answers)
		return !covered.check(last)[0]
	})
	c.startHost(0)
	killed[0] = true
	testenv.Until(t, "all hosts are counted, and answer", func() bool {
		last = covered.newest(answers)
		answered := covered.check(last)
		for i := range hosts {
			if last[c.key(i, c.starts[i])] == 0 || !answered[i] {
				return false
			}
		}
		return true
	})
	r.Stop()
	for a := range answers {
		last = a
	}
	notes := r.Summary().Notes
	if want := fmt.Sprintf("%d of %d hosts", hosts, hosts); !slices.Contains(notes, want) {
		t.Errorf("the footer is %q, want %s", notes, want)
	}
	for i := range hosts {
		if named := strings.Contains(strings.Join(notes, "; "), fmt.Sprintf("h%d: it was restarted, and nothing is known from ", i)); named != killed[i] {
			t.Errorf("h%d was killed: %v, and its gap is named: %v", i, killed[i], named)
		}
		for start := 1; start <= c.starts[i]; start++ {
			all, got := c.totals(i, start), last[c.key(i, start)]
			delete(last, c.key(i, start))
			switch {
			case start == c.starts[i] && (len(all) == 0 || got != all[len(all)-1]):
				t.Errorf("h%d, start %d: counted %d of %v", i, start, got, all)
			case got != 0 && !slices.Contains(all, got):
				t.Errorf("h%d, start %d, which was killed: %d is none of its totals %v", i, start, got, all)
			}
		}
	}
	if len(last) > 0 {
		t.Errorf("counts of nothing: %v", last)
	}
	if t.Failed() {
		t.Logf("killed: %s", strings.Join(c.history, ", "))
	}
	t.Logf("coverage was compared %d times: %d times a host had answered, %d times it had not", covered.times, covered.answered, covered.silent)
	t.Logf("%d starts of hosts", func() (n int) {
		for _, s := range c.starts {
			n += s
		}
		return n
	}())
}
