package fleet

import (
	"context"
	"errors"
	"time"

	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// answering is how long answering a question may take.
const answering = 5 * time.Second

// answer answers a question about statements and names.
func (a *Agent) answer(ctx context.Context, author string, q *bus.Question, reply string) {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	var says bus.Answer
	if err := a.ask(ctx, author, q, &says); err != nil {
		says.Refusal = refusalOf(err)
	}
	a.publish(bus.About{Kind: bus.KindAnswer, Host: a.o.Host.Name, To: author}, reply, bus.Encode(says))
}

func (a *Agent) ask(ctx context.Context, author string, q *bus.Question, says *bus.Answer) (err error) {
	o := a.o.Target
	if q.Process != "" || q.Exe != "" {
		o = wire.Options{Process: q.Process, Exe: q.Exe}
	}
	a.mu.Lock()
	o.Standing, o.Share, o.Labels = q.Standing, q.Share, a.o.Host.Labels
	a.mu.Unlock()
	o.User = &wire.User{Name: author, Via: "fleet"}
	s, err := a.o.Engine.NewSession(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := prelude(ctx, s, q.Prelude); err != nil {
		return err
	}
	if q.Describe != "" {
		says.Description, err = s.Describe(ctx, q.Describe)
		return err
	}
	says.Lines = s.Complete(ctx, q.Complete.Kind, q.Complete.Of, q.Complete.Prefix)
	return nil
}
