package bus

import "time"

// Stream puts the items of one host's result in order, as the root receives them. It is
// not safe for concurrent use.
type Stream struct {
	next     uint64 // all items before were delivered, or are not needed
	head     uint64 // the host's next item, as far as is known
	first    uint64 // the first item that the host can still send, but for the beginning (Header.Restarts)
	items    map[uint64]*Item
	bytes    int
	behind   time.Time // since when something is missing
	asked    time.Time
	acked    uint64 // Next of the last acknowledgement
	answered time.Time
	kept     uint64 // the last delivered item that no other replaces
	Dropped  uint64 // rows that the host dropped
	Reported *Echo  // the last
}

// Item is a received item.
type Item struct {
	*Header
	Rows [][]byte // of each part; nil: not received
	left int
	size int
}

// mostPending limits the bytes of items that wait for others.
const mostPending = 64 << 20

// NewStream returns a stream that has received nothing.
func NewStream() *Stream { return &Stream{next: 1, head: 1, items: map[uint64]*Item{}} }

// Add adds a received message and returns the items that it makes deliverable, in order.
func (s *Stream) Add(h *Header, rows []byte, now time.Time) (out []*Item) {
	s.Dropped = max(s.Dropped, h.Dropped)
	if h.Echo != nil {
		s.Reported = h.Echo
	}
	s.first = max(s.first, h.First)
	if h.Kind == ItemBeat {
		s.head = max(s.head, h.Seq)
	} else if h.Seq >= s.next {
		s.head = max(s.head, h.Seq+1)
		s.keep(h, rows)
	}
	for {
		if s.next > 1 || !h.Restarts {
			s.advance(s.first)
		}
		it := s.deliverable()
		if it == nil {
			break
		}
		if s.advance(it.Seq + 1); !it.Total {
			s.kept = it.Seq
		}
		out = append(out, it)
	}
	switch {
	case s.next >= s.head:
		s.behind = time.Time{}
	case s.behind.IsZero() || len(out) > 0:
		s.behind = now
	}
	return out
}

// keep keeps a part of an item.
func (s *Stream) keep(h *Header, rows []byte) {
	it := s.items[h.Seq]
	if it == nil {
		n := max(h.Parts, 1)
		it = &Item{Header: h, Rows: make([][]byte, n), left: n}
		s.items[h.Seq] = it
	}
	if h.Part >= len(it.Rows) || it.Rows[h.Part] != nil || s.bytes+len(rows) > mostPending {
		return
	}
	if rows == nil {
		rows = []byte{}
	}
	it.Rows[h.Part] = rows
	it.left--
	it.size += len(rows)
	s.bytes += len(rows)
}

// deliverable returns the newest complete item whose need was delivered; nil: there is
// none. Older items that it does not need are replaced by it, unless they can be delivered
// themselves.
func (s *Stream) deliverable() (best *Item) {
	for _, it := range s.items {
		if it.left > 0 || it.Needs >= s.next {
			continue
		}
		if best == nil || it.Seq < best.Seq {
			best = it
		}
	}
	return best
}

// advance drops the items before next.
func (s *Stream) advance(next uint64) {
	s.next = max(s.next, next)
	for seq, it := range s.items {
		if seq < s.next {
			s.bytes -= it.size
			delete(s.items, seq)
		}
	}
}

// Whole reports whether everything was delivered that the host has sent, as far as is known.
func (s *Stream) Whole() bool { return s.next >= s.head }

// How long something is missing before it is asked for, and between two requests.
const (
	missingAfter = 300 * time.Millisecond
	askedEvery   = 500 * time.Millisecond
)

// totalsEvery is how often totals are acknowledged, of which a host keeps only the last one.
const totalsEvery = 5 * time.Second

// Answer returns what the host must be told now: how far its items were received, and
// whether some are missing. ok is false if there is nothing to tell. consumed is the first
// item that the reader has not taken yet.
func (s *Stream) Answer(consumed uint64, now time.Time) (c Control, ok bool) {
	c.Next = min(s.next, consumed)
	missing := !s.behind.IsZero() && now.Sub(s.behind) >= missingAfter && now.Sub(s.asked) >= askedEvery
	if !missing && (c.Next <= s.acked || s.kept < s.acked && now.Sub(s.answered) < totalsEvery) {
		return c, false
	}
	s.answered = now
	if missing {
		c.Missing, s.asked = s.next, now
	}
	s.acked = c.Next
	return c, true
}
