package bus

import "slices"

// Outbox numbers the items of a host's result, and keeps them until they are replaced or
// acknowledged. It is not safe for concurrent use.
type Outbox struct {
	// Limit is the number of bytes of rows that it keeps; beyond, the oldest are dropped.
	Limit int
	// Restarts: the first item is kept, since another root may begin to receive.
	Restarts bool

	header  Header // of each item: query, host, incarnation
	items   []*kept
	bytes   int
	next    uint64 // number of the next item
	chain   uint64 // the last item that is not replaced by later ones
	first   uint64
	dropped uint64
}

// kept is an item that may be sent again.
type kept struct {
	header Header
	parts  [][]byte
	rows   uint64
	bytes  int
	how    Delivery
}

// Delivery is how items depend on each other.
type Delivery uint8

const (
	// InOrder: the item is delivered after the ones before it.
	InOrder Delivery = iota
	// Total: the item replaces all totals before it.
	Total
	// Loose: the item may be lost.
	Loose
)

// NewOutbox returns an outbox of a host's result of a query.
func NewOutbox(query, host, incarnation string) *Outbox {
	return &Outbox{Limit: 64 << 20, header: Header{Query: query, Host: host, Incarnation: incarnation}, next: 1, first: 1}
}

// Add adds an item, of which parts are the rows and rows is their number. It returns the
// messages to be sent.
func (o *Outbox) Add(h Header, how Delivery, parts [][]byte, rows uint64) ([][]byte, error) {
	h.Query, h.Host, h.Incarnation = o.header.Query, o.header.Host, o.header.Incarnation
	h.Seq, h.Total = o.next, how == Total
	k := &kept{header: h, parts: parts, rows: rows, how: how}
	switch how {
	case InOrder:
		k.header.Needs, o.chain = o.chain, h.Seq
	default:
		k.header.Needs = min(1, h.Seq-1)
	}
	for _, p := range parts {
		k.bytes += len(p)
	}
	if how == Total {
		o.remove(func(x *kept) bool { return x.how == Total })
		o.chain = h.Seq // what follows needs the last total
	}
	o.next++
	o.items = append(o.items, k)
	o.bytes += k.bytes
	for i := 0; o.bytes > o.Limit && i < len(o.items)-1; {
		x := o.items[i]
		if x.bytes == 0 {
			i++
			continue
		}
		o.first, o.dropped = x.header.Seq+1, o.dropped+x.rows
		o.remove(func(y *kept) bool { return y == x })
	}
	return o.messages(k)
}

func (o *Outbox) remove(which func(*kept) bool) {
	left := o.items[:0]
	for _, k := range o.items {
		if which(k) {
			o.bytes -= k.bytes
		} else {
			left = append(left, k)
		}
	}
	clear(o.items[len(left):])
	o.items = left
}

// messages returns the messages of an item.
func (o *Outbox) messages(k *kept) (out [][]byte, err error) {
	for i := range max(len(k.parts), 1) {
		h := k.header
		h.First, h.Dropped, h.Restarts = min(o.first, h.Seq), o.dropped, o.Restarts
		var rows []byte
		if len(k.parts) > 0 {
			h.Part, h.Parts, rows = i, len(k.parts), k.parts[i]
		}
		m, err := EncodeItem(&h, rows)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// Beat returns the message that the host is alive.
func (o *Outbox) Beat(h Header) ([]byte, error) {
	h.Query, h.Host, h.Incarnation = o.header.Query, o.header.Host, o.header.Incarnation
	h.Kind, h.Seq, h.First, h.Dropped, h.Restarts = ItemBeat, o.next, o.first, o.dropped, o.Restarts
	return EncodeItem(&h, nil)
}

// Acknowledge drops the items before next.
func (o *Outbox) Acknowledge(next uint64) {
	o.remove(func(k *kept) bool { return k.header.Seq < next && !o.stays(k) })
	if o.Restarts {
		o.first = max(o.first, min(next, o.next))
	}
}

func (o *Outbox) stays(k *kept) bool { return o.Restarts && k.header.Seq == 1 }

// Since returns the messages of the kept items from a number on, up to about a number of
// bytes.
func (o *Outbox) Since(next uint64, bytes int) (out [][]byte, err error) {
	for _, k := range o.items {
		if k.header.Seq < next {
			continue
		}
		if bytes < 0 {
			break
		}
		bytes -= k.bytes
		ms, err := o.messages(k)
		if err != nil {
			return nil, err
		}
		out = append(out, ms...)
	}
	return out, nil
}

// Unacknowledged returns the bytes of rows that are kept.
func (o *Outbox) Unacknowledged() int { return o.bytes }

// Last returns the number of the item that was added last.
func (o *Outbox) Last() uint64 { return o.next - 1 }

// Empty reports whether everything was acknowledged.
func (o *Outbox) Empty() bool {
	return !slices.ContainsFunc(o.items, func(k *kept) bool { return !o.stays(k) || o.first == 1 })
}
