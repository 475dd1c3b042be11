package fleet

import "context"

// ask asks hosts the same at once, and gives what each has answered, in their order.
// The error of one that says nothing for as long as answering counts it as lost; so
// it does if it answers later, which nobody waits for.
func ask[T any](ctx context.Context, members []*member, question func(context.Context, *member) (T, error)) ([]T, []error) {
	type answer struct {
		i   int
		say T
		err error
	}
	in, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	says, errs, answers := make([]T, len(members)), make([]error, len(members)), make(chan answer, len(members))
	for i, m := range members {
		errs[i] = &silentError{m.name}
		go func() {
			say, err := question(in, m)
			answers <- answer{i, say, err}
		}()
	}
	for range members {
		select {
		case a := <-answers:
			if a.err == nil || in.Err() == nil { // else it was cut short
				says[a.i], errs[a.i] = a.say, a.err
			}
			continue
		case <-in.Done():
		}
		break
	}
	if err := ctx.Err(); err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return says, errs
}
