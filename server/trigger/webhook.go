package trigger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"endoscope/planner"
	"endoscope/planner/types"
	"endoscope/probes/clock"
)

// webhook is WEBHOOK 'url': each activation is POSTed there, in order.
// Deliveries to a receiver that is slow or unreachable wait in a queue. An
// activation that finds the queue full, or is refused at each attempt, is
// counted as lost.
type webhook struct {
	t      *Trigger
	act    *planner.Action
	format format
	client *http.Client
	queue  chan post
	done   chan struct{}
	ctx    context.Context // of deliveries
	cancel context.CancelFunc
	closed atomic.Bool

	// The alert that was reported to the receiver, from the first activation to
	// the last one so far; nil: none, or it is over. Used only by the goroutine
	// that calls activate and deactivate.
	firing *post
	last   int64 // the time of the last activation
	same   int   // activations before it at that time

	pending atomic.Int64
	lost    atomic.Uint64
}

const (
	WebhookQueue   = 256
	webhookTimeout = 5 * time.Second
	// webhookTries is the number of attempts at a delivery, after pauses that
	// double: 6 s in all.
	webhookTries = 6
	webhookPause = 200 * time.Millisecond
	// webhookGrace is how long the queued deliveries may take when the trigger
	// is dropped.
	webhookGrace = time.Second
)

// post is one delivery.
type post struct {
	activation
	id    string // the same at all daemons that have the tuple; "": no other one has it
	since int64  // time of the first activation since the condition last failed
	ended int64  // when the condition failed; 0: it holds
}

// format is a value of SET webhook_format.
type format struct {
	body func(t *Trigger, p *post) ([]byte, error)
	// Resolves: the end of an alert is posted, too.
	Resolves bool
}

var Formats = map[string]format{
	"json":         {plainBody, false},
	"alertmanager": {alertBody, true},
}

func NewWebhook(t *Trigger, act *planner.Action, format string) *webhook {
	w := &webhook{t: t, act: act, format: Formats[format], queue: make(chan post, WebhookQueue), done: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute}, Timeout: webhookTimeout,
			CheckRedirect: noRedirect}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	go w.run()
	return w
}

// noRedirect prevents the client from following redirects. Most kinds of redirect
// would turn the POST into a GET without a body, and its response would be
// taken for a delivery.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (w *webhook) activate(a activation) {
	p := post{activation: a, since: a.at, id: w.identify(a)}
	if w.firing != nil {
		p.since = w.firing.since
	}
	w.firing = &p
	w.enqueue(p)
	w.t.Stream.publish(streamRow{at: a.at, activation: a.n, action: w.act.Text, row: a.tuple})
}

// identify returns the id of an activation by a result of a standing query: several daemons
// have these results, in the same order, and each may report them.
func (w *webhook) identify(a activation) string {
	if w.t.Standing == "" {
		return ""
	}
	if w.same++; a.at != w.last {
		w.last, w.same = a.at, 0
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%d\n%d", w.t.Standing, w.t.Owner, w.t.Plan.Name, a.at, w.same))
	return hex.EncodeToString(sum[:16])
}

func (w *webhook) enqueue(p post) {
	w.pending.Add(1)
	select {
	case w.queue <- p:
	default:
		w.pending.Add(-1)
		w.lost.Add(1)
	}
}

// deactivate ends the alert. With ONCE it ends for ever.
func (w *webhook) deactivate(at int64) {
	if p := w.firing; p != nil && w.format.Resolves && !w.t.Plan.Once {
		p.ended = max(at, p.since)
		w.enqueue(*p)
	}
	w.firing = nil
}

// finish sends the queued deliveries, unless that takes too long after a DROP.
// An alert whose end will not be observed is ended.
func (w *webhook) finish() {
	if !w.closed.CompareAndSwap(false, true) {
		return
	}
	w.deactivate(clock.Now())
	close(w.queue)
	go func() {
		select {
		case <-w.done:
			return
		case <-w.t.Quit:
		}
		select {
		case <-w.done:
		case <-time.After(webhookGrace):
			w.cancel()
		}
	}()
}

func (w *webhook) wait() { <-w.done }

func (w *webhook) Status() actorStatus {
	return actorStatus{acting: w.pending.Load() > 0, lost: w.lost.Load()}
}

func (w *webhook) run() {
	defer close(w.done)
	defer w.cancel()
	defer w.client.CloseIdleConnections()
	for p := range w.queue {
		if err := w.deliver(&p); err != nil {
			w.lost.Add(1)
			w.t.fail(fmt.Errorf("WEBHOOK '%s': %w", w.act.Str, err))
		}
		w.pending.Add(-1)
	}
}

// deliver retries until the receiver accepts, or refuses permanently.
func (w *webhook) deliver(p *post) error {
	body, err := w.format.body(w.t, p)
	if err != nil {
		return err
	}
	pause := webhookPause
	for try := 1; ; try++ {
		again, err := w.post(body)
		if err == nil || !again || try == webhookTries {
			return err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-w.ctx.Done():
			return err
		}
		pause *= 2
	}
}

// post sends a body once. again reports that a retry may succeed.
func (w *webhook) post(body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.act.Str, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "endoscope")
	resp, err := w.client.Do(r)
	if err != nil {
		return w.ctx.Err() == nil, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 1<<16) // so that the connection can be used again
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	again = resp.StatusCode/100 == 5 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout
	return again, fmt.Errorf("the receiver answers %s", resp.Status)
}

func tupleOf(a *post) json.RawMessage {
	if a.tuple == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(a.tuple)
}

// plainBody returns the tuple and the trigger that it activated, as JSON.
func plainBody(t *Trigger, a *post) ([]byte, error) {
	return json.Marshal(struct {
		Trigger    string          `json:"trigger"`
		Owner      string          `json:"owner,omitempty"`
		ID         string          `json:"id,omitempty"`
		Activation int64           `json:"activation"`
		Timestamp  string          `json:"timestamp"`
		Row        json.RawMessage `json:"row"`
	}{t.Plan.Name, t.Owner, a.id, a.n, time.Unix(0, a.at).UTC().Format(types.TimeFormat), tupleOf(a)})
}

// alertBody returns the body for /api/v2/alerts of Prometheus' Alertmanager
// (postableAlerts in api/v2/openapi.yaml). An alert is identified by its
// trigger and the owner; the tuple is an annotation, so that one alert does not become many.
// An alert with an endsAt in the past is resolved; one without endsAt is
// resolved after the receiver's resolve_timeout without an update.
func alertBody(t *Trigger, p *post) ([]byte, error) {
	type alert struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		StartsAt    time.Time         `json:"startsAt"`
		EndsAt      time.Time         `json:"endsAt,omitzero"`
	}
	a := alert{
		Labels:      map[string]string{"alertname": t.Plan.Name, "source": "endoscope"},
		Annotations: map[string]string{"activation": fmt.Sprint(p.n), "row": string(tupleOf(p))},
		StartsAt:    time.Unix(0, p.since).UTC(),
	}
	if p.id != "" {
		a.Annotations["id"] = p.id
	}
	if t.Owner != "" {
		a.Labels["owner"] = t.Owner
	}
	if p.ended != 0 {
		a.EndsAt = time.Unix(0, p.ended).UTC()
	}
	return json.Marshal([]alert{a})
}
