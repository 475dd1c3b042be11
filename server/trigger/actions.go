package trigger

import "endoscope/planner"

// atOnce is the part of an action that has no effect but when it is activated.
type atOnce struct{}

func (atOnce) deactivate(int64) {}

func (atOnce) finish() {}

func (atOnce) wait() {}

func (atOnce) Status() actorStatus { return actorStatus{} }

// Notifier is NOTIFY 'text'.
type Notifier struct {
	atOnce
	T   *Trigger
	Act *planner.Action
}

func (n *Notifier) activate(a activation) {
	n.T.Stream.publish(streamRow{at: a.at, activation: a.n, action: n.Act.Text, row: a.tuple})
	n.T.Notify(n.T.Plan.Name + ": " + n.Act.Str)
}

// Stopper is STOP stream: it ends what any trigger acquires from that stream.
type Stopper struct {
	atOnce
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
			if q, ok := other.(*Acquirer); ok && q.act.Stream == s.Act.Stream {
				q.off()
			}
		}
	}
	s.T.Stream.publish(streamRow{at: a.at, activation: a.n, action: s.Act.Text, row: a.tuple})
}
