package trigger

import (
	"strings"

	"endoscope/planner"
)

// Notifier is NOTIFY 'text'.
type Notifier struct {
	T   *Trigger
	Act *planner.Action
}

func (n *Notifier) activate(a activation) {
	n.T.Stream.publish(streamRow{at: a.at, activation: a.n, action: n.Act.Text, row: a.tuple})
	n.T.Tell(n.T.Plan.Name + ": " + n.Act.Str)
}

func (n *Notifier) relent(int64) {}

func (n *Notifier) finish() {}

func (n *Notifier) wait() {}

func (n *Notifier) Status() actorStatus { return actorStatus{} }

// Stopper is STOP stream: it ends what any trigger acquires from that stream.
type Stopper struct {
	T   *Trigger
	Act *planner.Action
	All *Registry
	// Rules permits stopping what other users' triggers acquire.
	Rules bool
}

func (s *Stopper) activate(a activation) {
	for _, t := range s.All.List() {
		if t.Owner != s.T.Owner && !s.Rules {
			continue
		}
		for _, other := range t.Actors {
			if q, ok := other.(acquiring); ok && strings.EqualFold(q.stream(), s.Act.Stream) {
				q.off()
			}
		}
	}
	s.T.Stream.publish(streamRow{at: a.at, activation: a.n, action: s.Act.Text, row: a.tuple})
}

func (s *Stopper) relent(int64) {}

func (s *Stopper) finish() {}

func (s *Stopper) wait() {}

func (s *Stopper) Status() actorStatus { return actorStatus{} }
