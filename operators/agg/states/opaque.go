package states

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/operators/rowstore"
	"endoscope/planner/types"
)

// A state in one opaque column (plan.OpaqueState) begins with the version of its
// format. States may come from another machine, so readers check every length and
// count.

// ErrNotState is the error for bytes that are not a state of the expected version.
var ErrNotState = errors.New("the state of an aggregate cannot be read: it is damaged, or of another version")

// At returns the value of a BYTES column at row r.
func At(c *batch.Column, r uint16) []byte { return []byte(c.Values[c.Code[r]]) }

// AppendAll appends the states of groups to out, the columns state and n. n returns
// the number of values of a group; encode appends a state after its version byte.
func AppendAll(groups []uint32, out []batch.Column, version byte, n func(group uint32) int64, encode func(group uint32, to []byte) []byte) {
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

// Merge calls merge for each state, without its version byte.
func Merge(in *fold.Input, state []batch.Column, version byte, merge func(group uint32, state []byte) bool) error {
	for _, r := range in.Rows {
		b := At(&state[0], r)
		if len(b) == 0 || b[0] != version || !merge(in.Groups[r], b[1:]) {
			return ErrNotState
		}
	}
	return nil
}

// AppendValue appends a value without its type. The value must not be NULL.
func AppendValue(to []byte, v types.Value) []byte {
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
			to = AppendValue(append(to, byte(x.Type)), x)
		}
		return to
	}
	return appendSized(to, rowstore.AnyText(v.A))
}

func appendSized(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// Reader reads the parts of a state. After an error Bad is set and all reads return
// zero.
type Reader struct {
	B   []byte
	Bad bool
}

func (s *Reader) fail() {
	s.B, s.Bad = nil, true
}

func (s *Reader) uvarint() uint64 {
	v, n := binary.Uvarint(s.B)
	if n <= 0 {
		s.fail()
		return 0
	}
	s.B = s.B[n:]
	return v
}

func (s *Reader) varint() int64 {
	v, n := binary.Varint(s.B)
	if n <= 0 {
		s.fail()
		return 0
	}
	s.B = s.B[n:]
	return v
}

func (s *Reader) byte() byte {
	if len(s.B) == 0 {
		s.fail()
		return 0
	}
	v := s.B[0]
	s.B = s.B[1:]
	return v
}

func (s *Reader) word() uint64 {
	if len(s.B) < 8 {
		s.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(s.B)
	s.B = s.B[8:]
	return v
}

// bytes returns the next n bytes.
func (s *Reader) bytes(n uint64) []byte {
	if n > uint64(len(s.B)) {
		s.fail()
		return nil
	}
	v := s.B[:n]
	s.B = s.B[n:]
	return v
}

func (s *Reader) text() string { return string(s.bytes(s.uvarint())) }

// Count reads a number of values. Each value has at least one byte, which bounds it.
func (s *Reader) Count() int {
	n := s.uvarint()
	if n > uint64(len(s.B)) {
		s.fail()
		return 0
	}
	return int(n)
}

// Occurrences reads a positive count.
func (s *Reader) Occurrences() int64 {
	n := s.uvarint()
	if n == 0 || n > 1<<62 {
		s.fail()
		return 0
	}
	return int64(n)
}

// maxStateDepth limits the nesting of lists in a state.
const maxStateDepth = 32

// Value reads a value of type t that AppendValue wrote.
func (s *Reader) Value(t types.Type, depth int) types.Value {
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
		n := s.Count()
		if depth == maxStateDepth {
			s.fail()
			return v
		}
		// A value is larger than its state, and lists may be nested: the stated number is
		// not allocated before it is read.
		list := make([]types.Value, 0, min(n, 16))
		for len(list) < n && !s.Bad {
			elem := types.Type(s.byte())
			if elem == types.Null {
				list = append(list, types.NullOf(types.Null))
				continue
			}
			list = append(list, s.Value(elem, depth+1))
		}
		v.A = list
	default:
		s.fail()
	}
	return v
}

// sentEncoding is an ENCODING read from a state, which has only its text.
type sentEncoding string

func (e sentEncoding) String() string { return string(e) }

func (e sentEncoding) MarshalJSON() ([]byte, error) { return json.Marshal(string(e)) }

// Of implements encoders.Encoding. A state does not have the source.
func (e sentEncoding) Of() encoders.Source { return encoders.Source{} }
