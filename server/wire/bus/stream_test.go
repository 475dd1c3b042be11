package bus

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
)

// network loses, repeats and reorders messages.
type network struct {
	rt  *rapid.T
	bad bool
	on  [][]byte
}

func (n *network) send(ms [][]byte) {
	for _, m := range ms {
		copies := 1
		if n.bad {
			copies = rapid.SampledFrom([]int{0, 1, 1, 1, 2}).Draw(n.rt, "copies")
		}
		for range copies {
			at := len(n.on)
			if n.bad {
				at = rapid.IntRange(0, len(n.on)).Draw(n.rt, "at")
			}
			n.on = slices.Insert(n.on, at, m)
		}
	}
}

// sending is one result being sent over a network.
type sending struct {
	out     *Outbox
	in      *Stream
	net     *network
	now     time.Time
	got     []string
	missing uint64
}

func (s *sending) receive(t interface{ Fatal(...any) }, most int) {
	for i := 0; i < most && len(s.net.on) > 0; i++ {
		m := s.net.on[0]
		s.net.on = s.net.on[1:]
		h, rows, err := DecodeItem(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range s.in.Add(h, rows, s.now) {
			text := it.Text
			for _, p := range it.Rows {
				text += string(p)
			}
			s.got = append(s.got, text)
		}
	}
	s.now = s.now.Add(missingAfter)
	if c, ok := s.in.Answer(^uint64(0), s.now); ok && (!s.net.bad || rapid.Bool().Draw(s.net.rt, "acknowledged")) {
		s.out.Acknowledge(c.Next)
		s.missing = c.Missing
	}
	if s.missing > 0 {
		ms, err := s.out.Since(s.missing, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		s.net.send(ms)
		s.missing = 0
	}
}

// rest lets a network that works deliver everything.
func (s *sending) rest(t interface{ Fatal(...any) }) {
	s.net.bad = false
	for range 20 {
		beat, err := s.out.Beat(Header{})
		if err != nil {
			t.Fatal(err)
		}
		s.net.send([][]byte{beat})
		s.now = s.now.Add(askedEvery)
		s.receive(t, 1<<20)
	}
}

// Items in order arrive completely, once and in order, whatever the network does. Of
// totals the last arrives, and none after a newer one.
func TestItemsOverABadNetwork(t *testing.T) {
	for _, how := range []Delivery{InOrder, Total} {
		rapid.Check(t, func(rt *rapid.T) {
			net := &network{rt: rt, bad: true}
			s := &sending{out: NewOutbox("q", "h", "i"), in: NewStream(), net: net, now: time.Unix(1, 0)}
			var want []string
			add := func(h Header, how Delivery, parts ...string) {
				var rows [][]byte
				for _, p := range parts {
					rows = append(rows, []byte(p))
				}
				ms, err := s.out.Add(h, how, rows, uint64(len(parts)))
				if err != nil {
					rt.Fatal(err)
				}
				net.send(ms)
			}
			add(Header{Kind: ItemBegin, Text: "begin"}, InOrder)
			want = append(want, "begin")
			for i := range rapid.IntRange(0, 12).Draw(rt, "items") {
				name := fmt.Sprintf("%02d", i)
				parts := slices.Repeat([]string{name}, rapid.IntRange(1, 3).Draw(rt, "parts"))
				add(Header{Kind: ItemRows, Flush: true}, how, parts...)
				all := ""
				for _, p := range parts {
					all += p
				}
				want = append(want, all)
				s.receive(rt, rapid.IntRange(0, 5).Draw(rt, "received"))
			}
			add(Header{Kind: ItemEnd, Text: "end"}, InOrder)
			want = append(want, "end")
			s.rest(rt)
			if how == InOrder && !slices.Equal(s.got, want) {
				rt.Fatalf("arrived %q, sent %q", s.got, want)
			}
			if how == Total {
				at := -1
				for _, g := range s.got {
					next := slices.Index(want, g)
					if next <= at {
						rt.Fatalf("arrived %q, sent %q: not in order", s.got, want)
					}
					at = next
				}
				if n := len(want); !slices.Equal(s.got[max(0, len(s.got)-2):], want[n-2:]) {
					rt.Fatalf("arrived %q, sent %q: the last are missing", s.got, want)
				}
			}
			if !s.out.Empty() {
				rt.Fatalf("%d bytes were never acknowledged", s.out.Unacknowledged())
			}
		})
	}
}

// What does not fit into the outbox is dropped, counted, and not waited for.
func TestOutboxIsBounded(t *testing.T) {
	s := &sending{out: NewOutbox("q", "h", "i"), in: NewStream(), net: &network{}, now: time.Unix(1, 0)}
	s.out.Limit = 40
	var last [][]byte
	for i := range 10 {
		ms, err := s.out.Add(Header{Kind: ItemRows}, InOrder, [][]byte{fmt.Appendf(nil, "item %05d", i)}, 3)
		if err != nil {
			t.Fatal(err)
		}
		last = ms
	}
	if n := s.out.Unacknowledged(); n > 40 {
		t.Errorf("it keeps %d bytes", n)
	}
	s.net.send(last) // the others were lost
	s.rest(t)
	want := []string{"item 00006", "item 00007", "item 00008", "item 00009"}
	if !slices.Equal(s.got, want) {
		t.Errorf("arrived %q, want %q", s.got, want)
	}
	if s.in.Dropped != 6*3 {
		t.Errorf("%d rows are counted as dropped, want 18", s.in.Dropped)
	}
}

// Messages that are not of a host are refused, and never a panic.
func FuzzDecodeItem(f *testing.F) {
	good, err := EncodeItem(&Header{Query: "q", Host: "h", Kind: ItemRows, Seq: 3, Needs: 2, Part: 1, Parts: 2, Flush: true}, []byte("rows"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{})
	f.Add([]byte{255, 255, 255, 255, '{', '}'})
	f.Fuzz(func(t *testing.T, msg []byte) {
		h, rows, err := DecodeItem(msg)
		if err != nil {
			return
		}
		s := NewStream()
		s.Add(h, rows, time.Unix(1, 0))
		s.Answer(1, time.Unix(9, 0))
	})
}

// A host's clock is measured by a lease and what the host returns of it.
func TestOffset(t *testing.T) {
	// The host is 100 ahead; there and back take 10 each; it answers after 50.
	e := Echo{Sent: 1000, Received: 1110, Returned: 1160}
	if ahead, by := e.Offset(1070); ahead != 100 || by != 10 {
		t.Errorf("ahead by %v ± %v", ahead, by)
	}
}

// Another root receives the beginning and all that was not acknowledged, whatever the network
// does.
func TestAnotherRootReceivesWhatIsKept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		net := &network{rt: rt, bad: true}
		s := &sending{out: NewOutbox("q", "h", "i"), in: NewStream(), net: net, now: time.Unix(1, 0)}
		s.out.Restarts = true
		var want []string
		add := func(kind ItemKind, text string) {
			ms, err := s.out.Add(Header{Kind: kind, Text: text}, InOrder, nil, 0)
			if err != nil {
				rt.Fatal(err)
			}
			want = append(want, text)
			net.send(ms)
		}
		add(ItemBegin, "begin")
		n := rapid.IntRange(0, 12).Draw(rt, "items")
		again := rapid.IntRange(0, n).Draw(rt, "restart")
		var first []string
		for i := range n {
			if i == again {
				first, s.got, s.in = s.got, nil, NewStream()
			}
			add(ItemNotice, fmt.Sprintf("%02d", i))
			s.receive(rt, rapid.IntRange(0, 5).Draw(rt, "received"))
		}
		if again == n {
			first, s.got, s.in = s.got, nil, NewStream()
		}
		add(ItemEnd, "end")
		s.rest(rt)
		if len(s.got) == 0 || s.got[0] != "begin" || !slices.Equal(s.got[1:], want[len(want)-len(s.got)+1:]) {
			rt.Fatalf("the second root has received %q of %q", s.got, want)
		}
		if len(first)+len(s.got)-1 < len(want)-1 {
			rt.Fatalf("%q and %q of %q were received", first, s.got, want)
		}
		if !s.out.Empty() {
			rt.Fatalf("%d items were never acknowledged", len(s.out.items))
		}
	})
}
