package sharing

import "sync"

// rounds combines requests of parts: one round serves all that wait for the round before.
type rounds struct {
	working sync.Mutex // held during a round
	turn    sync.Mutex
	next    *round // has not begun
}

type round struct {
	parts []*Part
	once  sync.Once
	err   error
}

// do requests f for p, and returns when that is done, with its error. f is called once for all
// parts that wait for the previous round, with these in the order of their requests.
func (r *rounds) do(p *Part, f func([]*Part) error) error {
	r.turn.Lock()
	if r.next == nil {
		r.next = &round{}
	}
	mine := r.next
	mine.parts = append(mine.parts, p)
	r.turn.Unlock()
	mine.once.Do(func() {
		r.working.Lock()
		defer r.working.Unlock()
		r.turn.Lock()
		r.next = nil
		r.turn.Unlock()
		mine.err = f(mine.parts)
	})
	return mine.err
}
