package daemon

import (
	"context"
	_ "embed" // the dashboard
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"endoscope/server"
	"endoscope/server/access"
)

// monitored is implemented by engines that report statistics.
type monitored interface {
	Stats() server.Stats
	Gather(selected func(owner string) bool) []*dto.MetricFamily
}

// collector exports the engine's current statistics to Prometheus.
type collector struct {
	engine monitored
	guard  *access.Guard
	by     *access.Authority
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("endoscope_"+name, help, labels, nil)
}

var (
	descClients  = describe("sessions", "Sessions of clients.")
	descQueries  = describe("queries", "Queries that run, those of triggers and exports included.")
	descTriggers = describe("triggers", "Triggers that have not been dropped.")
	descExports  = describe("exports", "Exports that have not been dropped.")
	descProbes   = describe("probes", "Places in programs that are probed.")
	descStarted  = describe("queries_started_total", "Queries that were started.")
	descRows     = describe("rows_total", "Rows given to clients.")
	descEvents   = describe("events_total", "Events taken from probes, samplers and files.")
	descLost     = describe("events_lost_total", "Events that became no row, as the queries counted them.")

	descUserQueries = describe("user_queries", "Queries that run, by user.", "user")
	descUserProbes  = describe("user_probes", "Places in programs that are probed, by user.", "user")
	descUserMemory  = describe("user_memory_bytes", "What the queries may hold at most, by user.", "user")
	descUserDropped = describe("user_events_dropped_total", "Events beyond the user's rate.", "user")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	s := c.engine.Stats()
	gauge(descClients, float64(c.guard.Sessions()))
	gauge(descQueries, float64(s.Queries))
	gauge(descTriggers, float64(s.Triggers))
	gauge(descExports, float64(s.Exports))
	gauge(descProbes, float64(s.Probes))
	counter(descStarted, float64(s.Started))
	counter(descRows, float64(s.Rows))
	counter(descEvents, float64(s.Events))
	counter(descLost, float64(s.Lost))
	for user, u := range c.by.Usage() {
		gauge(descUserQueries, float64(u.Queries), user)
		gauge(descUserProbes, float64(u.Probes), user)
		gauge(descUserMemory, float64(u.Memory), user)
		counter(descUserDropped, float64(u.Dropped), user)
	}
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

//go:embed dashboard.json
var dashboard []byte

// monitor serves /healthz, /metrics and /dashboard.json until its stop is called.
func monitor(l net.Listener, c *collector, insecure bool, log *slog.Logger) (stop func()) {
	r := prometheus.NewRegistry()
	r.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	// The limits hold for all requests, each of which has its own view of the exports.
	flying := make(chan struct{}, 4)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, req *http.Request) {
		select {
		case flying <- struct{}{}:
			defer func() { <-flying }()
		default:
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
			return
		}
		conn, _ := req.Context().Value(connKey{}).(net.Conn)
		who := c.by.Scraper(req, conn, insecure)
		exports := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			if who == nil {
				return nil, nil
			}
			return c.engine.Gather(who.Scrapes), nil
		})
		promhttp.HandlerFor(prometheus.Gatherers{r, exports}, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, Timeout: 10 * time.Second, EnableOpenMetrics: true}).ServeHTTP(w, req)
	})
	mux.HandleFunc("GET /dashboard.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(dashboard)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 14,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(l); err != http.ErrServerClosed {
			log.Error("monitoring has ended", "error", err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		_ = s.Close()
		<-done
	}
}
