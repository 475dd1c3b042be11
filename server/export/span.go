package export

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// span is a call.
type span struct {
	id, parent [8]byte // parent: 0 for a root
	trace      *trace
	name       string
	start, end int64 // ns since the epoch
	pid, depth int64
	attrs      []*commonpb.KeyValue
	key        string  // what determines the trace; "": the call that encloses it
	link       *span   // the enclosing call, if that is in another trace
	children   []*span // until their trace is known
}

// trace is a trace that spans belong to.
type trace struct {
	id     [16]byte
	parent [8]byte // of its roots: a span of another program
	key    string
}

// place gives a tree of calls its traces, and appends its spans to to.
func (s *span) place(to []*span, parent *span) []*span {
	key := s.key
	if parent == nil && key == "" {
		key = s.common()
	}
	s.join(parent, key)
	to = append(to, s)
	for _, c := range s.children {
		to = c.place(to, s)
	}
	s.children = nil
	return to
}

// common returns the key that all calls of a tree have that have one; "" if there are
// several, or none.
func (s *span) common() string {
	key, several := "", false
	var visit func(*span)
	visit = func(s *span) {
		switch {
		case s.key == "":
		case key == "":
			key = s.key
		case key != s.key:
			several = true
		}
		for _, c := range s.children {
			visit(c)
		}
	}
	if visit(s); several {
		return ""
	}
	return key
}

// join makes a span one of its parent's trace or, if it has a key of its own, of that one.
func (s *span) join(parent *span, key string) {
	switch {
	case parent != nil && (key == "" || key == parent.trace.key):
		s.trace, s.parent = parent.trace, parent.id
	default:
		s.trace = traceOf(key)
		s.parent, s.link = s.trace.parent, parent
	}
}

// traceOf returns the trace of a key: a trace id in hexadecimal, a traceparent of W3C Trace
// Context, or any other text, of which the id is made. Without a key it is a new one.
func traceOf(key string) *trace {
	t := &trace{key: key}
	if key == "" {
		binary.BigEndian.PutUint64(t.id[:], rand.Uint64())
		binary.BigEndian.PutUint64(t.id[8:], rand.Uint64()|1)
		return t
	}
	id := key
	if parts := strings.Split(key, "-"); len(parts) >= 4 && len(parts[0]) == 2 && len(parts[1]) == 32 && len(parts[2]) == 16 {
		if _, err := hex.Decode(t.parent[:], []byte(parts[2])); err == nil {
			id = parts[1]
		}
	}
	if n, err := hex.Decode(t.id[:], []byte(id[:min(len(id), 32)])); len(id) == 32 && err == nil && n == 16 && t.id != [16]byte{} {
		return t
	}
	sum := sha256.Sum256([]byte(key))
	t.parent = [8]byte{}
	copy(t.id[:], sum[:])
	return t
}
