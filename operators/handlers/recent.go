package handlers

// Recent accumulates stacks and drops old ones, because they do not show what handles
// events now. It holds the stacks of the last one to two spans. The zero value drops
// nothing.
type Recent struct {
	// Span is the minimum time that stacks are kept, in the unit of Advance's time; 0:
	// forever.
	Span int64

	now, before Trie
	end         int64 // end of the span that now belongs to; 0: none has begun
}

// Add accumulates a stack (see [Trie.Add]).
func (r *Recent) Add(stack []Frame, state State) { r.now.Add(stack, state) }

// Advance sets the current time.
func (r *Recent) Advance(time int64) {
	switch {
	case r.Span <= 0:
		return
	case r.end == 0:
		r.end = time + r.Span
	case time >= r.end:
		r.before, r.now = r.now, Trie{}
		if time >= r.end+r.Span { // a whole span has passed
			r.before = Trie{}
		}
		r.end = time + r.Span
	}
}

// Analyse finds the event handlers (see [Trie.Analyse]).
func (r *Recent) Analyse(s Settings) []Handler {
	if r.before.Samples == 0 {
		return r.now.Analyse(s)
	}
	var all Trie
	all.Merge(&r.before)
	all.Merge(&r.now)
	return all.Analyse(s)
}
