package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"endoscope/planner"
	"endoscope/probes/clock"
)

// webhook is WEBHOOK 'url': each activation is sent there by POST, in order. A
// receiver that is slow or away makes deliveries wait in a queue; what finds the
// queue full, or is refused to the last, is counted as lost.
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

	// The alert that the receiver was told of, from the first activation up to the
	// last so far; nil: none, or it is over. It is of whoever tells of tuples.
	firing *post

	pending atomic.Int64
	lost    atomic.Uint64
}

const (
	WebhookQueue   = 256
	webhookTimeout = 5 * time.Second
	// A delivery is tried so often, after pauses that double: 6 s in all.
	webhookTries = 6
	webhookPause = 200 * time.Millisecond
	// webhookGrace is how long what is queued may take when the trigger is
	// dropped.
	webhookGrace = time.Second
)

// post is what is to be posted.
type post struct {
	activation
	since int64 // the first activation since the condition was not satisfied
	ended int64 // when it was no longer; 0: it is
}

// format is a value of SET webhook_format.
type format struct {
	body func(trigger string, p *post) ([]byte, error)
	// resolves: what ends is posted, too.
	Resolves bool
}

var Formats = map[string]format{
	"json":         {plainBody, false},
	"alertmanager": {alertBody, true},
}

func NewWebhook(t *Trigger, act *planner.Action, format string) *webhook {
	w := &webhook{t: t, act: act, format: Formats[format], queue: make(chan post, WebhookQueue), done: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute}, Timeout: webhookTimeout,
			CheckRedirect: stay}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	go w.run()
	return w
}

// stay has the client follow no redirect: of most kinds it would make a GET
// without a body of the POST, and take the answer to that for a delivery.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (w *webhook) activate(a activation) {
	p := post{activation: a, since: a.at}
	if w.firing != nil {
		p.since = w.firing.since
	}
	w.firing = &p
	w.enqueue(p)
	w.t.Stream.publish(streamRow{at: a.at, activation: a.n, action: w.act.Text, row: a.tuple})
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

// relent says that the alert is over. With ONCE it is for ever.
func (w *webhook) relent(at int64) {
	if p := w.firing; p != nil && w.format.Resolves && !w.t.Plan.Once {
		p.ended = max(at, p.since)
		w.enqueue(*p)
	}
	w.firing = nil
}

// finish has what is queued sent, if that does not take too long for a trigger
// that was dropped. An alert of which nobody will see the end is over.
func (w *webhook) finish() {
	if !w.closed.CompareAndSwap(false, true) {
		return
	}
	w.relent(clock.Now())
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

// deliver tries until the receiver accepts, or refuses for good.
func (w *webhook) deliver(p *post) error {
	body, err := w.format.body(w.t.Plan.Name, p)
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

// post sends a body once. again says that the same may succeed later.
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

// plainBody is the tuple, and what it activated.
func plainBody(trigger string, a *post) ([]byte, error) {
	return json.Marshal(struct {
		Trigger    string          `json:"trigger"`
		Activation int64           `json:"activation"`
		Timestamp  time.Time       `json:"timestamp"`
		Row        json.RawMessage `json:"row"`
	}{trigger, a.n, time.Unix(0, a.at).UTC(), tupleOf(a)})
}

// alertBody is what Prometheus' Alertmanager takes at /api/v2/alerts
// (postableAlerts in api/v2/openapi.yaml). What identifies the alert is its
// trigger; the tuple is an annotation, so that one alert does not become many.
// An alert with an endsAt that is over is resolved; one without is taken to be when
// nothing was heard of it for the receiver's resolve_timeout.
func alertBody(trigger string, p *post) ([]byte, error) {
	type alert struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		StartsAt    time.Time         `json:"startsAt"`
		EndsAt      time.Time         `json:"endsAt,omitzero"`
	}
	a := alert{
		Labels:      map[string]string{"alertname": trigger, "source": "endoscope"},
		Annotations: map[string]string{"activation": fmt.Sprint(p.n), "row": string(tupleOf(p))},
		StartsAt:    time.Unix(0, p.since).UTC(),
	}
	if p.ended != 0 {
		a.EndsAt = time.Unix(0, p.ended).UTC()
	}
	return json.Marshal([]alert{a})
}
