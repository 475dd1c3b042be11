package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"endoscope/planner/plan"
)

// The worker tells its supervisor which statements it executes, so that those are known
// when it has died.

// entry is a line from the worker.
type entry struct {
	Ready bool   `json:",omitempty"` // it serves
	Begin int64  `json:",omitempty"` // number of a statement that begins
	End   int64  `json:",omitempty"` // number of one that has ended
	Key   string `json:",omitempty"` // of the statement
	User  string `json:",omitempty"`
	Text  string `json:",omitempty"` // its beginning
}

// start is what the supervisor tells a worker.
type start struct {
	Denied   map[string]time.Time // statements that are refused, by key, and until when
	Restarts time.Time            // when the previous worker died; zero: there was none
	Cause    string               // and why
}

// ends are the parts of a statement that a client changes when it executes the remainder
// of a result after it has reconnected.
var ends = regexp.MustCompile(`(?i)\b(FOR|LIMIT) [0-9.]+ ?[a-zµ]*`)

// keyOf identifies a statement of a user, however it is spaced, and whenever it ends.
func keyOf(user, statement string) string {
	text := ends.ReplaceAllString(strings.Join(strings.Fields(statement), " "), "...")
	sum := sha256.Sum256([]byte(user + "\x00" + text))
	return hex.EncodeToString(sum[:])
}

// journal is the worker's side. It implements server.Journal, and is safe for concurrent
// use.
type journal struct {
	start start

	mu   sync.Mutex
	out  *json.Encoder
	last int64
}

func newJournal(out io.Writer, s start) *journal {
	return &journal{start: s, out: json.NewEncoder(out)}
}

// ready reports that the worker serves.
func (j *journal) ready() { j.send(entry{Ready: true}) }

func (j *journal) send(e entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.out.Encode(e) // without a supervisor nobody is interested
}

// shownText is how much of a statement the log shows, in bytes.
const shownText = 200

// Begin records a statement until done is called. It refuses one that was executed when
// workers died.
func (j *journal) Begin(user, statement string) (done func(), err error) {
	key := keyOf(user, statement)
	if until := j.start.Denied[key]; time.Now().Before(until) {
		return nil, plan.Errorf(-1, -1, "the daemon died twice while it executed this statement, which is refused until %s", until.Format(time.TimeOnly)).
			WithHint("the daemon's log says more; another statement may do what you need")
	}
	text := strings.ToValidUTF8(statement[:min(len(statement), shownText)], "")
	j.mu.Lock()
	j.last++
	n := j.last
	_ = j.out.Encode(entry{Begin: n, Key: key, User: user, Text: text})
	j.mu.Unlock()
	return sync.OnceFunc(func() { j.send(entry{End: n}) }), nil
}

// greetingTime is how long after a restart users are told of it.
const greetingTime = 10 * time.Minute

// Greeting tells a user of a restart.
func (j *journal) Greeting() string {
	at := j.start.Restarts
	if at.IsZero() || time.Since(at) > greetingTime {
		return ""
	}
	return "the daemon was restarted at " + at.Format(time.TimeOnly) + " (" + j.start.Cause + "): what was running then has ended"
}

// denials decide which statements are refused: those that were being executed at
// deathsToDeny deaths within deathMemory. One death may be the fault of any statement, or
// of none; with two, those that were executed at both are likely enough, and refusing
// them ends a row of deaths.
type denials struct {
	deaths map[string][]time.Time // by key
	until  map[string]time.Time
}

const (
	deathsToDeny = 2
	deathMemory  = time.Hour
	denialTime   = 10 * time.Minute
)

func newDenials() *denials {
	return &denials{deaths: map[string][]time.Time{}, until: map[string]time.Time{}}
}

// died counts a death, and returns the keys that are refused from now on.
func (d *denials) died(now time.Time, running map[int64]entry) (denied map[string]bool) {
	for key, at := range d.deaths {
		if now.Sub(at[len(at)-1]) > deathMemory {
			delete(d.deaths, key)
		}
	}
	for key, until := range d.until {
		if now.After(until) {
			delete(d.until, key)
		}
	}
	denied = map[string]bool{}
	seen := map[string]bool{}
	for _, e := range running {
		if seen[e.Key] {
			continue // executed several times at once
		}
		seen[e.Key] = true
		at := d.deaths[e.Key]
		for len(at) > 0 && now.Sub(at[0]) > deathMemory {
			at = at[1:]
		}
		d.deaths[e.Key] = append(at, now)
		if len(d.deaths[e.Key]) >= deathsToDeny {
			d.until[e.Key] = now.Add(denialTime)
			denied[e.Key] = true
		}
	}
	return denied
}
