package grant

import (
	"sync"
	"time"
)

// Limits are what one user may use at a time, in all their sessions. 0: any
// amount.
type Limits struct {
	Sessions int   // connected at a time
	Queries  int   // running, those of triggers included
	Probes   int   // attached
	Events   int64 // a second, taken from probes and samplers
	Memory   int64 // bytes that the queries may hold at most: queues, joins, encoders
}

// Usage is what is used now, and what has been refused.
type Usage struct {
	Sessions, Queries, Probes int
	Memory                    int64
	Events, Dropped           uint64 // since the account was opened
}

// Account counts what a user uses. It is safe for concurrent use.
type Account struct {
	mu     sync.Mutex
	limits Limits
	usage  Usage
	// A bucket of events, of a second's worth, that fills by the clock.
	tokens float64
	filled time.Time
}

// NewAccount counts against limits.
func NewAccount(l Limits) *Account {
	return &Account{limits: l, tokens: float64(l.Events), filled: time.Now()}
}

// Limits are those of the account; none if a is nil.
func (a *Account) Limits() Limits {
	if a == nil {
		return Limits{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limits
}

// Limit changes the limits. What is in use above them stays until it ends.
func (a *Account) Limit(l Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits = l
}

// Usage is what is used now.
func (a *Account) Usage() Usage {
	if a == nil {
		return Usage{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.usage
}

// Demand is what a query takes.
type Demand struct {
	Probes int
	Memory int64
}

// Enter counts a session until leave is called.
func (a *Account) Enter() (leave func(), err error) {
	if a == nil {
		return func() {}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.limits.Sessions; l > 0 && a.usage.Sessions >= l {
		return nil, refuse("", "you have %d sessions already, and may have %d", a.usage.Sessions, l)
	}
	a.usage.Sessions++
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.usage.Sessions--
	}), nil
}

// Begin counts a query until done is called.
func (a *Account) Begin(d Demand) (done func(), err error) {
	if a == nil {
		return func() {}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l, u := a.limits, a.usage
	switch {
	case l.Queries > 0 && u.Queries >= l.Queries:
		return nil, refuse("SHOW QUERIES lists them, STOP ends one", "you run %d queries already, and may run %d", u.Queries, l.Queries)
	case l.Probes > 0 && u.Probes+d.Probes > l.Probes:
		return nil, refuse("choose fewer functions, or stop another query", "this query takes %d probes, and you may have %d at a time, of which %d are in use", d.Probes, l.Probes, u.Probes)
	case l.Memory > 0 && u.Memory+d.Memory > l.Memory:
		return nil, refuse("SET join_memory and SET encoder_budget say how much a query may hold", "this query may hold %s, and you may use %s, of which %s are in use", mib(d.Memory), mib(l.Memory), mib(u.Memory))
	}
	a.usage.Queries++
	a.usage.Probes += d.Probes
	a.usage.Memory += d.Memory
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.usage.Queries--
		a.usage.Probes -= d.Probes
		a.usage.Memory -= d.Memory
	}), nil
}

// Admit counts n events, and reports whether they are within the rate. What is
// not must be dropped, and counted.
func (a *Account) Admit(n uint64) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit := float64(a.limits.Events); limit > 0 {
		now := time.Now()
		a.tokens = min(limit, a.tokens+limit*now.Sub(a.filled).Seconds())
		a.filled = now
		// A batch may be more than what is left, or a whole second's worth: it is
		// paid for by what follows.
		if a.tokens <= 0 {
			a.usage.Dropped += n
			return false
		}
		a.tokens -= float64(n)
	}
	a.usage.Events += n
	return true
}
