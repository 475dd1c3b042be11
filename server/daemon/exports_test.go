package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// exporting is a daemon whose engine the test uses without a connection.
type exporting struct {
	*daemon
	engine *server.Engine
}

func beginExporting(t testing.TB, args ...string) *exporting {
	t.Helper()
	x := &exporting{}
	ctx, cancel := context.WithCancel(context.Background())
	ready, over := make(chan []net.Addr, 1), make(chan int, 1)
	d := &daemon{t: t, log: &testenv.Buffer{}}
	p := Program{Stderr: d.log, Stdout: io.Discard, Ready: func(a []net.Addr) { ready <- a }, Open: func(o server.Options) (Engine, error) {
		e, err := server.New(o)
		x.engine = e
		return e, err
	}}
	args = append([]string{"--unix", filepath.Join(t.TempDir(), "socket"), "--metrics", "127.0.0.1:0", "--config", t.TempDir()}, args...)
	go func() { over <- p.Run(ctx, args) }()
	d.stop = sync.OnceValue(func() int {
		cancel()
		return <-over
	})
	t.Cleanup(func() { d.stop() })
	select {
	case d.addrs = <-ready:
	case code := <-over:
		over <- code
		t.Fatalf("the daemon ended with %d: %s", code, d.log)
	}
	x.daemon = d
	return x
}

func cell(v types.Value) string {
	switch {
	case v.IsNull:
		return "NULL"
	case v.Type == types.Varchar:
		return v.S
	}
	return plan.FormatValue(v)
}

// run executes a statement of the engine's own user and returns its rows and notices.
func (x *exporting) run(t testing.TB, statement string) (rows [][]string, notices []string) {
	t.Helper()
	s, err := x.engine.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Execute(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer r.Close()
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return rows, notices
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case ev.Kind == wire.Notice:
			notices = append(notices, ev.Text)
		case ev.Batch != nil:
			for i := range ev.Batch.Len() {
				var row []string
				for k := range ev.Batch.Cols {
					row = append(row, cell(ev.Batch.Cols[k].Value(ev.Batch.Row(i))))
				}
				rows = append(rows, row)
			}
			ev.Batch.Release()
		}
	}
}

func (x *exporting) metricsAddr() string { return x.addrs[len(x.addrs)-1].String() }

// scrape returns the text of /metrics.
func (x *exporting) scrape(t testing.TB, token string) string {
	t.Helper()
	return x.scrapeAs(t, token, x.metricsAddr())
}

// scrapeAs returns the text of /metrics for a request that names a host.
func (x *exporting) scrapeAs(t testing.TB, token, host string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+x.metricsAddr()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s %v\n%s", resp.Status, err, body)
	}
	return string(body)
}

// promServer is a server of ours.
type promServer struct{ addr string }

// scraping is the configuration of a server that scrapes one address.
func scraping(addr string) string {
	return fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: endoscope\n  static_configs:\n  - targets: ['%s']\n", addr)
}

func startPrometheus(t testing.TB, config string) *promServer {
	t.Helper()
	program := testenv.NeedProgram(t, "prometheus")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &promServer{addr: "127.0.0.1:" + testenv.FreePort(t)}
	cmd := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.addr, "--web.enable-remote-write-receiver", "--enable-feature=native-histograms")
	out := &testenv.Buffer{}
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", out)
		}
	})
	testenv.UntilNil(t, "prometheus is ready", func() error {
		resp, err := http.Get("http://" + p.addr + "/-/ready")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			return errors.New(resp.Status)
		}
		return nil
	})
	return p
}

// query returns the values of an instant query, by one of the labels.
func (p *promServer) query(t testing.TB, promql, by string) map[string]float64 {
	t.Helper()
	resp, err := http.Get("http://" + p.addr + "/api/v1/query?query=" + url.QueryEscape(promql))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s: %s %v", promql, answer.Error, err)
	}
	out := map[string]float64{}
	for _, r := range answer.Data.Result {
		text, ok := r.Value[1].(string)
		if !ok { // a native histogram
			out[r.Metric[by]] = math.NaN()
			continue
		}
		if out[r.Metric[by]], err = strconv.ParseFloat(text, 64); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// commandstats returns how often redis has executed each command, by its own count.
func commandstats(t testing.TB, port string) map[string]float64 {
	t.Helper()
	out, err := exec.Command(testenv.NeedProgram(t, "redis-cli"), "-p", port, "INFO", "commandstats").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		n, _, _ := strings.Cut(rest, ",")
		if all[name], err = strconv.ParseFloat(n, 64); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func startRedis(t testing.TB) (port string, pid int) {
	t.Helper()
	port = testenv.FreePort(t)
	cmd := exec.Command(testenv.NeedProgram(t, "redis-server"), "--port", port, "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", t.TempDir())
	testenv.Run(t, cmd)
	testenv.UntilNil(t, "redis-server listens", func() error {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err
	})
	return port, cmd.Process.Pid
}

// checkDashboard asks Prometheus the queries of the dashboard, of estimates or of the rest,
// with the variables as a user would choose them.
func checkDashboard(t *testing.T, p *promServer, estimates bool, least int) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(dashboard, &d); err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("$export", "redis", "$counter", "redis_calls_total", "$gauge", "redis_duration_max_seconds", "$histogram", "redis_duration_seconds", "${estimate}", "redis_calls", "$__rate_interval", "5m")
	n := 0
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			if strings.Contains(target.Expr, "${estimate}") != estimates {
				continue
			}
			n++
			testenv.Until(t, panel.Title+" has values of "+target.Expr, func() bool { // a rate needs two scrapes
				return len(p.query(t, values.Replace(target.Expr), "function")) > 0 || panel.Title == "Lost"
			})
		}
	}
	if n < least {
		t.Errorf("the dashboard has %d queries, want %d", n, least)
	}
}

// The figures of exports are for those who may have them; those of the daemon for all.
func TestScrapesAreIdentified(t *testing.T) {
	testenv.NeedRoot(t)
	conf := configured(t, "locals none\nuser alice\n role read\nuser bob\n role read\nuser prom\n role read\n grants scrape\n")
	x := beginExporting(t, "--config", conf)
	for _, name := range []string{"alice", "bob"} {
		s, err := x.engine.As(&grant.Grant{User: name}).NewSession(t.Context(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Execute(t.Context(), "CREATE EXPORT load TO PROMETHEUS AS SELECT percent_busy FROM SAMPLE(cpu_usage, 100ms)")
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		s.Close()
	}
	token := func(user string) string { return command(t, "token", "add", user, "--config", conf) }
	of := func(user string) string { return `load_busy_ratio{export="load",owner="` + user + `"}` }
	alice, prom := token("alice"), token("prom")
	testenv.UntilNil(t, "both exports have figures", func() error {
		if got := x.scrape(t, prom); !strings.Contains(got, of("alice")) || !strings.Contains(got, of("bob")) {
			return errors.New(got)
		}
		return nil
	})
	for who, c := range map[string]struct {
		token      string
		alice, bob bool
	}{"alice": {alice, true, false}, "nobody": {"nonsense", false, false}} {
		got := x.scrape(t, c.token)
		if strings.Contains(got, of("alice")) != c.alice || strings.Contains(got, of("bob")) != c.bob || !strings.Contains(got, "endoscope_exports 2") {
			t.Errorf("%s gets\n%s", who, got)
		}
	}
	// The test is root, who is known over the loopback, unless a name resolves to that.
	if got := x.scrape(t, ""); !strings.Contains(got, of("alice")) || !strings.Contains(got, of("bob")) {
		t.Errorf("root gets\n%s", got)
	}
	if got := x.scrapeAs(t, "", "rebound.example"); strings.Contains(got, "load_busy_ratio") || !strings.Contains(got, "endoscope_exports 2") {
		t.Errorf("a page of a browser gets\n%s", got)
	}
	resp, err := http.Get("http://" + x.metricsAddr() + "/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); string(got) != string(dashboard) {
		t.Errorf("the dashboard is %q", got)
	}
}

// What Prometheus has of an export that it scrapes equals what redis itself has counted.
func TestPrometheusScrapesAnExport(t *testing.T) {
	testenv.NeedUprobes(t)
	x := beginExporting(t)
	p := startPrometheus(t, scraping(x.metricsAddr()))
	exportRedis(t, x, p, "PROMETHEUS")
	checkDashboard(t, p, false, 8)
	x.run(t, "DROP EXPORT redis")
	testenv.Until(t, "the series are stale", func() bool { return len(p.query(t, "redis_calls_total", "function")) == 0 })
}

// The same holds of an export that is sent by remote write.
func TestPrometheusTakesRemoteWrites(t *testing.T) {
	testenv.NeedUprobes(t)
	x := beginExporting(t)
	p := startPrometheus(t, "")
	exportRedis(t, x, p, "'prometheus+http://"+p.addr+"'")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.query(t, `redis_calls_total{job="endoscope", export="redis"}`, "instance"); got[host] == 0 {
		t.Errorf("by instance: %v", got)
	}
	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	x.run(t, "CREATE EXPORT refused TO 'prometheus+"+refuses.URL+"' AS SELECT used FROM SAMPLE(memory_usage, 100ms)")
	testenv.UntilNil(t, "the refusal is told", func() error {
		rows, _ := x.run(t, "SELECT error, sent FROM sys.exports WHERE export = 'refused'")
		if fmt.Sprint(rows) != "[[the receiver answers 404 Not Found 0]]" {
			return fmt.Errorf("%v", rows)
		}
		return nil
	})
}

// exportRedis exports calls of a redis server, and compares what Prometheus has of them with
// what redis itself has counted.
func exportRedis(t *testing.T, x *exporting, p *promServer, to string) {
	t.Helper()
	port, pid := startRedis(t)
	before := commandstats(t, port)
	x.run(t, fmt.Sprintf(`CREATE EXPORT redis TO %s WITH (exact => TRUE) AS
		SELECT function_name AS function, COUNT(*) AS calls, SUM(duration), MAX(duration), HISTOGRAM(duration), HISTOGRAM(duration, 0, 1000000, 250000) AS coarse
		FROM function_duration WHERE pid = %d AND function_name IN ('getCommand', 'setCommand', 'incrCommand', 'lpushCommand') GROUP BY function_name EMIT EVERY 500ms`, to, pid))
	out, err := exec.Command(testenv.NeedProgram(t, "redis-benchmark"), "-p", port, "-q", "-n", "20000", "-t", "get,set,incr,lpush").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	after := commandstats(t, port)
	want := map[string]float64{}
	for _, c := range []string{"get", "set", "incr", "lpush"} {
		want[c+"Command"] = after[c] - before[c]
	}
	testenv.UntilNil(t, "prometheus has all calls and their sums", func() error {
		for _, q := range []string{"redis_calls_total", "histogram_count(redis_duration_seconds)", "redis_coarse_seconds_count"} {
			got := p.query(t, q, "function")
			for name, n := range want {
				if got[name] != n {
					return fmt.Errorf("%s of %s: %v, want %v", q, name, got[name], n)
				}
			}
			if len(got) != len(want) {
				return fmt.Errorf("%s: %v", q, got)
			}
		}
		// The same sums by two ways, and a quantile that lies where the mean allows it. A scrape
		// that was not in time takes all series away until the next.
		sum, hsum := p.query(t, "redis_duration_seconds_total", "function"), p.query(t, "histogram_sum(redis_duration_seconds)", "function")
		median, slowest := p.query(t, "histogram_quantile(0.5, redis_duration_seconds)", "function"), p.query(t, "redis_duration_max_seconds", "function")
		coarse := p.query(t, `redis_coarse_seconds_bucket{le="0.001"}`, "function")
		for name, n := range want {
			if sum[name] != hsum[name] || sum[name] <= 0 || median[name] <= 0 || median[name] > 2*sum[name]/n || slowest[name] < sum[name]/n || coarse[name] > n || coarse[name] < n/2 {
				return fmt.Errorf("%s: sum %v and %v, median %v, max %v, up to 1 ms %v of %v", name, sum[name], hsum[name], median[name], slowest[name], coarse[name], n)
			}
		}
		if up := p.query(t, "endoscope_export_up", "export"); up["redis"] != 1 {
			return fmt.Errorf("up: %v", up)
		}
		return nil
	})
	rows, _ := x.run(t, "SELECT export, target, state, series, lost FROM sys.exports")
	if fmt.Sprint(rows) != "[[redis "+strings.Trim(to, "'")+" running 4 0]]" {
		t.Errorf("sys.exports: %v", rows)
	}
}

// By default an export has an overhead of 1 %: totals of functions that are called often are
// estimates, which are gauges with their intervals, and the others are exact counters.
func TestPrometheusHasEstimates(t *testing.T) {
	testenv.NeedUprobes(t)
	x := beginExporting(t)
	p := startPrometheus(t, scraping(x.metricsAddr()))
	port, pid := startRedis(t)
	before := commandstats(t, port)
	export := fmt.Sprintf(`CREATE EXPORT redis TO PROMETHEUS AS
		SELECT function_name AS function, COUNT(*) AS calls, AVG(duration)
		FROM function_duration WHERE pid = %d AND function_name IN ('getCommand', 'setCommand', 'incrCommand') GROUP BY function_name EMIT EVERY 500ms`, pid)
	_, notices := x.run(t, export)
	if len(notices) != 0 {
		t.Errorf("%q", notices)
	}
	load := exec.Command(testenv.NeedProgram(t, "redis-benchmark"), "-p", port, "-q", "-l", "-t", "get")
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { load.Process.Kill(); load.Wait() }()
	if out, err := exec.Command(testenv.NeedProgram(t, "redis-cli"), "-p", port, "INCR", "rare").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testenv.UntilNil(t, "prometheus has an estimate and an exact count", func() error {
		low, estimate, high := p.query(t, "redis_calls_low", "function"), p.query(t, "redis_calls_estimate", "function"), p.query(t, "redis_calls_high", "function")
		exact, mean := p.query(t, "redis_calls_total", "function"), p.query(t, "redis_duration_avg_seconds", "function")
		cost := p.query(t, "endoscope_export_overhead_seconds_total", "export")
		const often, rare = "getCommand", "incrCommand"
		_, both := exact[often]
		if most, bounded := high[often]; both || !(estimate[often] > 0) || low[often] > estimate[often] || bounded && most < estimate[often] || !(mean[often] > 0) {
			return fmt.Errorf("GET: exact %v, low %v, estimate %v, high %v, mean %v", exact, low, estimate, high, mean)
		}
		if want := commandstats(t, port)["incr"] - before["incr"]; exact[rare] != want || estimate[rare] != 0 || low[rare] != 0 || !(cost["redis"] > 0) {
			return fmt.Errorf("INCR: exact %v, low %v, estimate %v; cost %v", exact, low, estimate, cost)
		}
		return nil
	})
	// An estimate has an upper bound when there were enough slices. Of a redis that has little of a
	// busy machine, 1 % pays for one in ten seconds. Calls of GET take more than a tenth of it.
	x.run(t, "DROP EXPORT redis")
	x.run(t, export+" WITHIN OVERHEAD 20%")
	checkDashboard(t, p, true, 3)
	// Estimates have no place in a histogram, nor in a join: the export is exact, and says so.
	for what, of := range map[string]string{
		"sketch(duration) cannot be estimated": "SELECT function_name, HISTOGRAM(duration) FROM function_duration WHERE pid = %d AND function_name = 'getCommand' GROUP BY function_name",
		"only aggregates of one stream":        "SELECT COUNT(*) FROM function_duration a WINDOW JOIN function_duration b WITHIN 1ms ON a.tid = b.tid WHERE a.pid = %[1]d AND b.pid = %[1]d AND a.function_name = 'setCommand' AND b.function_name = 'incrCommand'",
	} {
		_, notices := x.run(t, "CREATE EXPORT other TO PROMETHEUS AS "+fmt.Sprintf(of, pid))
		if text := strings.Join(notices, "\n"); !strings.Contains(text, "the export is exact") || !strings.Contains(text, what) {
			t.Errorf("%s: %q", what, text)
		}
		x.run(t, "DROP EXPORT other")
	}
}
