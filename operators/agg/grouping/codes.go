package grouping

import (
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/types"
)

// Codes assigns codes to the strings of a key column, valid as long as the groups.
// While all batches have one dictionary it uses the codes of that dictionary: the
// source then has already paid for coding. When a second dictionary appears it
// creates its own dictionary, which begins with the same codes, and translates.
//
// LISTs and ENCODINGs have codes too: those of their texts, which equal values
// share.
type Codes struct {
	dict   *batch.Dict
	Values []string // the newest snapshot of dict
	Own    bool     // dict is ours
	tables map[*batch.Dict][]uint32
	anys   []any // by code, of LIST and ENCODING
	lists  map[knownList]uint32
	buf    [batch.MaxRows]uint32
}

// knownList identifies a LIST by the address of its elements: equal stacks of a
// stream are one value, whose text is then made once.
type knownList struct {
	first *types.Value
	len   int
}

// maxLists limits how many LISTs a code space identifies in this way. They are
// kept alive.
const maxLists = 16384

func NewCodes() *Codes {
	return &Codes{tables: map[*batch.Dict][]uint32{}}
}

// Size is greater than every code assigned so far.
func (s *Codes) Size() int { return len(s.Values) }

// Translate returns the codes of the rows of c, by physical row. They are valid
// until the next call. The code of a NULL is undefined.
func (s *Codes) Translate(c *batch.Column, rows []uint16) []uint32 {
	if c.Type.Physical() == types.PhysAny {
		return s.translateAny(c, rows)
	}
	if len(c.Values) == 0 { // every row is NULL
		return s.buf[:]
	}
	if s.dict == nil && c.Dict != nil {
		s.dict = c.Dict
	}
	if !s.Own && c.Dict != nil && c.Dict == s.dict {
		if len(c.Values) > len(s.Values) {
			s.Values = c.Values
		}
		return c.Code
	}
	s.own()
	table := s.table(c)
	for _, r := range rows {
		from := c.Code[r]
		if int(from) >= len(table) { // a NULL
			continue
		}
		to := table[from]
		if to == 0 {
			to = s.dict.Code(c.Values[from]) + 1
			table[from] = to
		}
		s.buf[r] = to - 1
	}
	s.Values = s.dict.Values()
	return s.buf[:]
}

// own replaces a shared dictionary by a copy, with the same codes.
func (s *Codes) own() {
	if !s.Own {
		s.dict, s.Own = batch.NewDictOf(s.Values), true
	}
}

// table returns 1 + our code for each code of c's dictionary, 0 for those not yet
// translated.
func (s *Codes) table(c *batch.Column) []uint32 {
	t := s.tables[c.Dict]
	if missing := len(c.Values) - len(t); missing > 0 {
		if t == nil && len(s.tables) >= rowstore.MaxTables {
			clear(s.tables)
		}
		t = append(t, make([]uint32, missing)...)
	}
	if c.Dict != nil {
		s.tables[c.Dict] = t
	}
	return t
}

func (s *Codes) translateAny(c *batch.Column, rows []uint16) []uint32 {
	s.own()
	for _, r := range rows {
		if c.Nulls.Get(int(r)) {
			continue
		}
		s.buf[r] = s.codeOfAny(c.Any[r])
	}
	s.Values = s.dict.Values()
	return s.buf[:]
}

func (s *Codes) codeOfAny(v any) uint32 {
	var id knownList
	if list, ok := v.([]types.Value); ok && len(list) > 0 {
		id = knownList{&list[0], len(list)}
		if code, known := s.lists[id]; known {
			return code
		}
	}
	code := s.dict.Code(rowstore.AnyText(v))
	if int(code) == len(s.anys) {
		s.anys = append(s.anys, v)
	}
	if id.first != nil {
		if s.lists == nil {
			s.lists = map[knownList]uint32{}
		}
		if len(s.lists) >= maxLists {
			clear(s.lists)
		}
		s.lists[id] = code
	}
	return code
}

// bind sets the dictionary of dst, a column of results, to that of the codes.
func (s *Codes) bind(dst *batch.Column) {
	if dst.Type.Physical() == types.PhysAny {
		return
	}
	if len(s.Values) == 0 { // NULLs only: their code must be valid all the same
		s.own()
		s.dict.Code("")
		s.Values = s.dict.Values()
	}
	dst.Dict, dst.Values = s.dict, s.Values
}

// output appends the string of a code to dst, which bind has prepared. noCode is
// NULL.
func (s *Codes) output(code uint32, dst *batch.Column) {
	switch {
	case dst.Type.Physical() != types.PhysAny && code == noCode:
		dst.Code = append(dst.Code, 0)
	case dst.Type.Physical() != types.PhysAny:
		dst.Code = append(dst.Code, code)
	case code == noCode:
		dst.Any = append(dst.Any, nil)
	default:
		dst.Any = append(dst.Any, s.anys[code])
	}
}

// Value returns the value of a code as type t.
func (s *Codes) Value(t types.Type, code uint32) types.Value {
	if t.Physical() == types.PhysAny {
		return types.Value{Type: t, A: s.anys[code]}
	}
	return types.Value{Type: t, S: s.Values[code]}
}

// Compact assigns new codes to the strings that are used and drops the others. It
// returns the new code of each old one.
func (s *Codes) Compact(used []bool) (codes []uint32) {
	values, anys := s.Values, s.anys
	codes = make([]uint32, len(values))
	s.Reset()
	s.own()
	for i, u := range used {
		if !u {
			continue
		}
		codes[i] = s.dict.Code(values[i])
		if anys != nil {
			s.anys = append(s.anys, anys[i])
		}
	}
	s.Values = s.dict.Values()
	return codes
}

// Reset drops every code; no code may be used afterwards.
func (s *Codes) Reset() {
	s.dict, s.Values, s.Own, s.anys = nil, nil, false, nil
	clear(s.tables)
	clear(s.lists)
}
