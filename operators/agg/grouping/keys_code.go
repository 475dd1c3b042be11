package grouping

import (
	"math"

	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
)

// codeTable groups by one string: an array maps a code to its group. It needs no
// array as long as codes arrive in the order 0, 1, 2, ..., as they do from a
// source whose rows all reach the aggregate: then the code is the group.
type codeTable struct {
	key    *Key
	byCode []uint32 // 1 + group; 0: none; nil: the code is the group
	null   uint32   // 1 + group of NULL; 0: none
	codes  []uint32 // of each group; noCode for NULL
}

const noCode = math.MaxUint32

func (t *codeTable) Assign(rows []uint16, groups []uint32, limit int) (refused int) {
	if t.byCode == nil {
		rows = t.assignSame(rows, groups, limit)
		if len(rows) == 0 {
			return 0
		}
	}
	t.byCode = rowstore.Extended(t.byCode, t.key.Space.Size())
	if t.key.hasNulls() {
		return t.assignNulls(rows, groups, limit)
	}
	byCode, codes := t.byCode, t.key.Codes
	for _, r := range rows {
		g := byCode[codes[r]]
		if g == 0 {
			if g = t.add(codes[r], limit); g == 0 {
				refused++
			}
			byCode[codes[r]] = g
		}
		groups[r] = g - 1
	}
	return refused
}

// assignSame uses codes as groups as far as possible. It returns the rows from the
// first on that needs byCode, which it then creates.
func (t *codeTable) assignSame(rows []uint16, groups []uint32, limit int) (rest []uint16) {
	codes := t.key.Codes
	if !t.key.hasNulls() {
		n := uint32(len(t.codes))
		i := 0
		for ; i < len(rows); i++ {
			c := codes[rows[i]]
			if c >= n {
				if c != n || int(n) >= limit {
					break
				}
				t.codes = append(t.codes, c)
				n++
			}
			groups[rows[i]] = c
		}
		if rows = rows[i:]; len(rows) == 0 {
			return nil
		}
	}
	t.byCode = make([]uint32, t.key.Space.Size())
	for g, c := range t.codes {
		t.byCode[c] = uint32(g) + 1
	}
	return rows
}

func (t *codeTable) assignNulls(rows []uint16, groups []uint32, limit int) (refused int) {
	for _, r := range rows {
		g, c := &t.null, uint32(noCode)
		if !t.key.Col.Nulls.Get(int(r)) {
			c = t.key.Codes[r]
			g = &t.byCode[c]
		}
		if *g == 0 {
			if *g = t.add(c, limit); *g == 0 {
				refused++
			}
		}
		groups[r] = *g - 1
	}
	return refused
}

func (t *codeTable) add(code uint32, limit int) uint32 {
	if len(t.codes) >= limit {
		return 0
	}
	t.codes = append(t.codes, code)
	return uint32(len(t.codes))
}

func (t *codeTable) Len() int { return len(t.codes) }

func (t *codeTable) Output(_ int, groups []uint32, dst *batch.Column) {
	t.key.Space.bind(dst)
	for i, g := range groups {
		c := t.codes[g]
		if c == noCode {
			dst.Nulls.Set(i)
		}
		t.key.Space.output(c, dst)
	}
}

func (t *codeTable) Mark(_ int, used []bool) {
	for _, c := range t.codes {
		if c != noCode {
			used[c] = true
		}
	}
}

func (t *codeTable) Recode(_ int, codes []uint32) {
	t.byCode = make([]uint32, t.key.Space.Size())
	for g, c := range t.codes {
		if c != noCode {
			t.codes[g] = codes[c]
			t.byCode[codes[c]] = uint32(g) + 1
		}
	}
}

func (t *codeTable) Reset() {
	for _, c := range t.codes {
		if c != noCode && t.byCode != nil {
			t.byCode[c] = 0
		}
	}
	t.null, t.codes = 0, t.codes[:0]
}
