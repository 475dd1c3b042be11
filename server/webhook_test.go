package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// receiver is who WEBHOOK posts to. answer gives the status of the n-th post.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	kinds  []string
}

func newReceiver(t testing.TB, answer func(n int) int) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.bodies = append(r.bodies, string(body))
		r.kinds = append(r.kinds, q.Method+" "+q.URL.Path+" "+q.Header.Get("Content-Type"))
		n := len(r.bodies)
		r.mu.Unlock()
		w.WriteHeader(answer(n))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.bodies...)
}

// ticks is a file whose rows are the tuples of a trigger.
func ticks(t testing.TB, n int) string {
	path := t.TempDir() + "/ticks.csv"
	text := "timestamp,n\n"
	for i := range n {
		text += fmt.Sprintf("2026-01-01T00:00:%02d.%03dZ,%d\n", i/1000, i%1000, i)
	}
	write(t, path, text)
	return path
}

func TestWebhookPostsTheTuple(t *testing.T) {
	r := newReceiver(t, func(int) int { return http.StatusNoContent })
	s := newSession(t, wire.Options{})
	run(t, s, "CREATE TRIGGER late ON file('"+ticks(t, 3)+"') WHEN n > 0 BEGIN WEBHOOK '"+r.URL+"/hook' END")
	a := triggered(t, s)
	if len(a.rows) != 2 {
		t.Errorf("rows %v", a.rows)
	}
	want := []string{
		`{"trigger":"late","activation":1,"timestamp":"2026-01-01T00:00:00.001000000Z","row":{"timestamp":"2026-01-01T00:00:00.001000000Z","n":1}}`,
		`{"trigger":"late","activation":2,"timestamp":"2026-01-01T00:00:00.002000000Z","row":{"timestamp":"2026-01-01T00:00:00.002000000Z","n":2}}`,
	}
	got := r.got()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the receiver got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(r.kinds) == 0 || r.kinds[0] != "POST /hook application/json" {
		t.Errorf("requests were %v", r.kinds)
	}
}

// An alert is what the API takes: labels, annotations, startsAt, which stays that of
// the first tuple, and endsAt once a tuple fails the condition or none follows. With
// ONCE it does not end.
func TestWebhookForAlertmanager(t *testing.T) {
	type alert struct {
		Labels, Annotations map[string]string
		StartsAt            time.Time
		EndsAt              *time.Time
	}
	for mode, want := range map[string][]string{
		// activation, startsAt and endsAt in ms
		"CONTINUOUS": {"1: 1-", "2: 1-", "2: 1-3", "3: 5-", "3: 5-end"},
		"ONCE":       {"1: 1-", "2: 1-", "3: 1-"},
	} {
		r := newReceiver(t, func(int) int { return http.StatusOK })
		s := newSession(t, wire.Options{})
		run(t, s, "SET webhook_format = alertmanager")
		run(t, s, "CREATE "+mode+" TRIGGER late ON file('"+ticks(t, 6)+"') WHEN n IN (1, 2, 5) BEGIN WEBHOOK '"+r.URL+"/api/v2/alerts' END")
		triggered(t, s)
		var got []string
		for _, body := range r.got() {
			var alerts []alert
			d := json.NewDecoder(strings.NewReader(body))
			d.DisallowUnknownFields()
			if err := d.Decode(&alerts); err != nil || len(alerts) != 1 {
				t.Fatalf("%s: %v", body, err)
			}
			a := alerts[0]
			n := a.Annotations["activation"]
			row := fmt.Sprintf(`{"timestamp":"2026-01-01T00:00:00.00%[1]s000000Z","n":%[1]s}`, map[string]string{"1": "1", "2": "2", "3": "5"}[n])
			if a.Labels["alertname"] != "late" || a.Annotations["row"] != row {
				t.Errorf("the alert is %+v", a)
			}
			ends := ""
			if a.EndsAt != nil {
				if ends = fmt.Sprint(a.EndsAt.UnixMilli() % 1000); time.Since(*a.EndsAt) < time.Minute {
					ends = "end" // of the stream
				}
			}
			got = append(got, fmt.Sprintf("%s: %d-%s", n, a.StartsAt.UnixMilli()%1000, ends))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the receiver got (-want, +got)\n%s", mode, diff)
		}
	}
}

// A receiver that is away for a while gets everything, in order; one that refuses
// for good is not asked again, which is counted and told.
func TestWebhookTriesAgain(t *testing.T) {
	r := newReceiver(t, func(n int) int {
		if n <= 2 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	s := newSession(t, wire.Options{})
	run(t, s, "CREATE TRIGGER late ON file('"+ticks(t, 2)+"') WHEN TRUE BEGIN WEBHOOK '"+r.URL+"' END")
	triggered(t, s)
	got := r.got()
	if len(got) != 4 || got[0] != got[1] || got[1] != got[2] || !strings.Contains(got[2], `"activation":1,`) || !strings.Contains(got[3], `"activation":2,`) {
		t.Errorf("the receiver got\n%s", strings.Join(got, "\n"))
	}
	if n := triggerColumn(t, s, "late", "lost"); n != "0" {
		t.Errorf("%s lost", n)
	}

	var h heard
	refuses := newReceiver(t, func(int) int { return http.StatusForbidden })
	s = newSession(t, wire.Options{Notify: h.add})
	run(t, s, "CREATE TRIGGER late ON file('"+ticks(t, 2)+"') WHEN TRUE BEGIN WEBHOOK '"+refuses.URL+"' END")
	triggered(t, s)
	if got := refuses.got(); len(got) != 2 {
		t.Errorf("it was asked %d times for two activations", len(got))
	}
	if n, what := triggerColumn(t, s, "late", "lost"), triggerColumn(t, s, "late", "error"); n != "2" || !strings.Contains(what, "403 Forbidden") {
		t.Errorf("%s lost, %q", n, what)
	}
	if got := h.all(); len(got) != 1 || !strings.Contains(got[0], "trigger late: WEBHOOK") {
		t.Errorf("told of %q", got)
	}
}

// A receiver that has moved did not get anything.
func TestWebhookDoesNotFollow(t *testing.T) {
	r := newReceiver(t, func(int) int { return http.StatusOK })
	moved := httptest.NewServer(http.RedirectHandler(r.URL, http.StatusMovedPermanently))
	t.Cleanup(moved.Close)
	s := newSession(t, wire.Options{})
	run(t, s, "CREATE TRIGGER late ON file('"+ticks(t, 1)+"') WHEN TRUE BEGIN WEBHOOK '"+moved.URL+"' END")
	triggered(t, s)
	if got := r.got(); len(got) != 0 {
		t.Errorf("where it moved to got %q", got)
	}
	if n, what := triggerColumn(t, s, "late", "lost"), triggerColumn(t, s, "late", "error"); n != "1" || !strings.Contains(what, "the receiver answers 301") {
		t.Errorf("%s lost, %q", n, what)
	}
}

// A receiver that hangs holds up neither the trigger nor its end, and what finds
// the queue full is counted.
func TestWebhookBounded(t *testing.T) {
	release := make(chan struct{})
	r := newReceiver(t, func(int) int { <-release; return http.StatusOK })
	s := newSession(t, wire.Options{})
	run(t, s, "CREATE TRIGGER late ON file('"+ticks(t, 1000)+"') WHEN TRUE BEGIN WEBHOOK '"+r.URL+"' END")
	testenv.Until(t, "the trigger is activated without waiting for the receiver", func() bool { return triggerColumn(t, s, "late", "activations") == "1000" })
	testenv.UntilNil(t, "256 wait, and one is under way", func() error {
		if n := triggerColumn(t, s, "late", "lost"); n != "743" && n != "744" {
			return fmt.Errorf("%s lost", n)
		}
		return nil
	})
	run(t, s, "DROP TRIGGER late") // returns although nobody has released the receiver
	close(release)
}
