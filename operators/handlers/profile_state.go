package handlers

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// AddProfile adds what another profile has accumulated.
func (p *Profile) AddProfile(o *Profile) {
	p.trie.Merge(&o.trie)
	p.whole.Merge(&o.whole)
}

// AppendBinary appends what [ReadProfile] reads: the trie and then the tree of all
// functions. Names are 0 and the name where they come first, and then 1, 2, ...
func (p *Profile) AppendBinary(to []byte) []byte {
	w := profileWriter{to: to, names: map[string]uint64{}}
	w.trie(&p.trie)
	w.trie(&p.whole)
	return w.to
}

type profileWriter struct {
	to    []byte
	names map[string]uint64
}

func (w *profileWriter) number(n uint64) { w.to = binary.AppendUvarint(w.to, n) }

func (w *profileWriter) name(n Name) {
	for _, s := range []string{n.Function, n.Module} {
		known := w.names[s]
		w.number(known)
		if known == 0 {
			w.names[s] = uint64(len(w.names) + 1)
			w.number(uint64(len(s)))
			w.to = append(w.to, s...)
		}
	}
}

func (w *profileWriter) trie(t *Trie) {
	w.number(t.Samples)
	w.number(t.Folded)
	w.number(uint64(len(t.callbacks)))
	for _, name := range slices.SortedFunc(maps.Keys(t.callbacks), compareNames) {
		w.name(name)
		w.number(t.callbacks[name])
	}
	w.children(&t.root)
	w.children(&t.pools)
}

func (w *profileWriter) children(n *Node) {
	w.number(uint64(len(n.children)))
	for _, c := range n.Children() {
		w.name(c.Name)
		system := uint64(0)
		if c.system {
			system = 1
		}
		w.number(system)
		for _, k := range c.Own {
			w.number(k)
		}
		w.children(c)
	}
}

// ReadProfile reads what [Profile.AppendBinary] has written.
func ReadProfile(b []byte) (*Profile, error) {
	p := NewProfile()
	r := profileReader{b: b}
	r.trie(&p.trie)
	r.trie(&p.whole)
	if r.bad || len(r.b) > 0 {
		return nil, errors.New("the state of a trie cannot be read")
	}
	return p, nil
}

// profileReader reads parts of a profile. After something that cannot be read all
// numbers are 0.
type profileReader struct {
	b     []byte
	bad   bool
	names []string
}

func (r *profileReader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// count is how many things follow, each of which takes at least a byte.
func (r *profileReader) count() int {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return 0
	}
	return int(n)
}

func (r *profileReader) text() string {
	k := r.number()
	if k > uint64(len(r.names)) {
		r.b, r.bad = nil, true
	}
	if r.bad {
		return ""
	}
	if k == 0 {
		n := r.count()
		r.names = append(r.names, string(r.b[:n]))
		r.b = r.b[n:]
		k = uint64(len(r.names))
	}
	return r.names[k-1]
}

func (r *profileReader) name() (n Name) {
	n.Function = r.text()
	n.Module = r.text()
	return n
}

func (r *profileReader) trie(t *Trie) {
	t.Samples, t.Folded = r.number(), r.number()
	if n := r.count(); n > 0 {
		t.callbacks = make(map[Name]uint64, n)
		for range n {
			name := r.name()
			t.callbacks[name] = r.number()
		}
	}
	r.children(t, &t.root, 0)
	r.children(t, &t.pools, 0)
}

// maxStateDepth is how deep the nodes of a trie may lie.
const maxStateDepth = 10_000

func (r *profileReader) children(t *Trie, n *Node, depth int) {
	count := r.count()
	if depth == maxStateDepth {
		r.bad = true
	}
	for range count {
		name := r.name()
		if r.bad {
			return
		}
		c := n.child(t, name)
		c.system = r.number() == 1
		for i := range c.Own {
			c.Own[i] = r.number()
		}
		r.children(t, c, depth+1)
	}
}
