package operators

import (
	"math/rand/v2"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// hashSeed is chosen per process: what is grouped may be chosen by somebody
// who wants it to collide.
var hashSeed = rand.Uint64() | 1

// codeSpace gives the strings of a key column codes that last as long as the
// groups. As long as all batches have one dictionary it uses that one's codes
// as they are: coding strings is then paid for once, by the source. When a
// second dictionary appears it makes one of its own that begins with the same
// codes, and translates.
//
// LISTs and ENCODINGs have codes too: those of a text that equal ones share.
type codeSpace struct {
	dict   *batch.Dict
	values []string // the newest snapshot of dict
	own    bool     // dict is ours
	tables map[*batch.Dict][]uint32
	anys   []any // by code, of LIST and ENCODING
	lists  map[knownList]uint32
	buf    [batch.MaxRows]uint32
}

// knownList identifies a LIST by where its elements are: a stream's equal stacks
// are one value, whose text is then made once.
type knownList struct {
	first *types.Value
	len   int
}

// maxLists is how many LISTs a code space knows in this way. They are kept alive.
const maxLists = 16384

func newCodeSpace() *codeSpace {
	return &codeSpace{tables: map[*batch.Dict][]uint32{}}
}

// size is more than any code given so far.
func (s *codeSpace) size() int { return len(s.values) }

// translate gives the codes of the rows of c, by physical row. They are valid
// until the next call. The code of a NULL means nothing.
func (s *codeSpace) translate(c *batch.Column, rows []uint16) []uint32 {
	if c.Type.Physical() == types.PhysAny {
		return s.translateAny(c, rows)
	}
	if len(c.Values) == 0 { // every row is NULL
		return s.buf[:]
	}
	if s.dict == nil && c.Dict != nil {
		s.dict = c.Dict
	}
	if !s.own && c.Dict != nil && c.Dict == s.dict {
		if len(c.Values) > len(s.values) {
			s.values = c.Values
		}
		return c.Code
	}
	s.takeOver()
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
	s.values = s.dict.Values()
	return s.buf[:]
}

// takeOver makes the dictionary ours, with the codes there are.
func (s *codeSpace) takeOver() {
	if !s.own {
		s.dict, s.own = batch.NewDictOf(s.values), true
	}
}

// table is 1 + our code for each code of c's dictionary, 0 where it is not
// known yet.
func (s *codeSpace) table(c *batch.Column) []uint32 {
	t := s.tables[c.Dict]
	if missing := len(c.Values) - len(t); missing > 0 {
		if t == nil && len(s.tables) >= maxTables {
			clear(s.tables)
		}
		t = append(t, make([]uint32, missing)...)
	}
	if c.Dict != nil {
		s.tables[c.Dict] = t
	}
	return t
}

func (s *codeSpace) translateAny(c *batch.Column, rows []uint16) []uint32 {
	s.takeOver()
	for _, r := range rows {
		if c.Nulls.Get(int(r)) {
			continue
		}
		s.buf[r] = s.codeOfAny(c.Any[r])
	}
	s.values = s.dict.Values()
	return s.buf[:]
}

func (s *codeSpace) codeOfAny(v any) uint32 {
	var id knownList
	if list, ok := v.([]types.Value); ok && len(list) > 0 {
		id = knownList{&list[0], len(list)}
		if code, known := s.lists[id]; known {
			return code
		}
	}
	code := s.dict.Code(anyText(v))
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

// bind gives dst, a column of results, the dictionary of the codes.
func (s *codeSpace) bind(dst *batch.Column) {
	if dst.Type.Physical() == types.PhysAny {
		return
	}
	if len(s.values) == 0 { // NULLs only: their code must be valid all the same
		s.takeOver()
		s.dict.Code("")
		s.values = s.dict.Values()
	}
	dst.Dict, dst.Values = s.dict, s.values
}

// output appends the string of a code to dst, which bind has prepared. noCode
// stands for NULL.
func (s *codeSpace) output(code uint32, dst *batch.Column) {
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

// value is the value of a code as type t.
func (s *codeSpace) value(t types.Type, code uint32) types.Value {
	if t.Physical() == types.PhysAny {
		return types.Value{Type: t, A: s.anys[code]}
	}
	return types.Value{Type: t, S: s.values[code]}
}

// compact gives new codes to the strings that are used and forgets the others.
// It returns the new code of each old one.
func (s *codeSpace) compact(used []bool) (codes []uint32) {
	values, anys := s.values, s.anys
	codes = make([]uint32, len(values))
	s.reset()
	s.takeOver()
	for i, u := range used {
		if !u {
			continue
		}
		codes[i] = s.dict.Code(values[i])
		if anys != nil {
			s.anys = append(s.anys, anys[i])
		}
	}
	s.values = s.dict.Values()
	return codes
}

// reset forgets every code; nobody may have one any more.
func (s *codeSpace) reset() {
	s.dict, s.values, s.own, s.anys = nil, nil, false, nil
	clear(s.tables)
	clear(s.lists)
}
