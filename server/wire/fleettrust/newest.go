package fleettrust

import "sync"

// Newest refuses messages that are older than one before of the same member and kind. The
// newest one may be repeated: it proves no more than it did. It is safe for concurrent use.
type Newest struct {
	mu   sync.Mutex
	last map[sentBy]int64
}

type sentBy struct {
	kind Kind
	role Role
	name string
}

// Accept notes a verified message.
func (n *Newest) Accept(m *Message) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	key, at := sentBy{m.Kind, m.From.Role, m.From.Name}, m.NotBefore.UnixNano()
	if last, known := n.last[key]; known && at < last {
		return refuse(Replayed, "the %s of %s is older than the one before", m.Kind, m.From.Name)
	}
	if n.last == nil {
		n.last = map[sentBy]int64{}
	}
	n.last[key] = at
	return nil
}
