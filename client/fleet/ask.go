package fleet

import (
	"context"
	"time"
)

// patient is how long hosts are waited for that are asked something.
type patient struct {
	all    time.Duration
	silent time.Duration // those that are marked as silent, unless all are
}

var (
	// forStatements is for what a statement needs to know.
	forStatements = patient{all: answering, silent: time.Second}
	// forLookups is for what a user looks up meanwhile, and can do without.
	forLookups = patient{all: 2 * time.Second}
)

// ask asks hosts the same at once, and gives what each has answered, in their order.
// The error of one that is waited for no longer counts it as lost, and it is marked as
// silent until it answers something: so it is asked again, but seldom waited for.
func ask[T any](ctx context.Context, members []*member, wait patient, question func(context.Context, *member) (T, error)) ([]T, []error) {
	type answer struct {
		i   int
		say T
		err error
	}
	in, cancel := context.WithTimeout(ctx, wait.all)
	says, errs, answers := make([]T, len(members)), make([]error, len(members)), make(chan answer, len(members))
	marked := silent(members)
	for i, m := range members {
		errs[i] = &silentError{m.name}
		go func() {
			say, err := question(in, m)
			if err == nil || in.Err() == nil { // else it was cut short
				m.silent.Store(false)
			}
			answers <- answer{i, say, err}
		}()
	}
	awaited, remiss, asked := len(members)-len(marked), len(marked), len(members)
	grace := time.NewTimer(wait.silent)
	defer grace.Stop()
	for awaited+remiss > 0 && in.Err() == nil {
		select {
		case a := <-answers:
			asked--
			if marked[members[a.i]] {
				remiss = max(0, remiss-1)
			} else {
				awaited--
			}
			if a.err == nil || in.Err() == nil {
				says[a.i], errs[a.i] = a.say, a.err
			}
		case <-grace.C:
			remiss = 0
		case <-in.Done():
		}
	}
	go func() { // who is not waited for may still say that it is back
		defer cancel()
		for range asked {
			<-answers
		}
	}()
	if err := ctx.Err(); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return says, errs
	}
	for i, m := range members {
		if isSilent(errs[i]) {
			m.silent.Store(true)
		}
	}
	return says, errs
}

// silent are those of several hosts that are marked as silent, unless all are: then
// there is nobody else to wait for.
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
