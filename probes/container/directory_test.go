package container

import (
	"context"
	"strings"
	"testing"
	"time"
)

// slow is a runtime with one container, which takes some time to list it.
type slow struct {
	id    string
	needs time.Duration
}

func (s slow) List(ctx context.Context) (map[string]*Container, error) {
	if until, ok := ctx.Deadline(); ok && time.Until(until) < s.needs {
		return nil, context.DeadlineExceeded
	}
	return map[string]*Container{s.id: {Name: "web"}}, nil
}

func (slow) Close() {}

// A runtime that answers late is waited for. One that a look at a process does not wait for tells
// its containers to a user, and then every look has them.
func TestRuntimeAnswersLate(t *testing.T) {
	id := strings.Repeat("0a", 32)
	of := func(needs time.Duration) *Directory {
		return New(func() []Endpoint { return []Endpoint{{Open: func(string) Runtime { return slow{id, needs} }}} })
	}
	if c := of(patience / 2).Find("/docker/" + id); c.Name != "web" {
		t.Errorf("the container is called %q", c.Called())
	}
	d := of((patience + waiting) / 2)
	if c := d.Find("/docker/" + id); c.Name != "" {
		t.Errorf("a look at a process has waited for the name %q", c.Name)
	}
	if answering, err := d.Runtimes(); len(answering) != 1 || err != nil {
		t.Errorf("%v answer: %v", answering, err)
	}
	if c := d.Find("/docker/" + id); c.Name != "web" {
		t.Errorf("the container is called %q when the runtime has told its name", c.Called())
	}
}
