package operators

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"

	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/planner/types"
)

// States of one opaque column (plan.OpaqueState) begin with the version of their
// format. They may come from another machine: what reads them holds nothing of them
// for granted.

// errNoState says that what was to be merged is no state.
var errNoState = errors.New("the state of an aggregate cannot be read: it is damaged, or of another version")

// stateAtRow is the value of a column of BYTES.
func stateAtRow(c *batch.Column, r uint16) []byte { return []byte(c.Values[c.Code[r]]) }

// opaqueStates makes out, the columns state and n, the states of groups that have n
// values. encode appends one behind its version.
func opaqueStates(groups []uint32, out []batch.Column, version byte, n func(group uint32) int64, encode func(group uint32, to []byte) []byte) {
	var b []byte
	for i, g := range groups {
		count := n(g)
		out[1].Int = append(out[1].Int, count)
		if count == 0 {
			out[0].Append(i, types.NullOf(types.Bytes))
			continue
		}
		b = encode(g, append(b[:0], version))
		out[0].Append(i, types.Value{Type: types.Bytes, S: string(b)})
	}
}

// mergeOpaque calls merge with each state, without its version.
func mergeOpaque(in *folding, state []batch.Column, version byte, merge func(group uint32, state []byte) bool) error {
	for _, r := range in.rows {
		b := stateAtRow(&state[0], r)
		if len(b) == 0 || b[0] != version || !merge(in.groups[r], b[1:]) {
			return errNoState
		}
	}
	return nil
}

// appendStateValue appends a value that is not NULL, without its type.
func appendStateValue(to []byte, v types.Value) []byte {
	switch v.Type.Physical() {
	case types.PhysInt, types.PhysBool:
		return binary.AppendVarint(to, v.I)
	case types.PhysFloat:
		return binary.LittleEndian.AppendUint64(to, math.Float64bits(v.F))
	case types.PhysCode:
		return appendSized(to, v.S)
	}
	if list, ok := v.A.([]types.Value); ok {
		to = binary.AppendUvarint(to, uint64(len(list)))
		for _, x := range list {
			if x.IsNull {
				to = append(to, byte(types.Null))
				continue
			}
			to = appendStateValue(append(to, byte(x.Type)), x)
		}
		return to
	}
	return appendSized(to, anyText(v.A))
}

func appendSized(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// stateReader reads the parts of a state. After something that cannot be read, all
// that follows is zero.
type stateReader struct {
	b   []byte
	bad bool
}

func (s *stateReader) fail() {
	s.b, s.bad = nil, true
}

func (s *stateReader) uvarint() uint64 {
	v, n := binary.Uvarint(s.b)
	if n <= 0 {
		s.fail()
		return 0
	}
	s.b = s.b[n:]
	return v
}

func (s *stateReader) varint() int64 {
	v, n := binary.Varint(s.b)
	if n <= 0 {
		s.fail()
		return 0
	}
	s.b = s.b[n:]
	return v
}

func (s *stateReader) byte() byte {
	if len(s.b) == 0 {
		s.fail()
		return 0
	}
	v := s.b[0]
	s.b = s.b[1:]
	return v
}

func (s *stateReader) word() uint64 {
	if len(s.b) < 8 {
		s.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(s.b)
	s.b = s.b[8:]
	return v
}

// bytes are the next n.
func (s *stateReader) bytes(n uint64) []byte {
	if n > uint64(len(s.b)) {
		s.fail()
		return nil
	}
	v := s.b[:n]
	s.b = s.b[n:]
	return v
}

func (s *stateReader) text() string { return string(s.bytes(s.uvarint())) }

// count is a number of values, which each take at least a byte.
func (s *stateReader) count() int {
	n := s.uvarint()
	if n > uint64(len(s.b)) {
		s.fail()
		return 0
	}
	return int(n)
}

// occurrences is how often something occurred.
func (s *stateReader) occurrences() int64 {
	n := s.uvarint()
	if n == 0 || n > 1<<62 {
		s.fail()
		return 0
	}
	return int64(n)
}

// maxStateDepth is how deep lists of a state may lie in each other.
const maxStateDepth = 32

// value reads what appendStateValue has written, of a type.
func (s *stateReader) value(t types.Type, depth int) types.Value {
	v := types.Value{Type: t}
	switch t.Physical() {
	case types.PhysInt:
		v.I = s.varint()
	case types.PhysBool:
		if v.I = s.varint(); v.I&^1 != 0 {
			s.fail()
		}
	case types.PhysFloat:
		v.F = math.Float64frombits(s.word())
	case types.PhysCode:
		v.S = s.text()
	case types.PhysAny:
		if t == types.Encoding {
			v.A = sentEncoding(s.text())
			return v
		}
		n := s.count()
		if depth == maxStateDepth {
			s.fail()
			return v
		}
		list := make([]types.Value, 0, n)
		for range n {
			of := types.Type(s.byte())
			if of == types.Null {
				list = append(list, types.NullOf(types.Null))
				continue
			}
			list = append(list, s.value(of, depth+1))
		}
		v.A = list
	default:
		s.fail()
	}
	return v
}

// sentEncoding is an ENCODING that was counted at another place: its text is left.
type sentEncoding string

func (e sentEncoding) String() string               { return string(e) }
func (e sentEncoding) MarshalJSON() ([]byte, error) { return json.Marshal(string(e)) }

// Of implements encoders.Encoding. Of what it was is not known any more.
func (e sentEncoding) Of() encoders.Source { return encoders.Source{} }

// compareStateValues is a total order of values of one type.
func compareStateValues(a, b types.Value) int {
	switch a.Type.Physical() {
	case types.PhysFloat:
		return compareDoubles(a.F, b.F)
	case types.PhysCode:
		return cmp.Compare(a.S, b.S)
	case types.PhysAny:
		return cmp.Compare(anyText(a.A), anyText(b.A))
	}
	return cmp.Compare(a.I, b.I)
}
