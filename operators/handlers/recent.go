package handlers

// Recent accumulates stacks and forgets those of long ago: what a program did then
// says nothing of what handles its events now. It has the stacks of the last one to
// two spans. The zero value forgets nothing.
type Recent struct {
	// Span is how long stacks are kept at least, in the unit of Advance's time; 0: for
	// good.
	Span int64

	now, before Trie
	end         int64 // of the span that now is of; 0: none has begun
}

// Add accumulates a stack (see [Trie.Add]).
func (r *Recent) Add(stack []Frame, state State) { r.now.Add(stack, state) }

// Advance says what time it is.
func (r *Recent) Advance(time int64) {
	switch {
	case r.Span <= 0:
		return
	case r.end == 0:
		r.end = time + r.Span
	case time >= r.end:
		r.before, r.now = r.now, Trie{}
		if time >= r.end+r.Span { // nobody has looked for long
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
