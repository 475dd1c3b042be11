package fleet

import (
	"context"
	"sync/atomic"
	"time"
)

// patient is how long a question waits for the answers of hosts.
type patient struct {
	all    time.Duration
	silent time.Duration // those that are marked as silent, unless all are
}

var (
	// forStatements is for answers that a statement needs.
	forStatements = patient{all: answering, silent: time.Second}
	// forLookups is for lookups while the user types; these can do without an answer.
	forLookups = patient{all: 2 * time.Second}
)

// ask asks several hosts the same question concurrently, and returns their answers
// in the order of hosts. A host that does not answer in time yields an error that
// does not count it as lost. It is marked as silent until it answers again: it is
// still asked, but rarely waited for.
func ask[T any](ctx context.Context, members []*member, wait patient, question func(context.Context, *member) (T, error)) ([]T, []error) {
	type answer struct {
		i   int
		say T
		err error
	}
	in, cancel := context.WithTimeout(ctx, wait.all)
	replies, errs, answers := make([]T, len(members)), make([]error, len(members)), make(chan answer, len(members))
	answered := make([]atomic.Bool, len(members))
	marked := silent(members)
	for i, m := range members {
		errs[i] = &silentError{m.name}
		go func() {
			say, err := question(in, m)
			if err == nil || in.Err() == nil { // else it was cut short
				answered[i].Store(true)
				m.silent.Store(false)
			}
			answers <- answer{i, say, err}
		}()
	}
	pending, remiss, asked := len(members)-len(marked), len(marked), len(members)
	grace := time.NewTimer(wait.silent)
	defer grace.Stop()
	for pending+remiss > 0 && in.Err() == nil {
		select {
		case a := <-answers:
			asked--
			if marked[members[a.i]] {
				remiss = max(0, remiss-1)
			} else {
				pending--
			}
			if a.err == nil || in.Err() == nil {
				replies[a.i], errs[a.i] = a.say, a.err
			}
		case <-grace.C:
			remiss = 0
		case <-in.Done():
		}
	}
	go func() { // a host that is not waited for may still answer, which clears its mark
		defer cancel()
		for range asked {
			<-answers
		}
	}()
	if err := ctx.Err(); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return replies, errs
	}
	for i, m := range members {
		if !isSilent(errs[i]) {
			continue
		}
		m.silent.Store(true)
		if answered[i].Load() { // it answered after the last reply was received
			m.silent.Store(false)
		}
	}
	return replies, errs
}

// silent returns the hosts that are marked as silent. If all are, it returns none:
// there is no other host to wait for.
func silent(members []*member) map[*member]bool {
	marked := map[*member]bool{}
	for _, m := range members {
		if m.silent.Load() {
			marked[m] = true
		}
	}
	if len(marked) == len(members) {
		return nil
	}
	return marked
}
