package grant

import (
	"sync"
	"time"
)

// Limits bound what one user may use at a time, over all the user's sessions. 0: no
// limit.
type Limits struct {
	Sessions int   // connected at a time
	Queries  int   // running, including those of triggers
	Probes   int   // attached
	Events   int64 // per second, from probes and samplers
	Log      int64 // bytes per second in the audit log, over a minute
	// Timeout is the longest that a statement may take.
	Timeout time.Duration
	// Overhead is the share of its CPU time that all queries of calls together may cost a
	// program.
	Overhead float64
	Memory   int64 // upper bound in bytes: statements while they are parsed and planned, symbols while they are read; of queries, queues, joins and encoders
}

// Usage is the current usage, and the number of events refused.
type Usage struct {
	Sessions, Queries, Probes int
	Budgets                   int // queries within an overhead
	Memory                    int64
	Events, Dropped           uint64 // since the account was opened
}

// Account counts the usage of one user. It is safe for concurrent use.
type Account struct {
	mu     sync.Mutex
	limits Limits
	usage  Usage
	// tokens is a token bucket of events with a capacity of one second's worth.
	tokens float64
	filled time.Time
	// logged is how many bytes of the audit log the user has written beyond the limit's
	// rate, until counted; less than 0: fewer.
	logged  float64
	counted time.Time
}

// NewAccount returns an account with limits l.
func NewAccount(l Limits) *Account {
	return &Account{limits: l, tokens: float64(l.Events), filled: time.Now(), logged: -float64(l.Log) * logBurst.Seconds(), counted: time.Now()}
}

// Limits returns the limits; none if a is nil.
func (a *Account) Limits() Limits {
	if a == nil {
		return Limits{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limits
}

// Limit changes the limits. Usage above the new limits stays until it ends.
func (a *Account) Limit(l Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits = l
}

// Usage returns the current usage.
func (a *Account) Usage() Usage {
	if a == nil {
		return Usage{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.usage
}

// Demand is what a query requires.
type Demand struct {
	Probes int
	Budget bool // it is within an overhead
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
		return nil, refuse("", "you have %d sessions; your limit is %d", a.usage.Sessions, l)
	}
	a.usage.Sessions++
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.usage.Sessions--
	}), nil
}

// Reserve counts memory that is used for what the text says, until release is called.
func (a *Account) Reserve(bytes int64, what string) (release func(), err error) {
	if a == nil {
		return func() {}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if l, u := a.limits.Memory, a.usage.Memory; l > 0 && u+bytes > l {
		return nil, refuse("end other queries, or ask the administrator for a higher limit", "%s may use %s of memory; your limit is %s, of which %s are in use", what, mib(bytes), mib(l), mib(u))
	}
	a.usage.Memory += bytes
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.usage.Memory -= bytes
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
		return nil, refuse("SHOW QUERIES lists them, STOP ends one", "you run %d queries; your limit is %d", u.Queries, l.Queries)
	case l.Probes > 0 && u.Probes+d.Probes > l.Probes:
		return nil, refuse("choose fewer functions, or stop another query", "this query needs %d probes; your limit is %d, of which %d are in use", d.Probes, l.Probes, u.Probes)
	case l.Memory > 0 && u.Memory+d.Memory > l.Memory:
		return nil, refuse("reduce it with SET join_memory and SET encoder_budget", "this query may use %s of memory; your limit is %s, of which %s are in use", mib(d.Memory), mib(l.Memory), mib(u.Memory))
	}
	budgets := 0
	if d.Budget {
		budgets = 1
	}
	a.usage.Queries++
	a.usage.Budgets += budgets
	a.usage.Probes += d.Probes
	a.usage.Memory += d.Memory
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.usage.Queries--
		a.usage.Budgets -= budgets
		a.usage.Probes -= d.Probes
		a.usage.Memory -= d.Memory
	}), nil
}

// Ceiling returns the share of its CPU time that one of the user's queries within an overhead may
// cost a program now: an equal part of the limit. ok is false if there is none.
func (a *Account) Ceiling() (share float64, ok bool) {
	if a == nil {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limits.Overhead / float64(max(a.usage.Budgets, 1)), a.limits.Overhead > 0
}

// Admit counts n events and reports whether they are within the rate. The caller must
// drop and count events that are not.
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
		// A batch may exceed the remaining tokens, or even one second's worth: the
		// balance goes negative, and later batches pay for it.
		if a.tokens <= 0 {
			a.usage.Dropped += n
			return false
		}
		a.tokens -= float64(n)
	}
	a.usage.Events += n
	return true
}
